"""The blocking producer. Thread-safe."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from cy.produce.deliveries import Deliveries
from cy.produce.missing import MISSING
from cy.produce.producer_batch import DeliveryReport
from cy.seconds import seconds
from pyclient.config import PRODUCER, load
from pyclient.core.closed import closed
from pyclient.core.threads.runner import SLICE, Runner
from pyclient.errors import BufferExhausted, ClientClosed
from pyclient.other_names import BLOCKING, knows
from pyclient.producer import at_exit
from pyclient.producer import awaiting as awaiting
from pyclient.producer.base import BaseProducer, Lack
from pyclient.producer.engine import HASTE_S, Engine
from pyclient.producer.inline_send import InlineSend
from pyclient.public_names import public
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from cy.produce.record_metadata import RecordMetadata
    from pyclient.core.cluster import PartitionInfo
    from pyclient.prepared_transaction import PreparedTransaction
    from pyclient.producer.pipeline import Headers, OnDelivery

R = TypeVar("R")
GOODBYE_S: Final = 5.0
"""Seconds in which a close after Ctrl-C tries to deliver records and to abort a transaction. Another Ctrl-C ends it."""


@public
@knows(BLOCKING)
class Producer(BaseProducer):
    """Sends records. The settings are Kafka's, see ``pyclient.config.producer``.

        with Producer("localhost:9092", linger_ms=5) as producer:
            producer.send("flights", value=b"...", key=b"UA")

    If you do not close a producer, its records are delivered when the program ends, within 10 s. Records that are lost
    then are logged as an error, which appears on stderr. A signal that ends the process at once (SIGTERM by default)
    loses them.
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
        owner = f"producer of {', '.join(keys.bootstrap_servers)}"
        self._runner = Runner(owner)
        self._runner.closed = partial(closed, keys)
        try:
            self._engine = Engine(keys, self._settings, self, self._runner.loop)
        except BaseException:
            self._runner.stop()
            raise
        self._runner.on_end = self._engine.fail_all
        inline_send = InlineSend(self._runner, self._engine.sender)
        self.attach(inline_send.wake)
        self.before_wait = inline_send.before_wait
        self._runner.on_fork = partial(self._engine.admit, False)
        self.admit(self._settings.transactional_id is None)
        at_exit.remember(self, owner, self._engine, self._runner.lease.recall)

    def __del__(self) -> None:
        if not self._is_ended and hasattr(self, "_runner") and self._runner.is_running:
            owner = self._runner.owner
            self._engine.hold(self)
            at_exit.remember(self, owner, self._engine, self._runner.lease.recall)
            self._runner.abandon(partial(self._close_abandoned, owner))

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
        ) -> DeliveryReport:
            """Sends a record, and returns a report of its delivery without waiting for it.

            It waits only for the topic's metadata and for free buffer memory. It waits at most max.block.ms (a minute
            by default), also if no broker answers. ``send_and_wait`` has a timeout of its own.

            Without ``value`` it needs a ``key``; value=None sends a record that may have neither.

            ``timestamp`` is in milliseconds, by default now. ``headers`` are pairs of name and bytes, or a mapping.
            ``on_delivery(metadata, error)`` is called on the client's thread, with a RecordMetadata and None, or with
            None and a KafkaError. A callback with the arguments (error, message), as in confluent-kafka, is refused.
            Raises BufferExhausted, RecordTooLarge, InvalidTopicException, KafkaError, and TypeError for values that are
            not bytes.
            """

    def send_later(
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
        return self._waited(self._later(record, timeout)) if report is None else report

    def _waited(self, appending: Generator[Lack, None, R]) -> R:
        """Runs ``appending`` to its end, waits for each thing that it lacks, and returns its result."""
        while True:
            try:
                lack = next(appending)
            except StopIteration as end:
                result: R = end.value
                return result
            if lack.topic is not None:
                self._runner.run(self._engine.know(lack.topic, max(0.0, lack.left), lack.setting), within=lack.left)
            else:
                self._wait_for_room(lack)

    def send_and_wait(
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
            return self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers).result()
        seconds(timeout)
        end = time.monotonic() + timeout
        report = self.send_later(topic, value, key, partition, timestamp, headers, None, timeout)
        return report.result(max(0.0, end - time.monotonic()))

    def send_many(
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
        return self._waited(self._many(topic, values, keys, partition, timestamp, headers))

    def _wait_for_room(self, lack: Lack) -> None:
        lock = Lock()
        lock.acquire()
        self._engine.sender.room_waiters.append(lock.release)
        if self.has_room(lack.size):
            return
        if self._runner.is_here:
            raise BufferExhausted("buffer.memory is full, and a callback cannot wait for room")
        self.poke()
        left = lack.left
        deadline = time.monotonic() + left
        while left <= 0 or not lock.acquire(timeout=min(left, SLICE)):
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._exhausted(lack)
            self._runner.check()

    def _check_process(self) -> None:
        if self._runner.forked:
            self._runner.check()

    # -- waiting -----------------------------------------------------------------------------------

    def connect(self, timeout: float = 10.0) -> None:
        """Connects to the cluster now, which ``send`` otherwise does. Raises ConnectionFailed."""
        self._runner.run(self._engine.ready(timeout), within=timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all records sent before are delivered or have failed. Raises TimeoutError."""
        self._runner.run(self._engine.flush(), timeout, within=self._engine.longest)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """Returns the topic's partitions: number, leader, replicas, ISR."""
        wait, setting = self._limit_of(timeout)
        self._runner.run(self._engine.know(topic, wait, setting), within=wait)
        return self._engine.partitions_of(topic)

    def close(self, timeout: float | None = None) -> None:
        """Delivers the sent records, within ``timeout`` seconds (None: delivery.timeout.ms), and fails the others with
        ClientClosed.

        Aborts an open transaction. A second call does nothing. In a callback it closes nothing and raises RuntimeError.
        """
        seconds(timeout)
        self._close(timeout, HASTE_S)

    def _close(self, timeout: float | None, haste: float) -> None:
        if self._is_ended:
            return
        if not self._runner.forked:
            self._runner.before_wait()
        self.shut()
        if self._runner.forked:
            return
        within = self._engine.longest if timeout is None else timeout + haste
        with self._runner.closing() as is_first:
            if is_first:
                try:
                    with suppress(ClientClosed):  # another thread has just closed it
                        self._runner.run(self._engine.close(timeout, haste), within=within)
                finally:
                    self._complete_close(self._runner.owner)

    def _let_go(self) -> None:
        self._runner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delivers the sent records, also after an exception; aborts an open transaction. After Ctrl-C this takes at
        most five seconds, and lost records are logged.
        """
        self._close(GOODBYE_S if kind is KeyboardInterrupt else None, GOODBYE_S)

    # -- transactions ------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Gets the producer id of the transactional.id, ends any transaction of an earlier producer with this id, and
        fences that producer. ``begin_transaction`` calls it if you have not.
        """
        self._runner.run(self._engine.init(), within=self._engine.longest)

    def begin_transaction(self) -> None:
        """Opens a transaction. Raises TransactionError."""
        self._runner.check()
        transactions = self._engine.transactions
        if transactions.current is None:
            self.init_transactions()
        transactions.begin()

    def commit_transaction(self) -> None:
        """Delivers all records and commits. Raises TransactionError if the transaction has failed."""
        self._end(self._engine.commit)

    def abort_transaction(self) -> None:
        """Aborts the transaction: consumers with read_committed will not see its records."""
        self._end(self._engine.abort)

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers all records and leaves the transaction open, so that another process can end it.

        The other process calls ``Admin.end_transactions``. This producer can then only be closed. Returns None if
        nothing was sent. Raises TransactionError if the transaction has failed.
        """
        return self._end(self._engine.prepare)

    def _end(self, how: Callable[[], Coroutine[Any, Any, R]]) -> R:
        return self._runner.run(how(), within=self._engine.longest)

    def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits a consumer group's offsets with the transaction. ``group`` is the consumer, the result of its
        ``group_metadata()``, or the name of a group.
        """
        self._runner.run(self._engine.transactions.send_offsets(offsets, group), within=self._engine.longest)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Runs a block as a transaction: the end of the block commits, an exception aborts.

        If the commit's outcome is unknown (a retriable error), the next block first ends this transaction.
        """
        transactions = self._engine.transactions
        if transactions.is_left:
            self.abort_transaction()
        is_ours = not transactions.can_abort
        try:
            self.begin_transaction()
            yield self
            self.commit_transaction()
        except BaseException as error:
            if is_ours and transactions.can_abort:
                with self._giving_up(error):
                    self.abort_transaction()
            raise

    def end_transaction(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends the transaction that the producer with this id and epoch, perhaps in another process, has open under
        this transactional id.

        That producer can then only be closed. Does not need ``init_transactions``.
        """
        self._runner.run(self._engine.end_transaction(producer_id, epoch, commit), within=self._engine.longest)
