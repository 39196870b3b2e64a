"""The asyncio producer, on the running loop."""

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
from cy.produce.missing import MISSING
from cy.produce.producer_batch import DeliveryReport, ProducerBatch
from cy.produce.sending import SendingQueues
from cy.seconds import seconds
from pyclient.config import PRODUCER, load
from pyclient.core.reports.unclosed import watch
from pyclient.core.tasks import Ending, running_loop
from pyclient.errors import ClientForked
from pyclient.other_names import ON_A_LOOP, knows
from pyclient.producer import at_exit
from pyclient.producer import awaiting as awaiting
from pyclient.producer.base import BaseProducer, Lack
from pyclient.producer.engine import Engine
from pyclient.public_names import public
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from cy.produce.record_metadata import RecordMetadata
    from pyclient.core.cluster import PartitionInfo
    from pyclient.prepared_transaction import PreparedTransaction
    from pyclient.producer.pipeline import Headers, OnDelivery


R = TypeVar("R")


@public
@knows(ON_A_LOOP)
class Producer(BaseProducer, SendingQueues):
    """Like ``pyclient.Producer``, with coroutines for the calls that wait. Create it while a loop runs.

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

    if TYPE_CHECKING:  # the queues implement this method, for speed

        def send(
            self,
            topic: str,
            value: Any = MISSING,
            key: Any = None,
            *,
            partition: int | None = None,
            timestamp: int | None = None,
            headers: Headers | None = None,
            on_delivery: OnDelivery | None = None,
        ) -> Coroutine[Any, Any, DeliveryReport]:
            """Sends a record, and returns a report that can be awaited for the delivery.

            This coroutine waits only for the topic's metadata and for free buffer memory, at most max.block.ms. It
            sends nothing before it is awaited or made a task. If it is cancelled, for example by a timeout, it has sent
            nothing.

            Concurrent sends may overtake each other: while buffer.memory is full, a small record may find room before a
            large one. If order matters, await each ``send`` before the next one.

            Without ``value`` it needs a ``key``; value=None sends a record that may have neither.

            ``timestamp`` is in milliseconds, by default now. ``headers`` are pairs of name and bytes, or a mapping.
            ``on_delivery(metadata, error)`` is called on the loop, with a RecordMetadata and None, or with None and a
            KafkaError. A callback with the arguments (error, message), as in confluent-kafka, is refused. Raises
            BufferExhausted, RecordTooLarge, InvalidTopicException, KafkaError, and TypeError for values that are not
            bytes.
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
        """Does the slow part of ``send``, for a record that is not bytes yet or must wait. Waits at most max.block.ms,
        and at most ``timeout`` seconds.
        """
        self._check_open()
        record = self._prepared(topic, value, key, partition, timestamp, headers, on_delivery)
        report = self._tried(record)
        return await self._waited(self._later(record, timeout)) if report is None else report

    async def _waited(self, appending: Generator[Lack, None, R]) -> R:
        """Runs ``appending`` to its end, waits for each thing that it lacks, and returns its result."""
        while True:
            try:
                lack = next(appending)
            except StopIteration as end:
                result: R = end.value
                return result
            if lack.topic is not None:
                await self._engine.know(lack.topic, max(0.0, lack.left), lack.setting)
            else:
                await self._wait_for_room(lack)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = MISSING,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
    ) -> RecordMetadata:
        """Sends a record and waits until it is delivered.

        ``timeout`` limits the whole call, in seconds. Without it, the call waits up to max.block.ms to send, and up to
        delivery.timeout.ms for the delivery.

        Raises what ``send`` raises, for example ConnectionFailed if no broker answers in time: then nothing was sent.
        Raises TimeoutError if the record was sent, but not acknowledged in time: it may still be delivered. Raises the
        error of a failed delivery.
        """
        if timeout is None:
            return await (
                await self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
            )
        seconds(timeout)
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
        """Sends a record for each value, in order, with the key at the same index. Waits for room like ``send``.

        Returns the results: ``len``, ``[i]``, ``result(timeout)``; in ``pyclient.aio`` they can be awaited. ``headers``
        are possible with Arrow columns only: a column of lists of structs of name and value.
        """
        return await self._waited(self._many(topic, values, keys, partition, timestamp, headers))

    async def _wait_for_room(self, lack: Lack) -> None:
        room = asyncio.Event()
        self._engine.sender.room_waiters.append(room.set)
        if self.has_room(lack.size):
            return
        self.poke()
        try:
            async with asyncio.timeout(max(0.0, lack.left)):
                await room.wait()
        except TimeoutError:
            raise self._exhausted(lack) from None

    # -- waiting -----------------------------------------------------------------------------------

    async def connect(self, timeout: float = 10.0) -> None:
        """Connects to the cluster now, which ``send`` otherwise does. Raises ConnectionFailed."""
        await self._engine.ready(timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until all records sent before are delivered or have failed. Raises TimeoutError."""
        async with asyncio.timeout(seconds(timeout)):
            await self._engine.flush()

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """Returns the topic's partitions: number, leader, replicas, ISR."""
        wait, setting = self._limit_of(timeout)
        await self._engine.know(topic, wait, setting)
        return self._engine.partitions_of(topic)

    async def close(self, timeout: float | None = None) -> None:
        """Delivers the sent records, within ``timeout`` seconds (None: delivery.timeout.ms), and fails the others.
        Aborts an open transaction. Completes even if it is cancelled.

        A second call only waits until the first one has ended, or until its own ``timeout`` is over.
        """
        seconds(timeout)
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
        """Gets the producer id of the transactional.id, ends any transaction of an earlier producer with this id, and
        fences that producer. ``begin_transaction`` calls it if you have not.
        """
        await self._engine.init()

    async def begin_transaction(self) -> None:
        """Opens a transaction. Raises TransactionError."""
        transactions = self._engine.transactions
        if transactions.current is None:
            await self.init_transactions()
        transactions.begin()

    async def commit_transaction(self) -> None:
        """Delivers all records and commits. Raises TransactionError if the transaction has failed."""
        await self._engine.commit()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers all records and leaves the transaction open, so that another process can end it.

        The other process calls ``Admin.end_transactions``. This producer can then only be closed. Returns None if
        nothing was sent. Raises TransactionError if the transaction has failed.
        """
        return await self._engine.prepare()

    async def abort_transaction(self) -> None:
        """Aborts the transaction: consumers with read_committed will not see its records."""
        await self._engine.abort()

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits a consumer group's offsets with the transaction. ``group`` is the consumer, the result of its
        ``group_metadata()``, or the name of a group.
        """
        await self._engine.transactions.send_offsets(offsets, group)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Runs a block as a transaction: the end of the block commits, an exception aborts.

        If the commit's outcome is unknown (a retriable error), the next block first ends this transaction.
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
        """Ends the transaction that the producer with this id and epoch, perhaps in another process, has open under
        this transactional id.

        That producer can then only be closed. Does not need ``init_transactions``.
        """
        await self._engine.end_transaction(producer_id, epoch, commit)


_PRODUCERS: WeakSet[Producer] = WeakSet()


def _after_fork() -> None:
    """Runs in a forked child: makes ``send`` fail there, because no thread would send the records."""
    for producer in list(_PRODUCERS):
        producer.admit(False)


register_at_fork(after_in_child=_after_fork)


def _before_wait(thread: int, process: int, batch: ProducerBatch) -> None:
    """Raises if waiting for a report would block the loop that must deliver it."""
    if getpid() != process:
        raise ClientForked
    if get_ident() == thread:
        raise RuntimeError("result() would stop the event loop: await the report instead")
