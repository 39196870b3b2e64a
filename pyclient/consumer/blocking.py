"""The blocking consumer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from cy.consume.fetched import Chunk
from cy.consume.records import Record, Records
from cy.seconds import not_seconds, seconds
from pyclient.config import Config
from pyclient.consumer.api import (
    ConsumerApi,
    Offsets,
    OnCommit,
    Topics,
    limit_of,
    listener_of,
    patience_of,
    settings_of,
)
from pyclient.consumer.appointments import LOST, REVOKED, SETTLE
from pyclient.consumer.arrow import MOST_BYTES, MOST_ROWS, record_batch
from pyclient.consumer.closing import COMMIT_SHARE, close, commit_first
from pyclient.consumer.core import ConsumerCore
from pyclient.consumer.fetching.fetcher import NO_LIMIT
from pyclient.consumer.subscription import EARLIEST, LATEST
from pyclient.consumer.types import OffsetAndMetadata, OffsetAndTimestamp, RebalanceListener
from pyclient.core.closed import closed
from pyclient.core.cluster import PartitionInfo
from pyclient.core.threads.bell import Bell
from pyclient.core.threads.runner import SLICE, Runner
from pyclient.errors import ClientClosed
from pyclient.other_names import BLOCKING, knows, not_in_ms
from pyclient.public_names import public
from pyclient.topic_partition import TopicPartition, by_partition, partition_of, partitions_of

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

T = TypeVar("T")


@public
@knows(BLOCKING)
class Consumer(ConsumerApi):
    """Reads records from Kafka topics.

    With ``group_id`` the consumer is a member of a group, whose members share the partitions of their topics. Without
    it, the consumer reads all partitions of its topics, including those added later, and commits nothing. ``assign``
    chooses the partitions directly.

        with Consumer("localhost:9092", group_id="g", topics=["flights"]) as consumer:
            for record in consumer:
                ...

    Only one thread at a time may use it, except for ``wakeup``. Java's consumer checks that; this one does not. Each
    poll marks the records of the one before as processed, even if another thread still works on them.

    The settings are those of ``pyclient.config.CONSUMER``.
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
        """Does not wait: the consumer connects in the background. Raises ConfigError, and errors about wrong
        ``topics``.
        """
        given = settings_of(bootstrap_servers, config, settings)
        self._listener = listener_of(listener)
        self._bell = Bell()
        self._is_closed = False
        self._runner = Runner(f"consumer of {', '.join(given.bootstrap_servers)}")
        self._runner.closed = partial(closed, given)
        try:
            self._core = self._runner.run(_make(given))
            self._core.on_ready = self._core.on_wakeup = self._bell.ring
            self._limit: int = given.max_poll_records
            self._patience = patience_of(given)
            if topics:
                self._runner.run(_open(self._core, topics, listener is not None))
        except BaseException:
            self._is_closed = True
            self._runner.stop()
            raise

    # -- life cycle ------------------------------------------------------------------------------------

    def connect(self, timeout: float | None = None) -> None:
        """Connects now, within ``timeout`` seconds. Raises ConnectionFailed."""
        if not self._core.is_started:
            self._run(self._core.start(timeout), timeout)

    def _run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Returns the result of ``work``, within ``timeout`` seconds (default.api.timeout.ms)."""
        return self._runner.run(work, within=self._core.timeout if timeout is None else timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Commits returned records (with enable.auto.commit), leaves the group and closes the connections.

        After ``timeout`` seconds, or after three if no broker can be reached, it gives up what is left and logs that.
        In a callback on the client's thread (``on_commit``) it closes nothing and raises RuntimeError.
        """
        seconds(timeout)
        self._close(done=True, timeout=timeout)

    def _close(self, *, done: bool, timeout: float) -> None:
        """Closes completely, whatever is raised. ``done`` tells that the application has processed the last poll's
        records.
        """
        if not self._runner.is_running:
            return
        self._runner.before_wait()
        with self._runner.closing() as is_first:
            if is_first:
                self._end(done, timeout)

    def _end(self, done: bool, timeout: float) -> None:
        """Closes, or continues a close that a signal interrupted."""
        end, is_interrupted = time.monotonic() + timeout, True
        is_first, self._is_closed = not self._is_closed, True
        try:
            if is_first and done:
                self._rewind()
                self._core.settle()
            if is_first and self._core.is_started:
                self._give_up(COMMIT_SHARE * timeout)
            is_interrupted = False
        except Exception:  # raised by the listener, so the remaining time may be used
            is_interrupted = False
            raise
        finally:
            try:
                left = 0.0 if is_interrupted else max(0.0, end - time.monotonic())
                with suppress(ClientClosed):  # another thread has just closed it
                    self._runner.run(close(self._core, commit=True, timeout=left), within=left)
            finally:
                self._runner.stop()

    def _give_up(self, timeout: float) -> None:
        """Tells the listener about the last revocation while it can still commit."""
        core = self._core
        if self._listener is not None and core.subscription.by_group and core.subscription.states:
            try:
                self._runner.run(commit_first(core, timeout), within=timeout)
            finally:
                self._tell(REVOKED, self.assignment())

    def __del__(self) -> None:
        if hasattr(self, "_core") and not self._is_closed:
            self._runner.abandon()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes. After an exception or Ctrl-C, only records before those of the last poll are committed automatically.
        If the application has processed some of those, it must commit them itself.
        """
        self._close(done=kind is None, timeout=30.0)

    # -- subscription ----------------------------------------------------------------------------------

    def subscribe(self, topics: Topics, *, listener: RebalanceListener | None = None) -> None:
        """Reads these topics, or all topics whose whole name matches a pattern.

        With ``group_id`` the consumer shares them with its group. Without it, the consumer reads them alone, and begins
        where auto.offset.reset says. With ``latest``, partitions that are added later are read from their first record.

        With group_protocol="consumer" the group's coordinator matches the pattern, by RE2/J (KIP-848). For a pattern
        with look-around or back-references ``poll`` then raises InvalidRegularExpression. The client itself matches if
        the broker is too old for that, or if the pattern may match internal topics (exclude.internal.topics).
        """
        topics = self._core.check_topics(topics)
        listener = listener_of(listener)
        self.connect()
        self._rewind()
        self._listener = listener
        self._run(self._core.subscribe(topics, listener is not None))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Reads exactly these partitions, without a group's assignment."""
        wanted = partitions_of(partitions)
        self.connect()
        self._rewind()
        self._run(self._core.assign(wanted))

    def assign_range(self, partition: TopicPartition, start: int, end: int) -> None:
        """Reads one partition from offset ``start`` up to, but not including, ``end``.

        Nothing from ``end`` on is fetched. When all records were returned, ``poll`` returns an empty list at once.
        Raises ValueError for an invalid range, and UnknownTopicOrPartition.
        """
        tp = partition_of(partition)
        if not 0 <= start <= end:
            raise ValueError(f"offsets {start} to {end} are not a range")
        self.connect()
        self._rewind()
        self._run(self._core.assign_range(tp, start, end))

    def unsubscribe(self) -> None:
        """Stops reading and leaves the group."""
        self._rewind()
        self._core.settle()
        if self._listener is not None and self._core.subscription.by_group:
            self._tell(REVOKED, self.assignment())
        self._run(self._core.unsubscribe())

    # -- records -------------------------------------------------------------------------------------

    def poll(
        self, timeout: float | None = None, max_records: int | None = None, timeout_ms: None = None
    ) -> Records:
        """Returns the next records, at most ``max_records`` (default: max.poll.records).

        Waits up to ``timeout`` seconds for the first one (None: without limit), and then returns an empty list. Calls
        the rebalance listener. ``timeout_ms``, which kafka-python has, is refused.

        Raises WakeupError, NoOffsetForPartition, CorruptRecords, and errors of the group's coordinator. Raises
        IllegalState without a subscription or assignment, and ValueError if ``max_records`` is below 1.
        """
        if timeout_ms is not None:
            raise not_in_ms(timeout_ms)
        fetcher = self._core.fetcher
        try:
            limit = self._limit if max_records is None else limit_of(max_records)
            records = self._intercepted(self._poll(timeout, limit))
            fetcher.taken = []  # no call follows, so a signal handler runs before this or in the application
            return records
        except BaseException:
            fetcher.give_back()
            raise

    def poll_arrow(
        self, max_rows: int = 100_000, timeout: float | None = None, wanted: pyarrow.Schema | None = None
    ) -> pyarrow.RecordBatch:
        """Like ``poll``, but returns a pyarrow.RecordBatch: topic, partition, offset, timestamp, key, value, headers.

        ``wanted`` is a schema that chooses columns among these and ``timestamp_type`` (int32; 1: LogAppendTime);
        timestamps may be in ms, us or ns. Keys and values are bytes: deserializers are not called. A batch has at most
        256 MiB of records, except for a single larger one. If the batch cannot be made, the positions do not move.
        """
        fetcher = self._core.fetcher
        try:
            chunks = self._poll(timeout, min(limit_of(max_rows, "max_rows"), MOST_ROWS), MOST_BYTES)
            batch = record_batch(chunks, wanted)
            fetcher.taken = []
            return batch
        except BaseException:
            fetcher.give_back()
            raise

    def _poll(self, timeout: float | None, limit: int, most: int = NO_LIMIT) -> list[Chunk]:
        core = self._core
        if self._reading is not None:
            self._rewind()
        self._runner.check()
        try:
            deadline = None if timeout is None else time.monotonic() + timeout
        except TypeError:
            raise not_seconds(timeout) from None
        with core.polling():
            while True:
                self._bell.hush()
                core.check()
                if core.appointments:
                    self._keep_appointments()
                chunks = core.take(limit, most)
                if chunks or core.subscription.is_at_end():
                    return chunks
                if not core.subscription.states:
                    core.check_wait()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return chunks
                self._bell.wait(SLICE if left is None or left > SLICE else left)
                self._runner.check()

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

    def get(self, timeout: float | None = None) -> Record | None:
        """Returns the next record, or None if none comes within ``timeout`` seconds (None: without limit).

        Positions and commits count only records returned so far, as in an iteration. Raises the errors of ``poll``.
        """
        record = self._next()
        if record is None:
            self._read_on(timeout)
            record = self._next()
        return record

    def _read_on(self, timeout: float | None) -> bool:
        """Polls for records that ``get`` and the iteration can return. Returns whether any came."""
        fetcher = self._core.fetcher
        try:
            records = self._intercepted(self._poll(timeout, self._limit))
            self._reading = iter(records) if records else None
            fetcher.taken = []
            return self._reading is not None
        except BaseException:
            fetcher.give_back()
            raise

    def __iter__(self) -> Iterator[Record]:
        """Iterates over records, without end or until none comes for consumer.timeout.ms. Positions and commits count
        the records that the iteration has reached, not all that were polled.
        """
        while True:
            if self._reading is None and not self._read_on(self._patience):
                return
            reading = self._reading
            assert reading is not None
            yield from reading
            if self._reading is reading:
                self._reading = None

    def __next__(self) -> Record:
        """Like ``get``, but ends the iteration where ``get`` returns None."""
        record = self.get(self._patience)
        if record is None:
            raise StopIteration
        return record

    # -- offsets -------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | Record | None = None, timeout: float | None = None) -> None:
        """Commits these offsets, or the offset after a record, or all records returned so far.

        Raises CommitFailed if the group has given the partitions to other members, and RebalanceInProgress if the
        consumer has to poll first.
        """
        self._run(self._core.commits.commit(self._to_commit(offsets), timeout), timeout)

    def commit_async(self, offsets: Offsets | Record | None = None, on_commit: OnCommit | None = None) -> None:
        """Like ``commit``, but does not wait.

        ``on_commit(offsets, error)`` is called on the client's thread, before a later ``commit`` of the same
        partitions returns. After such a later commit this one is not sent again, so ``error`` may be retriable.
        """
        committed = self._to_commit(offsets, on_commit)
        self._runner.call(lambda: self._core.hold(self._core.commits.commit_telling(committed, on_commit)))

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the group's committed offsets; None for a partition without one."""
        wanted = partitions_of(partitions)
        seconds(timeout)
        self.connect()
        return self._run(self._core.commits.fetch(wanted, timeout), timeout)

    @overload
    def position(self, partition: None = None) -> dict[TopicPartition, OffsetAndMetadata]: ...

    @overload
    def position(self, partition: TopicPartition, timeout: float | None = None) -> int: ...

    def position(
        self, partition: TopicPartition | None = None, timeout: float | None = None
    ) -> int | dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offset of the next record of a partition, looking it up if necessary. Without a partition,
        returns all ``positions``.
        """
        if partition is None:
            return self.positions()
        tp = partition_of(partition)
        if tp in (unread := self._unread()):
            return unread[tp]
        return self._run(self._core.position(tp, timeout), timeout)

    def beginning_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition. Raises the last error after ``timeout`` seconds (by default
        default.api.timeout.ms).
        """
        return self._run(self._core.questions.edges(partitions, EARLIEST, timeout), timeout)

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the offset after the last record of each partition; with read_committed, the last stable offset.
        Raises the last error after ``timeout`` seconds (by default default.api.timeout.ms).
        """
        return self._run(self._core.questions.edges(partitions, LATEST, timeout), timeout)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns for each partition the offset and timestamp of the first record at or after a time in ms; None if
        there is none. Raises the last error after ``timeout`` seconds (by default default.api.timeout.ms).
        """
        return self._run(self._core.questions.offsets(by_partition(times), timeout), timeout)

    # -- the cluster -----------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Returns the partitions of a topic. Raises UnknownTopicOrPartition."""
        self.connect()
        return self._run(self._core.questions.partitions_for(topic))

    def list_topics(self) -> dict[str, list[PartitionInfo]]:
        """Returns all topics with their partitions."""
        self.connect()
        return self._run(self._core.questions.list_topics())


async def _open(core: ConsumerCore, topics: Topics, has_listener: bool) -> None:
    core.open(topics, has_listener)


async def _make(config: Config) -> ConsumerCore:
    return ConsumerCore(config, asyncio.get_running_loop())
