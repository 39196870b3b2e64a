"""The offsets of one shard: committed ones by group, and pending ones of open transactions.

An offset that a transaction commits is *pending* until the producer's marker. A commit marker makes it the committed
offset, unless a later one has been committed meanwhile; an abort marker drops it. While a partition has a pending
offset, its offset is *unstable* (KIP-447): it does not expire, and its group is not removed. A tombstone deletes the
committed offset and all pending ones.

Only ``GroupShard.replay`` and ``replay_marker`` change this.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from pybroker.coordinator.group.offsets import CommittedOffset, Offsets
from pybroker.coordinator.shard import Producer

Key = tuple[str, str, int]
"""A group, a topic and a partition."""

_NOTHING = Offsets()


class Pending:
    """The pending offsets of one producer's transaction."""

    __slots__ = ("epoch", "offsets")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.offsets: dict[Key, CommittedOffset] = {}


class OffsetStore:
    """The committed and pending offsets of all groups of a shard."""

    def __init__(self) -> None:
        self._groups: dict[str, Offsets] = {}
        self._groups_of: dict[str, dict[str, None]] = {}
        """The groups with committed offsets, by topic."""
        self._pending: dict[int, Pending] = {}
        """The pending offsets by producer id."""
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        """The producer ids by group and partition."""

    # Reading

    def of(self, group_id: str) -> Offsets:
        """Returns the group's committed offsets; the caller must not change them."""
        return self._groups.get(group_id, _NOTHING)

    def holds(self, group_id: str) -> bool:
        """Returns whether the group has committed or pending offsets."""
        return group_id in self._groups or group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether the partition has a pending offset."""
        group = self._open.get(group_id)
        return group is not None and (topic, partition) in group

    def pending(self, group_id: str) -> Set[tuple[str, int]]:
        """Returns the partitions of the group with pending offsets."""
        return self._open.get(group_id, {}).keys()

    def has_transaction(self, producer: Producer) -> bool:
        """Returns whether the producer has, in this epoch, a transaction with pending offsets here."""
        pending = self._pending.get(producer.id)
        return pending is not None and pending.epoch == producer.epoch

    def of_topic(self, topic: str) -> Iterator[tuple[str, int]]:
        """Yields groups and partitions of the topic with committed or pending offsets."""
        for group_id in self._groups_of.get(topic, ()):
            for partition in self._groups[group_id].topics()[topic]:
                yield group_id, partition
        for group_id, places in self._open.items():
            known = self.of(group_id).topics().get(topic, {})
            for name, index in places:
                if name == topic and index not in known:
                    yield group_id, index

    # Replaying

    def commit(self, key: Key, committed: CommittedOffset) -> None:
        """Sets a committed offset."""
        group_id, topic, partition = key
        offsets = self._groups.get(group_id)
        if offsets is None:
            offsets = self._groups[group_id] = Offsets()
        if topic not in offsets.topics():
            self._groups_of.setdefault(topic, {})[group_id] = None
        offsets.set(topic, partition, committed)

    def hold(self, key: Key, committed: CommittedOffset, producer: Producer) -> None:
        """Sets a pending offset of the producer's transaction."""
        pending = self._pending.get(producer.id)
        if pending is None:
            pending = self._pending[producer.id] = Pending(producer.epoch)
        pending.epoch = producer.epoch
        pending.offsets[key] = committed
        group_id, topic, partition = key
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer.id)

    def remove(self, key: Key) -> None:
        """Deletes the committed and pending offsets of a partition."""
        group_id, topic, partition = key
        offsets = self._groups.get(group_id)
        if offsets is not None and offsets.remove(topic, partition):
            groups = self._groups_of[topic]
            del groups[group_id]
            if not groups:
                del self._groups_of[topic]
            if not offsets:
                del self._groups[group_id]
        places = self._open.get(group_id)
        if places is not None and (topic, partition) in places:
            for producer_id in places.pop((topic, partition)):
                del self._pending[producer_id].offsets[key]
            if not places:
                del self._open[group_id]

    def end(self, producer_id: int, *, committed: bool) -> None:
        """Ends the producer's transaction: commits or drops its pending offsets."""
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        for key, offset in pending.offsets.items():
            group_id, topic, partition = key
            self._close(group_id, (topic, partition), producer_id)
            if committed and offset.number > self.of(group_id).get(topic, partition).number:
                self.commit(key, offset)

    def _close(self, group_id: str, partition: tuple[str, int], producer_id: int) -> None:
        group = self._open[group_id]
        producers = group[partition]
        producers.discard(producer_id)
        if not producers:
            del group[partition]
            if not group:
                del self._open[group_id]
