"""The asyncio face of the producer, on the running loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from os import getpid
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from cy.deliveries import Deliveries
from cy.producer_batch import DeliveryReport, ProducerBatch
from cy.record_queues import milliseconds
from pyclient.config import PRODUCER, load
from pyclient.core.unclosed import watch
from pyclient.errors import BufferExhausted, ClientClosed, ClientForked, KafkaError
from pyclient.producer import awaiting as awaiting
from pyclient.producer.base import (
    BaseProducer,
    check_fits,
    check_partition,
    header_column,
    known_topic,
    many,
    size_of,
    triples,
)
from pyclient.producer.engine import Engine
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.cluster import PartitionInfo
    from pyclient.prepared_transaction import PreparedTransaction
    from pyclient.producer.pipeline import Headers, OnDelivery


class Producer(BaseProducer):
    """As ``pyclient.Producer``; what waits there is awaited here. Made where a loop runs.

        async with aio.Producer("localhost:9092") as producer:
            report = await producer.send("flights", value=b"...")   # accepted
            metadata = await report                                 # delivered
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        /,
        *,
        config: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        keys = load(PRODUCER, bootstrap_servers, config, settings)
        super().__init__(keys)
        loop = asyncio.get_running_loop()
        self._engine = Engine(keys, self._settings, self, loop)
        self._unclosed = watch(self, f"producer of {', '.join(keys.bootstrap_servers)}")
        self.attach(partial(loop.call_soon, self._engine.sender.run))
        self.awaitable = True
        self.before_wait = partial(_before_wait, get_ident(), getpid())
        self.direct = self._is_direct()

    # -- sending -----------------------------------------------------------------------------------

    if TYPE_CHECKING:  # the method is the queues' own: it is called as often as there are records

        def send(
            self,
            topic: str,
            value: Any = None,
            key: Any = None,
            *,
            partition: int | None = None,
            timestamp: int | None = None,
            headers: Headers | None = None,
            on_delivery: OnDelivery | None = None,
        ) -> Awaitable[DeliveryReport]:
            """Sends a record; does not wait, except for the metadata of a topic and for room (max.block.ms).

            Returns a view on what becomes of it, which is awaited in turn. ``timestamp`` in milliseconds, now by
            default. ``on_delivery`` is called on the client's thread. Raises BufferExhausted, RecordTooLarge,
            InvalidTopicException, KafkaError; TypeError for what is not bytes.
            """

    async def send_later(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: Any,
        on_delivery: Any,
    ) -> DeliveryReport:
        """The rest of ``send``: what is not bytes yet, or has to wait."""
        self._check_open()
        record = self._prepared(topic, value, key, partition, timestamp, headers, on_delivery)
        deadline = time.monotonic() + self._settings.max_block
        while (report := self._tried(record)) is None:
            await self._make_possible(record.topic, record.partition, record.size, deadline)
        return report

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Any = None,
    ) -> Deliveries:
        """Sends a record of each value, with the key at the same place, in order."""
        self._check_open()
        known_topic(self, topic)
        stamp = milliseconds(timestamp)
        if self._pipeline.sees_records:
            records = triples(values, keys, headers)
            deliveries = Deliveries(len(records), stamp)
            for value, key, row in records:
                deliveries.keep(await self.send_later(topic, value, key, partition, stamp, row, None))
            return deliveries
        items, item_keys = many(self._pipeline, topic, values, keys)
        tails = header_column(headers, values)
        deliveries = Deliveries(len(items), stamp)
        at = 0
        deadline = time.monotonic() + self._settings.max_block
        while True:
            done = self.add_many(topic, items, item_keys, at, partition, stamp, deliveries, tails)
            if done == len(items):
                return deliveries
            if done > at:
                deadline = time.monotonic() + self._settings.max_block
            at = done
            key, tail = (None if column is None else column[at] for column in (item_keys, tails))
            size = size_of(items[at], key, tail)
            await self._make_possible(topic, partition, size, deadline)

    async def _make_possible(
        self, topic: str, partition: int | None, size: int, deadline: float
    ) -> None:
        """Waits for what a record lacks: its topic's partitions, or room."""
        self._check_open()
        check_fits(self, topic, size)
        left = deadline - time.monotonic()
        if self.topic(topic) is None:
            await self._engine.know(topic, max(0.0, left))
        else:
            check_partition(self, topic, partition)
            await self._wait_for_room(size, left)

    async def _wait_for_room(self, size: int, left: float) -> None:
        room = asyncio.Event()
        self._engine.sender.room_waiters.append(room.set)
        if self.has_room(size):
            return
        self.poke()
        try:
            await asyncio.wait_for(room.wait(), max(0.0, left))
        except TimeoutError:
            raise self._exhausted() from None

    def _exhausted(self) -> BufferExhausted:
        block = self._settings.max_block * 1000
        return BufferExhausted(f"buffer.memory={self.limit} was full for max.block.ms={block:.0f}")

    def _check_open(self) -> None:
        if self.closed:
            raise ClientClosed
        if self._settings.transactional_id is not None:
            self._engine.transactions.check_open()

    # -- waiting -----------------------------------------------------------------------------------

    async def connect(self, timeout: float = 10.0) -> None:
        """Reaches the cluster now; ``send`` does so by itself. Raises ConnectionFailed."""
        await self._engine.ready(timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Returns when everything that was sent before is delivered or has failed."""
        await asyncio.wait_for(self._engine.flush(), timeout)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The topic's partitions: number, leader, replicas, ISR."""
        await self._engine.know(topic, self._settings.max_block if timeout is None else timeout)
        return self._engine.partitions_of(topic)

    async def close(self, timeout: float | None = None) -> None:
        """Delivers what was sent, for ``timeout`` seconds at most, fails the rest."""
        if self.closed:
            return
        self.closed, self.direct = True, False
        self._unclosed.detach()
        try:
            await self._engine.close(timeout)
        finally:
            self._pipeline.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- transactions ------------------------------------------------------------------------------

    async def init_transactions(self) -> None:
        """Gets the producer id of the transactional.id, and fences earlier producers of that name."""
        await self._engine.init()

    async def begin_transaction(self) -> None:
        """Opens a transaction. Raises TransactionError."""
        transactions = self._engine.transactions
        if transactions.current is None:
            await self.init_transactions()
        transactions.begin()
        self.direct = self._pipeline.is_empty

    async def commit_transaction(self) -> None:
        """Delivers everything and commits."""
        self.direct = False
        await self._engine.commit()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers everything and leaves the transaction open for whoever ends it; see the blocking face."""
        self.direct = False
        return await self._engine.prepare()

    async def abort_transaction(self) -> None:
        """Aborts: nothing of the transaction will be seen."""
        self.direct = False
        await self._engine.abort()

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits a consumer group's offsets with the transaction."""
        await self._engine.transactions.send_offsets(offsets, group)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction as a block: its end commits, an exception aborts. If the commit's outcome
        is not known (a retriable error), what is left of it is ended before the next block.
        """
        if self._engine.transactions.is_left:
            await self.abort_transaction()
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException as error:
            await self._give_up(error)
            raise

    async def _give_up(self, error: BaseException) -> None:
        """Aborts because of ``error``, which counts more than an abort that fails."""
        transactions = self._engine.transactions
        if transactions.can_abort:
            transactions.is_left = True
            try:
                await self.abort_transaction()
            except KafkaError as failure:
                error.add_note(f"the transaction could not be aborted either: {failure}")

    async def end_transaction(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends the transaction that this producer id and epoch has open under this transactional id."""
        await self._engine.end_transaction(producer_id, epoch, commit)


def _before_wait(thread: int, process: int, batch: ProducerBatch) -> None:
    """Raises where the wait for a report would stop the loop that is to deliver it."""
    if getpid() != process:
        raise ClientForked
    if get_ident() == thread:
        raise RuntimeError("result() would stop the event loop: await the report instead")
