"""The asyncio face of the consumer: the same names as the blocking one, on the running loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cy.fetched import Chunk
from cy.records import Record, Records
from pyclient.consumer.api import ConsumerApi, Offsets, OnCommit, Topics, settings_of
from pyclient.consumer.appointments import LOST, REVOKED, SETTLE
from pyclient.consumer.arrow import record_batch
from pyclient.consumer.core import COMMIT_SHARE, ConsumerCore
from pyclient.consumer.subscription import EARLIEST, LATEST
from pyclient.consumer.types import OffsetAndMetadata, OffsetAndTimestamp, RebalanceListener
from pyclient.core.cluster import PartitionInfo
from pyclient.core.unclosed import watch
from pyclient.topic_partition import TopicPartition, partition_of, partitions_of

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]


class Consumer(ConsumerApi):
    """Reads records, alone (``assign``) or as a member of a group (``subscribe``).

        async with aio.Consumer("localhost:9092", group_id="g", topics=["flights"]) as consumer:
            async for record in consumer:
                ...

    One task at a time may use it. Settings are ``pyclient.config.CONSUMER``'s.
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
        """To be made on a running loop; ``async with`` waits for the cluster. Raises ConfigError; what a
        wrong ``topics`` raises.
        """
        given = settings_of(bootstrap_servers, config, settings)
        self._ready = asyncio.Event()
        self._listener = listener
        self._is_closed = False
        self._core = ConsumerCore(given, asyncio.get_running_loop())
        self._core.on_ready = self._ready.set
        self._limit: int = given.max_poll_records
        if topics:
            self._core.open(topics, listener is not None)
        owner = f"consumer of {', '.join(given.bootstrap_servers)}"
        self._unclosed = watch(self, owner, partial(self._core.close, commit=False, timeout=0.0))

    # -- the life of a consumer ----------------------------------------------------------------------

    async def connect(self, timeout: float | None = None) -> None:
        """Connects now, in ``timeout`` seconds. Raises ConnectionFailed."""
        if not self._core.is_started:
            await self._core.start(timeout)

    async def close(self, timeout: float = 30.0) -> None:
        """Commits what was given (with enable.auto.commit), leaves the group, ends the connections. What
        cannot be done in ``timeout`` seconds is given up, and logged.
        """
        await self._close(commit=True, timeout=timeout)

    async def _close(self, *, commit: bool, timeout: float) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._unclosed.detach()
        end = time.monotonic() + timeout
        if self._core.is_started:
            await self._give_up(commit, COMMIT_SHARE * timeout)
        await self._core.close(commit=commit, timeout=max(0.0, end - time.monotonic()))

    async def _give_up(self, commit: bool, timeout: float) -> None:
        core = self._core
        self._rewind()
        if self._listener is not None and core.subscription.by_group and core.subscription.states:
            if commit:
                core.settle()
                await core.commit_settled(timeout)
            await self._tell(REVOKED, self.assignment())

    async def __aenter__(self) -> Consumer:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception what the last poll gave is not committed automatically."""
        await self._close(commit=kind is None or kind in (KeyboardInterrupt, asyncio.CancelledError), timeout=30.0)

    # -- what to read --------------------------------------------------------------------------------

    async def subscribe(self, topics: Topics, *, listener: RebalanceListener | None = None) -> None:
        """Reads these topics, or those whose whole name matches a pattern, with the others of the group.

        With group_protocol="consumer" the group's coordinator matches the pattern, by RE2/J (KIP-848): without
        look-around and back-references, else ``poll`` raises InvalidRegularExpression. The client itself
        matches where the broker is too old for that, or the pattern matches internal topics (exclude.internal.topics).
        """
        self._core.check_topics(topics)
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
        """Reads one partition, from offset ``start`` up to, not including, ``end``. Nothing behind it is fetched, and
        ``poll`` is empty at once when all was given. Raises ValueError for a range that is none,
        UnknownTopicOrPartition.
        """
        tp = partition_of(partition)
        if not 0 <= start <= end:
            raise ValueError(f"offsets {start} to {end} are no range")
        await self.connect()
        self._rewind()
        await self._core.assign_range(tp, start, end)

    async def unsubscribe(self) -> None:
        """Reads nothing any more; leaves the group."""
        self._rewind()
        self._core.settle()
        if self._listener is not None and self._core.subscription.by_group:
            await self._tell(REVOKED, self.assignment())
        await self._core.unsubscribe()

    # -- records -------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = None, max_records: int | None = None) -> Records:
        """The next records, at most ``max_records`` (max.poll.records): waits ``timeout`` seconds for
        the first (None: as long as it takes), then gives an empty list. Calls the rebalance listener.

        Raises WakeupError, NoOffsetForPartition, CorruptRecords, what the group's coordinator refuses …
        """
        return self._given(await self._poll(timeout, max_records or self._limit))

    async def poll_arrow(
        self, max_rows: int = 100_000, timeout: float | None = None, wanted: pyarrow.Schema | None = None
    ) -> pyarrow.RecordBatch:
        """As ``poll``, as a pyarrow.RecordBatch: topic, partition, offset, timestamp, key, value, headers.

        ``wanted``: other columns, as in the blocking face. Deserializers are not called.
        """
        return record_batch(await self._poll(timeout, max_rows), wanted)

    async def _poll(self, timeout: float | None, limit: int) -> list[Chunk]:
        core = self._core
        if self._reading is not None:
            self._rewind()
        deadline = None if timeout is None else time.monotonic() + timeout
        with core.polling():
            while True:
                self._ready.clear()
                core.check()
                if core.appointments:
                    await self._keep_appointments()
                chunks = core.take(limit)
                if chunks or core.subscription.is_at_end():
                    return chunks
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return chunks
                await self._wait(left)

    async def _wait(self, seconds: float | None) -> None:
        """Until something is ready, at most so long."""
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

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Records without end. Positions and commits count those that were reached, not all polled."""
        while True:
            reading = iter(await self.poll())
            self._reading = reading
            for record in reading:
                yield record
            if self._reading is reading:
                self._reading = None

    # -- offsets -------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | Record | None = None, timeout: float | None = None) -> None:
        """Commits offsets, or behind a record, or what was given so far. Raises CommitFailed where the
        group has given the partitions to others; RebalanceInProgress: poll first.
        """
        await self._core.commit(self._to_commit(offsets), timeout)

    def commit_async(self, offsets: Offsets | Record | None = None, on_commit: OnCommit | None = None) -> None:
        """As ``commit``, without waiting. ``on_commit(offsets, error)`` is called when it is done, before a
        later ``commit`` of the same partitions returns; behind such a one this one is not sent again, and ``error`` may
        be a retriable one.
        """
        self._core.hold(self._core.commit_telling(self._to_commit(offsets), on_commit))

    async def committed(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed."""
        wanted = partitions_of(partitions)
        await self.connect()
        return await self._core.fetch_committed(wanted, timeout)

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record of a partition, found now if it is not known yet."""
        tp = partition_of(partition)
        unread = self._unread()
        return unread[tp] if tp in unread else await self._core.position(tp, timeout)

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition. Raises what failed last when ``timeout`` seconds
        (default.api.timeout.ms) are over.
        """
        return await self._core.edges(partitions, EARLIEST, timeout)

    async def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset of the next record to be written; read_committed: the last stable offset. Raises what
        failed last when ``timeout`` seconds (default.api.timeout.ms) are over.
        """
        return await self._core.edges(partitions, LATEST, timeout)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time (ms), None where there is none. Raises what failed last when
        ``timeout`` seconds (default.api.timeout.ms) are over.
        """
        return await self._core.offsets({partition_of(tp): ms for tp, ms in times.items()}, timeout)

    # -- the cluster -----------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic. Raises UnknownTopicOrPartition."""
        await self.connect()
        return await self._core.partitions_for(topic)

    async def list_topics(self) -> dict[str, list[PartitionInfo]]:
        """All topics with their partitions."""
        await self.connect()
        return await self._core.list_topics()
