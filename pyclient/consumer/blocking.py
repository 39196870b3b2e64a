"""The blocking face of the consumer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from cy.fetched import Chunk
from cy.records import Record, Records
from pyclient.config import Config
from pyclient.consumer.api import ConsumerApi, Offsets, OnCommit, Topics, settings_of
from pyclient.consumer.appointments import LOST, REVOKED, SETTLE
from pyclient.consumer.arrow import record_batch
from pyclient.consumer.core import COMMIT_SHARE, ConsumerCore
from pyclient.consumer.subscription import EARLIEST, LATEST
from pyclient.consumer.types import OffsetAndMetadata, OffsetAndTimestamp, RebalanceListener
from pyclient.core.cluster import PartitionInfo
from pyclient.core.runner import Runner
from pyclient.topic_partition import TopicPartition, partition_of, partitions_of

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]


class Consumer(ConsumerApi):
    """Reads records, alone (``assign``) or as a member of a group (``subscribe``).

        with Consumer("localhost:9092", group_id="g", topics=["flights"]) as consumer:
            for record in consumer:
                ...

    One thread at a time may use it; ``wakeup`` any. Settings are ``pyclient.config.CONSUMER``'s.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str] | None = None,
        /,
        config: Mapping[str, Any] | None = None,
        *,
        topics: Topics = (),
        listener: RebalanceListener | None = None,
        **settings: Any,
    ) -> None:
        """Does not wait: connects beside. Raises ConfigError; what a wrong ``topics`` raises."""
        given = settings_of(bootstrap_servers, config, settings)
        self._ready = threading.Event()
        self._listener = listener
        self._is_closed = False
        self._runner = Runner(f"consumer of {', '.join(given.bootstrap_servers)}")
        try:
            self._core = self._runner.run(_make(given))
            self._core.on_ready = self._ready.set
            self._limit: int = given.max_poll_records
            if topics:
                self._runner.run(_open(self._core, topics, listener is not None))
        except BaseException:
            self._is_closed = True
            self._runner.stop()
            raise

    # -- the life of a consumer ----------------------------------------------------------------------

    def connect(self, timeout: float | None = None) -> None:
        """Connects now, in ``timeout`` seconds. Raises ConnectionFailed."""
        if not self._core.is_started:
            self._runner.run(self._core.start(timeout))

    def close(self, timeout: float = 30.0) -> None:
        """Commits what was given (with enable.auto.commit), leaves the group, ends the connections. What
        cannot be done in ``timeout`` seconds is given up, and logged.
        """
        self._close(commit=True, timeout=timeout)

    def _close(self, *, commit: bool, timeout: float) -> None:
        if self._is_closed or self._runner.forked:
            return
        self._is_closed = True
        end = time.monotonic() + timeout
        try:
            if self._core.is_started:
                self._give_up(commit, COMMIT_SHARE * timeout)
            self._runner.run(self._core.close(commit=commit, timeout=max(0.0, end - time.monotonic())))
        finally:
            self._runner.stop()

    def _give_up(self, commit: bool, timeout: float) -> None:
        """The listener sees the last revocation while commits are still possible."""
        core = self._core
        self._rewind()
        if self._listener is not None and core.subscription.by_group and core.subscription.states:
            if commit:
                core.settle()
                self._runner.run(core.commit_settled(timeout))
            self._tell(REVOKED, self.assignment())

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._runner.abandon()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception what the last poll gave is not committed automatically."""
        self._close(commit=kind is None or kind is KeyboardInterrupt, timeout=30.0)

    # -- what to read --------------------------------------------------------------------------------

    def subscribe(self, topics: Topics, *, listener: RebalanceListener | None = None) -> None:
        """Reads these topics, or those whose whole name matches a pattern, with the others of the group.

        With group_protocol="consumer" the group's coordinator matches the pattern, by RE2/J (KIP-848): without
        look-around and back-references, else ``poll`` raises InvalidRegularExpression. The client itself
        matches where the broker is too old for that, or the pattern matches internal topics (exclude.internal.topics).
        """
        self._core.check_topics(topics)
        self.connect()
        self._rewind()
        self._listener = listener
        self._runner.run(self._core.subscribe(topics, listener is not None))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Reads exactly these partitions, without a group's assignment."""
        wanted = partitions_of(partitions)
        self.connect()
        self._rewind()
        self._runner.run(self._core.assign(wanted))

    def assign_range(self, partition: TopicPartition, start: int, end: int) -> None:
        """Reads one partition, from offset ``start`` up to, not including, ``end``. Nothing behind it is fetched, and
        ``poll`` is empty at once when all was given. Raises ValueError for a range that is none,
        UnknownTopicOrPartition.
        """
        tp = partition_of(partition)
        if not 0 <= start <= end:
            raise ValueError(f"offsets {start} to {end} are no range")
        self.connect()
        self._rewind()
        self._runner.run(self._core.assign_range(tp, start, end))

    def unsubscribe(self) -> None:
        """Reads nothing any more; leaves the group."""
        self._rewind()
        self._core.settle()
        if self._listener is not None and self._core.subscription.by_group:
            self._tell(REVOKED, self.assignment())
        self._runner.run(self._core.unsubscribe())

    # -- records -------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> Records:
        """The next records, at most ``max_records`` (max.poll.records): waits ``timeout`` seconds for
        the first (None: as long as it takes), then gives an empty list. Calls the rebalance listener.

        Raises WakeupError, NoOffsetForPartition, CorruptRecords, what the group's coordinator refuses …
        """
        return self._given(self._poll(timeout, max_records or self._limit))

    def poll_arrow(
        self, max_rows: int = 100_000, timeout: float | None = None, wanted: pyarrow.Schema | None = None
    ) -> pyarrow.RecordBatch:
        """As ``poll``, as a pyarrow.RecordBatch: topic, partition, offset, timestamp, key, value, headers.

        ``wanted``: other columns, of these and ``timestamp_type`` (int32; 1: LogAppendTime), by a schema in which a
        timestamp may be in ms, us or ns. Keys and values are the bytes: deserializers are not called.
        """
        return record_batch(self._poll(timeout, max_rows), wanted)

    def _poll(self, timeout: float | None, limit: int) -> list[Chunk]:
        core = self._core
        if self._reading is not None:
            self._rewind()
        self._runner.check()
        deadline = None if timeout is None else time.monotonic() + timeout
        with core.polling():
            while True:
                self._ready.clear()
                core.check()
                if core.appointments:
                    self._keep_appointments()
                chunks = core.take(limit)
                if chunks or core.subscription.is_at_end():
                    return chunks
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return chunks
                self._ready.wait(left)

    def _keep_appointments(self) -> None:
        core = self._core
        while (call := core.appointments.due()) is not None:
            with core.appointments.keeping(call):
                if call.action != SETTLE:
                    self._tell(call.action, call.partitions)

    def _tell(self, action: str, partitions: Collection[TopicPartition]) -> None:
        method = getattr(self._listener, action, None)
        if method is None and action == LOST:
            method = getattr(self._listener, REVOKED, None)
        if method is not None:
            method(partitions)

    def __iter__(self) -> Iterator[Record]:
        """Records without end. Positions and commits count those that were reached, not all polled."""
        while True:
            reading = iter(self.poll())
            self._reading = reading
            yield from reading
            if self._reading is reading:
                self._reading = None

    # -- offsets -------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | Record | None = None, timeout: float | None = None) -> None:
        """Commits offsets, or behind a record, or what was given so far. Raises CommitFailed where the
        group has given the partitions to others; RebalanceInProgress: poll first.
        """
        self._runner.run(self._core.commit(self._to_commit(offsets), timeout))

    def commit_async(self, offsets: Offsets | Record | None = None, on_commit: OnCommit | None = None) -> None:
        """As ``commit``, without waiting. ``on_commit(offsets, error)`` is called on the client's thread, before a
        later ``commit`` of the same partitions returns; behind such a one this one is not sent again, and ``error`` may
        be a retriable one.
        """
        committed = self._to_commit(offsets)
        self._runner.call(lambda: self._core.hold(self._core.commit_telling(committed, on_commit)))

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed."""
        wanted = partitions_of(partitions)
        self.connect()
        return self._runner.run(self._core.fetch_committed(wanted, timeout))

    @overload
    def position(self, partition: None = None) -> dict[TopicPartition, OffsetAndMetadata]: ...

    @overload
    def position(self, partition: TopicPartition, timeout: float | None = None) -> int: ...

    def position(
        self, partition: TopicPartition | None = None, timeout: float | None = None
    ) -> int | dict[TopicPartition, OffsetAndMetadata]:
        """The offset of the next record of a partition, found now if it is not known yet; of all
        partitions, where none is named, as ``positions``.
        """
        if partition is None:
            return self.positions()
        tp = partition_of(partition)
        if tp in (unread := self._unread()):
            return unread[tp]
        return self._runner.run(self._core.position(tp, timeout))

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition. Raises what failed last when ``timeout`` seconds
        (default.api.timeout.ms) are over.
        """
        return self._runner.run(self._core.edges(partitions, EARLIEST, timeout))

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset of the next record to be written; read_committed: the last stable offset. Raises what
        failed last when ``timeout`` seconds (default.api.timeout.ms) are over.
        """
        return self._runner.run(self._core.edges(partitions, LATEST, timeout))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time (ms), None where there is none. Raises what failed last when
        ``timeout`` seconds (default.api.timeout.ms) are over.
        """
        wanted = {partition_of(tp): ms for tp, ms in times.items()}
        return self._runner.run(self._core.offsets(wanted, timeout))

    # -- the cluster -----------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic. Raises UnknownTopicOrPartition."""
        self.connect()
        return self._runner.run(self._core.partitions_for(topic))

    def list_topics(self) -> dict[str, list[PartitionInfo]]:
        """All topics with their partitions."""
        self.connect()
        return self._runner.run(self._core.list_topics())


async def _open(core: ConsumerCore, topics: Topics, has_listener: bool) -> None:
    core.open(topics, has_listener)


async def _make(config: Config) -> ConsumerCore:
    return ConsumerCore(config, asyncio.get_running_loop())
