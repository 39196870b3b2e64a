"""The offsets of one shard: committed ones by group, and those that transactions still hold.

An offset that is committed within a transaction is *pending* until the marker of its producer: then
it is committed, unless another has been committed since, or forgotten. While any is pending for a
partition, the partition's offset is *unstable* (KIP-447), does not expire, and keeps its group. A
tombstone takes the committed offset and all pending ones.

Only ``GroupShard.replay`` and ``replay_marker`` change this.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from pybroker.coordinator.group.offsets import CommittedOffset, Offsets
from pybroker.coordinator.shard import Producer

Key = tuple[str, str, int]
"""Group, topic, partition."""

_NOTHING = Offsets()


class Pending:
    """What the transaction of one producer holds."""

    __slots__ = ("epoch", "offsets")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.offsets: dict[Key, CommittedOffset] = {}


class OffsetStore:
    """All offsets of a shard."""

    def __init__(self) -> None:
        self._groups: dict[str, Offsets] = {}
        self._groups_of: dict[str, dict[str, None]] = {}
        """Groups by the topics for which they have committed."""
        self._pending: dict[int, Pending] = {}
        """By producer id."""
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        """Producers by group and partition."""

    # Reading

    def of(self, group_id: str) -> Offsets:
        """What the group has committed; not to be changed."""
        return self._groups.get(group_id, _NOTHING)

    def holds(self, group_id: str) -> bool:
        """Whether anything is committed or pending for the group."""
        return group_id in self._groups or group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction holds an offset for the partition."""
        group = self._open.get(group_id)
        return group is not None and (topic, partition) in group

    def pending(self, group_id: str) -> Set[tuple[str, int]]:
        """The partitions of the group for which open transactions hold offsets."""
        return self._open.get(group_id, {}).keys()

    def has_transaction(self, producer: Producer) -> bool:
        """Whether the producer has a transaction in this epoch that holds offsets here."""
        pending = self._pending.get(producer.id)
        return pending is not None and pending.epoch == producer.epoch

    def of_topic(self, topic: str) -> Iterator[tuple[str, int]]:
        """Groups and partitions of the topic with committed or pending offsets."""
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
        """The offset counts from now on."""
        group_id, topic, partition = key
        offsets = self._groups.get(group_id)
        if offsets is None:
            offsets = self._groups[group_id] = Offsets()
        if topic not in offsets.topics():
            self._groups_of.setdefault(topic, {})[group_id] = None
        offsets.set(topic, partition, committed)

    def hold(self, key: Key, committed: CommittedOffset, producer: Producer) -> None:
        """The offset will count when the producer's transaction has been committed."""
        pending = self._pending.get(producer.id)
        if pending is None:
            pending = self._pending[producer.id] = Pending(producer.epoch)
        pending.epoch = producer.epoch
        pending.offsets[key] = committed
        group_id, topic, partition = key
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer.id)

    def remove(self, key: Key) -> None:
        """Nothing is committed or pending any more."""
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
        """The producer's transaction has ended."""
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
