"""The asyncio consumer: it has the same methods as the blocking one, and runs on the running loop."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from os import getpid
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cy.consume.fetched import Chunk
from cy.consume.records import Record, Records
from cy.seconds import not_seconds, seconds
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
from pyclient.core.cluster import PartitionInfo
from pyclient.core.reports.unclosed import watch
from pyclient.core.tasks import Ending, running_loop
from pyclient.other_names import ON_A_LOOP, knows, not_in_ms
from pyclient.public_names import public
from pyclient.topic_partition import TopicPartition, by_partition, partition_of, partitions_of

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

BUSY_S: Final = 0.005
"""Seconds of polls without a wait, after which a poll lets the loop run its other tasks."""


@public
@knows(ON_A_LOOP)
class Consumer(ConsumerApi):
    """Reads records from Kafka topics.

    With ``group_id`` the consumer is a member of a group, whose members share the partitions of their topics. Without
    it, the consumer reads all partitions of its topics, including those added later, and commits nothing. ``assign``
    chooses the partitions directly.

        async with aio.Consumer("localhost:9092", group_id="g", topics=["flights"]) as consumer:
            async for record in consumer:
                ...

    Only one task at a time may use it, which it does not check. Each poll marks the records of the one before as
    processed, even if another task still works on them.

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
        """Needs a running loop; ``async with`` waits for the cluster. Raises ConfigError, and errors about wrong
        ``topics``.
        """
        given = settings_of(bootstrap_servers, config, settings)
        self._listener = listener_of(listener)
        self._ready = asyncio.Event()
        self._is_closed = False
        self._ending, self._process = Ending(), getpid()
        self._rested_at = time.monotonic()
        self._core = ConsumerCore(given, running_loop("an aio.Consumer"))
        self._core.on_ready = self._ready.set
        self._core.on_wakeup = self._on_wakeup
        self._limit: int = given.max_poll_records
        self._patience = patience_of(given)
        if topics:
            self._core.open(topics, listener is not None)
        owner = f"consumer of {', '.join(given.bootstrap_servers)}"
        self._unclosed = watch(self, owner, partial(close, self._core, commit=False, timeout=0.0))

    # -- life cycle ------------------------------------------------------------------------------------

    async def connect(self, timeout: float | None = None) -> None:
        """Connects now, within ``timeout`` seconds. Raises ConnectionFailed."""
        if not self._core.is_started:
            await self._core.start(timeout)

    async def close(self, timeout: float = 30.0) -> None:
        """Commits returned records (with enable.auto.commit), leaves the group and closes the connections.

        After ``timeout`` seconds, or after three if no broker can be reached, it gives up what is left and logs that. A
        second call only waits until the first has ended, or until its own ``timeout`` is over.
        """
        seconds(timeout)
        await self._close(done=True, timeout=timeout)

    async def _close(self, *, done: bool, timeout: float) -> None:
        """Closes completely, whatever is raised. ``done`` tells that the application has processed the last poll's
        records.
        """
        end = time.monotonic() + timeout
        if self._process != getpid():
            return
        if self._is_closed:
            await self._ending.wait(timeout)
            return
        self._is_closed = True
        is_interrupted = True
        with self._ending:
            try:
                if done:
                    self._rewind()
                    self._core.settle()
                if self._core.is_started:
                    await self._give_up(COMMIT_SHARE * timeout)
                is_interrupted = False
            except Exception:  # raised by the listener, so the remaining time may be used
                is_interrupted = False
                raise
            finally:
                left = 0.0 if is_interrupted else max(0.0, end - time.monotonic())
                try:
                    await close(self._core, commit=True, timeout=left)
                finally:
                    self._unclosed.detach()

    async def _give_up(self, timeout: float) -> None:
        core = self._core
        if self._listener is not None and core.subscription.by_group and core.subscription.states:
            try:
                await commit_first(core, timeout)
            finally:
                await self._tell(REVOKED, self.assignment())

    async def __aenter__(self) -> Consumer:
        """Connects. If that fails or is cancelled, closes the consumer, because Python then does not call
        ``__aexit__``.
        """
        try:
            await self.connect()
        except BaseException:
            await self._close(done=False, timeout=0.0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes. After an exception or a cancellation, only records before those of the last poll are committed
        automatically. If the application has processed some of those, it must commit them itself.
        """
        await self._close(done=kind is None, timeout=30.0)

    # -- subscription ----------------------------------------------------------------------------------

    async def subscribe(self, topics: Topics, *, listener: RebalanceListener | None = None) -> None:
        """Reads these topics, or all topics whose whole name matches a pattern.

        With ``group_id`` the consumer shares them with its group. Without it, the consumer reads them alone, and begins
        where auto.offset.reset says. With ``latest``, partitions that are added later are read from their first record.

        With group_protocol="consumer" the group's coordinator matches the pattern, by RE2/J (KIP-848). For a pattern
        with look-around or back-references ``poll`` then raises InvalidRegularExpression. The client itself matches if
        the broker is too old for that, or if the pattern may match internal topics (exclude.internal.topics).
        """
        topics = self._core.check_topics(topics)
        listener = listener_of(listener)
        await self.connect()
        self._rewind()
        self._listener = listener
        await self._core.subscribe(topics, listener is not None)

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Reads exactly these partitions, without a group's assignment."""
        wanted = partitions_of(partitions)
        await self.connect()
        self._rewind()
        await self._core.assign(wanted)

    async def assign_range(self, partition: TopicPartition, start: int, end: int) -> None:
        """Reads one partition from offset ``start`` up to, but not including, ``end``.

        Nothing from ``end`` on is fetched. When all records were returned, ``poll`` returns an empty list at once.
        Raises ValueError for an invalid range, and UnknownTopicOrPartition.
        """
        tp = partition_of(partition)
        if not 0 <= start <= end:
            raise ValueError(f"offsets {start} to {end} are not a range")
        await self.connect()
        self._rewind()
        await self._core.assign_range(tp, start, end)

    async def unsubscribe(self) -> None:
        """Stops reading and leaves the group."""
        self._rewind()
        self._core.settle()
        if self._listener is not None and self._core.subscription.by_group:
            await self._tell(REVOKED, self.assignment())
        await self._core.unsubscribe()

    # -- records -------------------------------------------------------------------------------------

    async def poll(
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
        limit = self._limit if max_records is None else limit_of(max_records)
        return self._intercepted(await self._poll(timeout, limit))

    async def poll_arrow(
        self, max_rows: int = 100_000, timeout: float | None = None, wanted: pyarrow.Schema | None = None
    ) -> pyarrow.RecordBatch:
        """Like ``poll``, but returns a pyarrow.RecordBatch: topic, partition, offset, timestamp, key, value, headers.

        ``wanted`` chooses the columns, as in the blocking consumer. Deserializers are not called.
        """
        chunks = await self._poll(timeout, min(limit_of(max_rows, "max_rows"), MOST_ROWS), MOST_BYTES)
        try:
            return record_batch(chunks, wanted)
        except BaseException:
            self._core.fetcher.give_back()
            raise

    async def _poll(self, timeout: float | None, limit: int, most: int = NO_LIMIT) -> list[Chunk]:
        core = self._core
        if self._reading is not None:
            self._rewind()
        now = time.monotonic()
        try:
            deadline = None if timeout is None else now + timeout
        except TypeError:
            raise not_seconds(timeout) from None
        with core.polling():
            if now - self._rested_at >= BUSY_S:
                await self._rest()
            elif now < self._rested_at:
                self._rested_at = now
            while True:
                self._ready.clear()
                core.check()
                if core.appointments:
                    await self._keep_appointments()
                chunks = core.take(limit, most)
                if chunks or core.subscription.is_at_end():
                    return chunks
                if not core.subscription.states:
                    core.check_wait()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    await self._rest()
                    return chunks
                await self._wait(left)
                self._rested_at = time.monotonic()

    async def _rest(self) -> None:
        """Lets the loop run heartbeats, fetches and other tasks. This happens before records are taken, not after: if
        the task is cancelled here, it has taken none, and the next poll takes them at once.
        """
        self._rested_at = math.inf
        await asyncio.sleep(0)
        self._rested_at = time.monotonic()

    def _on_wakeup(self) -> None:
        """Wakes the loop, too. The loop may run in another thread, or sleep in the thread that handles a signal."""
        with suppress(RuntimeError):  # the loop is closed, so nothing waits on it
            self._core.client.loop.call_soon_threadsafe(self._ready.set)

    async def _wait(self, seconds: float | None) -> None:
        """Waits until something is ready, for at most ``seconds``."""
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, self._ready.set)
        try:
            await self._ready.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _keep_appointments(self) -> None:
        core = self._core
        while (call := core.appointments.due()) is not None:
            with core.appointments.keeping(call):
                if call.action != SETTLE:
                    await self._tell(call.action, call.partitions)

    async def _tell(self, action: str, partitions: Collection[TopicPartition]) -> None:
        method = getattr(self._listener, action, None)
        if method is None and action == LOST:
            method = getattr(self._listener, REVOKED, None)
        if method is not None:
            answer = method(partitions)
            if isawaitable(answer):
                await answer

    async def get(self, timeout: float | None = None) -> Record | None:
        """Returns the next record, or None if none comes within ``timeout`` seconds (None: without limit).

        Positions and commits count only records returned so far, as in an iteration. Raises the errors of ``poll``.
        """
        record = self._next()
        if record is None:
            self._reading = iter(await self.poll(timeout))
            record = self._next()
        return record

    getone = get

    def __getitem__(self, index: object) -> NoReturn:
        """Raises TypeError, which says how to iterate. Python asks for an item because there is no ``__iter__``. With
        an ``__iter__``, this would count as a ``collections.abc.Iterable``.
        """
        raise TypeError("this Consumer is of asyncio: write `async for record in consumer`, or take pyclient.Consumer")

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Iterates over records, without end or until none comes for consumer.timeout.ms. Positions and commits count
        the records that the iteration has reached, not all that were polled.
        """
        while True:
            reading = self._reading
            if reading is None:
                if not (records := await self.poll(self._patience)):
                    return
                reading = self._reading = iter(records)
            for record in reading:
                yield record
            if self._reading is reading:
                self._reading = None

    async def __anext__(self) -> Record:
        """Like ``get``, but ends the iteration where ``get`` returns None."""
        record = await self.get(self._patience)
        if record is None:
            raise StopAsyncIteration
        return record

    # -- offsets -------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | Record | None = None, timeout: float | None = None) -> None:
        """Commits these offsets, or the offset after a record, or all records returned so far.

        Raises CommitFailed if the group has given the partitions to other members, and RebalanceInProgress if the
        consumer has to poll first.
        """
        await self._core.commits.commit(self._to_commit(offsets), timeout)

    def commit_async(self, offsets: Offsets | Record | None = None, on_commit: OnCommit | None = None) -> None:
        """Like ``commit``, but does not wait.

        ``on_commit(offsets, error)`` is called when the commit is done, before a later ``commit`` of the same
        partitions returns. After such a later commit this one is not sent again, so ``error`` may be retriable.
        """
        self._core.hold(self._core.commits.commit_telling(self._to_commit(offsets, on_commit), on_commit))

    async def committed(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the group's committed offsets; None for a partition without one."""
        wanted = partitions_of(partitions)
        seconds(timeout)
        await self.connect()
        return await self._core.commits.fetch(wanted, timeout)

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Returns the offset of the next record of a partition, looking it up if necessary."""
        tp = partition_of(partition)
        unread = self._unread()
        return unread[tp] if tp in unread else await self._core.position(tp, timeout)

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition. Raises the last error after ``timeout`` seconds (by default
        default.api.timeout.ms).
        """
        return await self._core.questions.edges(partitions, EARLIEST, timeout)

    async def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Returns the offset after the last record of each partition; with read_committed, the last stable offset.
        Raises the last error after ``timeout`` seconds (by default default.api.timeout.ms).
        """
        return await self._core.questions.edges(partitions, LATEST, timeout)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns for each partition the offset and timestamp of the first record at or after a time in ms; None if
        there is none. Raises the last error after ``timeout`` seconds (by default default.api.timeout.ms).
        """
        return await self._core.questions.offsets(by_partition(times), timeout)

    # -- the cluster -----------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Returns the partitions of a topic. Raises UnknownTopicOrPartition."""
        await self.connect()
        return await self._core.questions.partitions_for(topic)

    async def list_topics(self) -> dict[str, list[PartitionInfo]]:
        """Returns all topics with their partitions."""
        await self.connect()
        return await self._core.questions.list_topics()
