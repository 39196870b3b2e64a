"""What both faces of the consumer do alike and without waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cy.fetched import Chunk
from cy.records import Record, Records, RecordsIterator
from pyclient.config import CONSUMER, Config, load
from pyclient.consumer.core import ConsumerCore, OnCommit, Topics
from pyclient.consumer.subscription import EARLIEST, LATEST
from pyclient.consumer.types import GroupMetadata, OffsetAndMetadata
from pyclient.topic_partition import TopicPartition, partition_of

__all__ = ["ConsumerApi", "Offsets", "OnCommit", "Topics", "offsets_of", "settings_of"]

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


def settings_of(
    bootstrap_servers: Any, config: Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> Config:
    """The consumer's settings; without ``group_id`` nothing is committed. Raises ConfigError."""
    return load(CONSUMER, bootstrap_servers, config, settings)


def offsets_of(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """With plain offsets as they are meant. Raises TypeError."""
    return {partition_of(tp): offset_of(row) for tp, row in offsets.items()}


def offset_of(given: object) -> OffsetAndMetadata:
    """An offset as it is committed. Raises TypeError."""
    if isinstance(given, int):
        return OffsetAndMetadata(given)
    if isinstance(given, OffsetAndMetadata):
        return given
    raise TypeError(f"offset {given!r} is neither int nor OffsetAndMetadata")


def offset_behind(record: Record) -> dict[TopicPartition, OffsetAndMetadata]:
    """What to commit when a record, and those before it, are done."""
    place = TopicPartition(record.topic, record.partition)
    return {place: OffsetAndMetadata(record.offset + 1, record.leader_epoch)}


class ConsumerApi:
    """Positions, pauses and what is known without asking. Guarded by the core's lock."""

    _core: ConsumerCore
    _reading: RecordsIterator | None = None
    """Of ``for record in consumer``: what was polled and not all looked at yet."""

    # -- iteration -----------------------------------------------------------------------------------

    def _unread(self) -> dict[TopicPartition, int]:
        """Where the iteration stands: offsets of records that were polled and not reached."""
        if self._reading is None:
            return {}
        return {TopicPartition(*place): offset for place, offset in self._reading.rest().items()}

    def _rewind(self) -> None:
        """What the iteration did not reach is polled again."""
        rest, reading, self._reading = self._unread(), self._reading, None
        if reading is not None:
            reading.stop()
        with self._core.lock:
            for tp, offset in rest.items():
                state = self._core.subscription.states.get(tp)
                if state is not None and state.position is not None:
                    state.seek(offset)
        if rest:
            self._core.fetcher.wake()

    def _given(self, chunks: list[Chunk]) -> Records:
        """What ``poll`` gives, when the interceptors have seen it."""
        records = Records(chunks)
        if chunks and self._core.interceptors:
            self._core.interceptors.on_consume(records)
        return records

    # -- positions -----------------------------------------------------------------------------------

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        with self._core.lock:
            return set(self._core.subscription.states)

    def subscription(self) -> set[str]:
        """The topics that are subscribed to; of a pattern those that match, where the coordinator matches it
        (KIP-848) those that this consumer has partitions of.
        """
        subscription = self._core.subscription
        return set(subscription.topics) if subscription.by_group else set()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """For each partition that has one the offset of the next record: for ``Producer.send_offsets``."""
        found = self._core.positions()
        for tp, offset in self._unread().items():
            if tp in found:
                found[tp] = OffsetAndMetadata(offset, found[tp].leader_epoch)
        return found

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """The next record read is the one at ``offset``. Raises IllegalState where the partition is
        not assigned, ValueError for an offset below 0.
        """
        where = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        if where.offset < 0:
            raise ValueError(f"offset {where.offset} is below 0")
        self._rewind()
        with self._core.lock:
            self._core.subscription.state(partition_of(partition)).seek(where.offset, where.leader_epoch)
        self._core.fetcher.wake()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """To the first record, of all partitions where none are named."""
        self._seek_by(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Behind the last record (read_committed: behind the last stable one)."""
        self._seek_by(partitions, LATEST)

    def _seek_by(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        self._rewind()
        core = self._core
        with core.lock:
            for tp in list(partitions) or list(core.subscription.states):
                core.subscription.state(partition_of(tp)).seek_by(timestamp)
        core.client.loop.call_soon_threadsafe(core.on_assignment)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """``poll`` gives no records of these until ``resume``. A rebalance keeps it so for the partitions that
        this consumer keeps, by every protocol and assignor; in Kafka's own consumer an eager one ends all pauses.
        """
        self._rewind()
        with self._core.lock:
            for tp in list(partitions):
                self._core.subscription.state(partition_of(tp)).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these again."""
        with self._core.lock:
            for tp in list(partitions):
                self._core.subscription.state(partition_of(tp)).paused = False
        self._core.fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with self._core.lock:
            return self._core.subscription.paused()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end, as of the last fetch; None before the first."""
        tp = partition_of(partition)
        with self._core.lock:
            state = self._core.subscription.state(tp)
            committed = self._core.config.isolation_level == "read_committed"
            end = state.last_stable_offset if committed else state.high_watermark
            position = self._unread().get(tp, state.position)
            return None if end < 0 or position is None else max(0, end - position)

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group: for ``Producer.send_offsets``. Raises IllegalState without a group."""
        return self._core.identity()

    def wakeup(self) -> None:
        """Ends the poll that waits, or the next one, with WakeupError. Any thread, signal handlers too."""
        self._core.wakeup()

    def _to_commit(self, offsets: Offsets | Record | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self.positions()
        return offset_behind(offsets) if isinstance(offsets, Record) else offsets_of(offsets)
