"""The blocking face of the producer. Thread-safe."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from cy.produce.deliveries import Deliveries
from cy.produce.producer_batch import DeliveryReport
from pyclient.config import PRODUCER, load
from pyclient.core.threads.runner import SLICE, Runner
from pyclient.errors import BufferExhausted, ClientClosed
from pyclient.producer import at_exit
from pyclient.producer import awaiting as awaiting
from pyclient.producer.base import BaseProducer, Lack
from pyclient.producer.engine import HASTE_S, Engine
from pyclient.producer.inline_send import InlineSend
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from cy.produce.record_metadata import RecordMetadata
    from pyclient.core.cluster import PartitionInfo
    from pyclient.prepared_transaction import PreparedTransaction
    from pyclient.producer.pipeline import Headers, OnDelivery

R = TypeVar("R")
GOODBYE_S: Final = 5.0
"""For what was sent, or the abort of an open transaction, after Ctrl-C; another Ctrl-C ends it."""


class Producer(BaseProducer):
    """Sends records; settings are Kafka's, see ``pyclient.config.producer``.

        with Producer("localhost:9092", linger_ms=5) as producer:
            producer.send("flights", value=b"...", key=b"UA")

    If nobody closes a producer, its records are delivered when the program ends, within 10 s. Records that are lost
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
        ) -> DeliveryReport:
            """Sends a record; does not wait, except for the metadata of a topic and for room. It waits for
            max.block.ms at most, a minute by default, also where no broker answers. ``send_and_wait`` has a timeout.

            Returns a view on what becomes of it. ``timestamp`` in milliseconds, now by default. ``headers``: pairs
            of name and bytes, or a mapping of them; an iterator is read once. ``on_delivery(metadata, error)`` is
            called on the client's thread: with a RecordMetadata and None, or None and a KafkaError; one that takes
            (error, message), as confluent-kafka has it, is refused. Raises BufferExhausted, RecordTooLarge,
            InvalidTopicException, KafkaError; TypeError for what is not bytes.
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
        """The rest of ``send``, for a record that is not bytes yet, or has to wait: for max.block.ms, but no longer
        than ``timeout`` seconds.
        """
        self._check_open()
        record = self._prepared(topic, value, key, partition, timestamp, headers, on_delivery)
        report = self._tried(record)
        return self._waited(self._later(record, timeout)) if report is None else report

    def _waited(self, appending: Generator[Lack, None, R]) -> R:
        """What ``appending`` gives in the end; waits for each thing that it lacks."""
        while True:
            try:
                lack = next(appending)
            except StopIteration as end:
                result: R = end.value
                return result
            if lack.topic is not None:
                self._runner.run(self._engine.know(lack.topic, max(0.0, lack.left)), within=lack.left)
            else:
                self._wait_for_room(lack.size, lack.left)

    def send_and_wait(
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
            return self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=headers).result()
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
        """Sends a record of each value, with the key at the same place, in order. Waits for room as
        ``send`` does. Returns a view on what becomes of them: ``len``, ``[i]``, ``result(timeout)``;
        in ``pyclient.aio`` it is awaited.
        ``headers``: with Arrow columns, a column of lists of structs of name and value.
        """
        return self._waited(self._many(topic, values, keys, partition, timestamp, headers))

    def _wait_for_room(self, size: int, left: float) -> None:
        lock = Lock()
        lock.acquire()
        self._engine.sender.room_waiters.append(lock.release)
        if self.has_room(size):
            return
        if self._runner.is_here:
            raise BufferExhausted("buffer.memory is full, and a callback cannot wait for room")
        self.poke()
        deadline = time.monotonic() + left
        while left <= 0 or not lock.acquire(timeout=min(left, SLICE)):
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._exhausted()
            self._runner.check()

    def _check_process(self) -> None:
        if self._runner.forked:
            self._runner.check()

    # -- waiting -----------------------------------------------------------------------------------

    def connect(self, timeout: float = 10.0) -> None:
        """Reaches the cluster now; ``send`` does so by itself. Raises ConnectionFailed."""
        self._runner.run(self._engine.ready(timeout), within=timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Returns when everything that was sent before is delivered or has failed. Raises TimeoutError."""
        self._runner.run(self._engine.flush(), timeout, within=self._engine.longest)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The topic's partitions: number, leader, replicas, ISR."""
        wait = self._settings.max_block if timeout is None else timeout
        self._runner.run(self._engine.know(topic, wait), within=wait)
        return self._engine.partitions_of(topic)

    def close(self, timeout: float | None = None) -> None:
        """Delivers what was sent, for ``timeout`` seconds at most (None: delivery.timeout.ms bounds
        it), fails the rest with ClientClosed. A transaction that is open is aborted. Again: does nothing.
        Raises RuntimeError in a callback, and closes nothing there.
        """
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
        """Delivers what was sent, after an exception too; aborts an open transaction. After Ctrl-C this takes five
        seconds at most, and what is lost then is logged.
        """
        self._close(GOODBYE_S if kind is KeyboardInterrupt else None, GOODBYE_S)

    # -- transactions ------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Gets the producer id of the transactional.id, ends what an earlier producer of this name
        left open, and fences it. ``begin_transaction`` calls it where it was not called.
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
        """Delivers everything and commits. Raises TransactionError if the transaction has failed."""
        self._end(self._engine.commit)

    def abort_transaction(self) -> None:
        """Aborts: nothing of the transaction will be seen."""
        self._end(self._engine.abort)

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers everything and leaves the transaction open for somebody else, who ends it by
        ``Admin.end_transactions``, perhaps in another process; None if nothing was sent. This producer
        can only be closed then. Raises TransactionError if the transaction has failed.
        """
        return self._end(self._engine.prepare)

    def _end(self, how: Callable[[], Coroutine[Any, Any, R]]) -> R:
        return self._runner.run(how(), within=self._engine.longest)

    def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits a consumer group's offsets with the transaction. ``group``: the
        consumer, what its ``group_metadata()`` returns, or the name of a group.
        """
        self._runner.run(self._engine.transactions.send_offsets(offsets, group), within=self._engine.longest)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction as a block: its end commits, an exception aborts. If the commit's outcome
        is not known (a retriable error), what is left of it is ended before the next block.
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
        """Ends the transaction that this producer id and epoch has open under this transactional
        id, perhaps in another process, which is then done with it. Needs no ``init_transactions``.
        """
        self._runner.run(self._engine.end_transaction(producer_id, epoch, commit), within=self._engine.longest)
