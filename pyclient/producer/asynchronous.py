"""The asyncio face of the producer, on the running loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from os import getpid, register_at_fork
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from cy.produce.deliveries import Deliveries
from cy.produce.producer_batch import DeliveryReport, ProducerBatch
from cy.produce.sending import SendingQueues
from pyclient.config import PRODUCER, load
from pyclient.core.reports.unclosed import watch
from pyclient.core.tasks import Ending, running_loop
from pyclient.errors import ClientForked
from pyclient.producer import at_exit
from pyclient.producer import awaiting as awaiting
from pyclient.producer.base import BaseProducer, Lack
from pyclient.producer.engine import Engine
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from cy.produce.record_metadata import RecordMetadata
    from pyclient.core.cluster import PartitionInfo
    from pyclient.prepared_transaction import PreparedTransaction
    from pyclient.producer.pipeline import Headers, OnDelivery


R = TypeVar("R")


class Producer(BaseProducer, SendingQueues):
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
        loop = running_loop("an aio.Producer")
        self._engine = Engine(keys, self._settings, self, loop)
        self._owner = f"producer of {', '.join(keys.bootstrap_servers)}"
        self._unclosed = watch(self, self._owner)
        at_exit.remember(self, self._owner, self._engine)
        self.attach(partial(loop.call_soon, self._engine.sender.run))
        self.before_wait = partial(_before_wait, get_ident(), getpid())
        self.admit(self._settings.transactional_id is None)
        self._process = getpid()
        _PRODUCERS.add(self)
        self._ending = Ending()

    def __del__(self) -> None:
        if self.closed or not hasattr(self, "_process") or self._process != getpid():
            return
        loop = self._engine.loop
        self._engine.hold(self)
        if loop.is_running():
            at_exit.remember(self, self._owner, self._engine)
            loop.call_soon_threadsafe(lambda: loop.create_task(self._close_abandoned(self._owner)))
        elif not self._is_told:
            at_exit.tell_lost(self._owner, self._engine.sender.pending())

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
        ) -> Coroutine[Any, Any, DeliveryReport]:
            """Sends a record; waits only for the metadata of a topic and for room, for max.block.ms at most.

            A coroutine: await it, or make it a task; before that nothing is sent. One that is cancelled, also by
            a time-out, has sent nothing. It gives a view on what becomes of the record, which is awaited in turn.
            Of tasks, a later one may overtake: while buffer.memory is full, a small record finds room before a large
            one that waits for it. Where order counts, await one ``send`` before the next.

            ``timestamp`` in milliseconds, now by default. ``headers``: pairs of name and bytes, or a mapping of
            them; an iterator is read once. ``on_delivery(metadata, error)`` is called on the loop: with a
            RecordMetadata and None, or None and a KafkaError; one that takes (error, message), as confluent-kafka
            has it, is refused. Raises BufferExhausted, RecordTooLarge, InvalidTopicException, KafkaError; TypeError
            for what is not bytes.
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
        timeout: float | None = None,
    ) -> DeliveryReport:
        """The rest of ``send``, for a record that is not bytes yet, or has to wait: for max.block.ms, but no longer
        than ``timeout`` seconds.
        """
        self._check_open()
        record = self._prepared(topic, value, key, partition, timestamp, headers, on_delivery)
        report = self._tried(record)
        return await self._waited(self._later(record, timeout)) if report is None else report

    async def _waited(self, appending: Generator[Lack, None, R]) -> R:
        """What ``appending`` gives in the end; waits for each thing that it lacks."""
        while True:
            try:
                lack = next(appending)
            except StopIteration as end:
                result: R = end.value
                return result
            if lack.topic is not None:
                await self._engine.know(lack.topic, max(0.0, lack.left))
            else:
                await self._wait_for_room(lack.size, lack.left)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
    ) -> RecordMetadata:
        """Sends a record and waits until it is delivered. ``timeout`` bounds the whole call, in seconds. None: it waits
        for max.block.ms to send, and for delivery.timeout.ms until the record is delivered.

        Raises what ``send`` raises, such as ConnectionFailed where no broker answers in time: then nothing was sent.
        Raises TimeoutError if the record was sent in time: it may still be delivered. Raises why it was not delivered.
        """
        if timeout is None:
            return await (
                await self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
            )
        end = self._engine.loop.time() + timeout
        report = await self.send_later(topic, value, key, partition, timestamp, headers, None, timeout)
        async with asyncio.timeout_at(end):
            return await report

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
        """Sends a record of each value, with the key at the same place, in order. Waits for room as
        ``send`` does. Returns a view on what becomes of them: ``len``, ``[i]``, ``result(timeout)``;
        in ``pyclient.aio`` it is awaited.
        ``headers``: with Arrow columns, a column of lists of structs of name and value.
        """
        return await self._waited(self._many(topic, values, keys, partition, timestamp, headers))

    async def _wait_for_room(self, size: int, left: float) -> None:
        room = asyncio.Event()
        self._engine.sender.room_waiters.append(room.set)
        if self.has_room(size):
            return
        self.poke()
        try:
            async with asyncio.timeout(max(0.0, left)):
                await room.wait()
        except TimeoutError:
            raise self._exhausted() from None

    # -- waiting -----------------------------------------------------------------------------------

    async def connect(self, timeout: float = 10.0) -> None:
        """Reaches the cluster now; ``send`` does so by itself. Raises ConnectionFailed."""
        await self._engine.ready(timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Returns when everything that was sent before is delivered or has failed. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self._engine.flush()

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The topic's partitions: number, leader, replicas, ISR."""
        await self._engine.know(topic, self._settings.max_block if timeout is None else timeout)
        return self._engine.partitions_of(topic)

    async def close(self, timeout: float | None = None) -> None:
        """Delivers what was sent, for ``timeout`` seconds at most (None: delivery.timeout.ms bounds it), and fails the
        rest. Aborts an open transaction. Is complete also when it is cancelled.

        A second call does nothing but wait: until the first has ended, or its own ``timeout`` is over.
        """
        if self._process != getpid():
            self.shut()
            return
        if self.closed:
            await self._ending.wait(timeout)
            return
        with self._ending:
            self.shut()
            try:
                await self._engine.close(timeout)
            finally:
                self._complete_close(self._owner)

    def _check_process(self) -> None:
        self._engine.client.check_process()

    def _let_go(self) -> None:
        self._unclosed.detach()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- transactions ------------------------------------------------------------------------------

    async def init_transactions(self) -> None:
        """Gets the producer id of the transactional.id, ends what an earlier producer of this name
        left open, and fences it. ``begin_transaction`` calls it where it was not called.
        """
        await self._engine.init()

    async def begin_transaction(self) -> None:
        """Opens a transaction. Raises TransactionError."""
        transactions = self._engine.transactions
        if transactions.current is None:
            await self.init_transactions()
        transactions.begin()

    async def commit_transaction(self) -> None:
        """Delivers everything and commits. Raises TransactionError if the transaction has failed."""
        await self._engine.commit()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers everything and leaves the transaction open for somebody else, who ends it by
        ``Admin.end_transactions``, perhaps in another process; None if nothing was sent. This producer
        can only be closed then. Raises TransactionError if the transaction has failed.
        """
        return await self._engine.prepare()

    async def abort_transaction(self) -> None:
        """Aborts: nothing of the transaction will be seen."""
        await self._engine.abort()

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits a consumer group's offsets with the transaction. ``group``: the
        consumer, what its ``group_metadata()`` returns, or the name of a group.
        """
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
            if self._engine.transactions.can_abort:
                with self._giving_up(error):
                    await self.abort_transaction()
            raise

    async def end_transaction(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends the transaction that this producer id and epoch has open under this transactional
        id, perhaps in another process, which is then done with it. Needs no ``init_transactions``.
        """
        await self._engine.end_transaction(producer_id, epoch, commit)


_PRODUCERS: WeakSet[Producer] = WeakSet()


def _after_fork() -> None:
    """In the child: what ``send`` would append without a question, nobody would send."""
    for producer in list(_PRODUCERS):
        producer.admit(False)


register_at_fork(after_in_child=_after_fork)


def _before_wait(thread: int, process: int, batch: ProducerBatch) -> None:
    """Raises where the wait for a report would stop the loop that is to deliver it."""
    if getpid() != process:
        raise ClientForked
    if get_ident() == thread:
        raise RuntimeError("result() would stop the event loop: await the report instead")
