"""The blocking face of the producer. Thread-safe."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from cy.deliveries import Deliveries
from cy.producer_batch import DeliveryReport
from cy.record_queues import milliseconds
from pyclient.config import PRODUCER, load
from pyclient.core.runner import Runner
from pyclient.errors import BufferExhausted, ClientClosed, KafkaError
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
from pyclient.producer.express import Express
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.cluster import PartitionInfo
    from pyclient.prepared_transaction import PreparedTransaction
    from pyclient.producer.pipeline import Headers, OnDelivery

R = TypeVar("R")


class Producer(BaseProducer):
    """Sends records; settings are Kafka's, see ``pyclient.config.producer``.

        with Producer("localhost:9092", linger_ms=5) as producer:
            producer.send("flights", value=b"...", key=b"UA")
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
        self._runner = Runner(f"producer of {', '.join(keys.bootstrap_servers)}")
        self._engine = Engine(keys, self._settings, self, self._runner.loop)
        express = Express(self._runner, self._engine.sender)
        self.attach(express.wake)
        self.before_wait = express.before_wait
        self.direct = self._is_direct()
        self._runner.on_fork = partial(setattr, self, "direct", False)

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
            """Sends a record; does not wait, except for the metadata of a topic and for room (max.block.ms).

            Returns a view on what becomes of it. ``timestamp`` in milliseconds, now by
            default. ``on_delivery`` is called on the client's thread. Raises BufferExhausted, RecordTooLarge,
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
    ) -> DeliveryReport:
        """The rest of ``send``: what is not bytes yet, or has to wait."""
        self._check_open()
        record = self._prepared(topic, value, key, partition, timestamp, headers, on_delivery)
        deadline = time.monotonic() + self._settings.max_block
        while (report := self._tried(record)) is None:
            self._make_possible(record.topic, record.partition, record.size, deadline)
        return report

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
        ``send`` does. Returns a view on what becomes of them: ``len``, ``[i]``, ``result(timeout)``.
        ``headers``: with Arrow columns, a column of lists of structs of name and value.
        """
        self._check_open()
        known_topic(self, topic)
        stamp = milliseconds(timestamp)
        if self._pipeline.sees_records:
            records = triples(values, keys, headers)
            deliveries = Deliveries(len(records), stamp)
            for value, key, row in records:
                deliveries.keep(self.send_later(topic, value, key, partition, stamp, row, None))
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
            self._make_possible(topic, partition, size, deadline)

    def _make_possible(
        self, topic: str, partition: int | None, size: int, deadline: float
    ) -> None:
        """Waits for what a record lacks: its topic's partitions, or room. Raises what it cannot get."""
        self._check_open()
        check_fits(self, topic, size)
        left = deadline - time.monotonic()
        if self.topic(topic) is None:
            self._runner.run(self._engine.know(topic, max(0.0, left)))
        else:
            check_partition(self, topic, partition)
            self._wait_for_room(size, left)

    def _wait_for_room(self, size: int, left: float) -> None:
        lock = Lock()
        lock.acquire()
        self._engine.sender.room_waiters.append(lock.release)
        if self.has_room(size):
            return
        if self._runner.is_here:
            raise BufferExhausted("buffer.memory is full, and a callback cannot wait for room")
        self.poke()
        if left <= 0 or not lock.acquire(timeout=left):
            block = self._settings.max_block * 1000
            raise BufferExhausted(
                f"buffer.memory={self.limit} was full for max.block.ms={block:.0f}"
            )

    def _check_open(self) -> None:
        if self.closed:
            raise ClientClosed
        if self._runner.forked:
            self._runner.check()
        if self._settings.transactional_id is not None:
            self._engine.transactions.check_open()

    # -- waiting -----------------------------------------------------------------------------------

    def connect(self, timeout: float = 10.0) -> None:
        """Reaches the cluster now; ``send`` does so by itself. Raises ConnectionFailed."""
        self._runner.run(self._engine.ready(timeout))

    def flush(self, timeout: float | None = None) -> None:
        """Returns when everything that was sent before is delivered or has failed. Raises TimeoutError."""
        self._runner.run(self._engine.flush(), timeout)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The topic's partitions: number, leader, replicas, ISR."""
        wait = self._settings.max_block if timeout is None else timeout
        self._runner.run(self._engine.know(topic, wait))
        return self._engine.partitions_of(topic)

    def close(self, timeout: float | None = None) -> None:
        """Delivers what was sent, for ``timeout`` seconds at most (None: delivery.timeout.ms bounds
        it), fails the rest with ClientClosed. Again: does nothing.
        """
        if self.closed:
            return
        self.closed, self.direct = True, False
        if self._runner.forked:
            return
        try:
            self._runner.run(self._engine.close(timeout))
        finally:
            self._runner.stop()
            self._pipeline.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for what was accepted, after an exception too; after Ctrl-C it does not."""
        self.close(0 if kind is KeyboardInterrupt else None)

    # -- transactions ------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Gets the producer id of the transactional.id, ends what an earlier producer of this name
        left open, and fences it. ``begin_transaction`` calls it where it was not called.
        """
        self._runner.run(self._engine.init())

    def begin_transaction(self) -> None:
        """Opens a transaction. Raises TransactionError."""
        self._runner.check()
        transactions = self._engine.transactions
        if transactions.current is None:
            self.init_transactions()
        transactions.begin()
        self.direct = self._pipeline.is_empty

    def commit_transaction(self) -> None:
        """Delivers everything and commits. Raises TransactionError if the transaction has failed."""
        self._end(self._engine.commit)

    def abort_transaction(self) -> None:
        """Aborts: nothing of the transaction will be seen."""
        self._end(self._engine.abort)

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers everything and leaves the transaction open for whoever ends it, by
        ``Admin.end_transactions``, perhaps in another process; None if nothing was sent. This producer
        can only be closed then. Raises TransactionError if the transaction has failed.
        """
        return self._end(self._engine.prepare)

    def _end(self, how: Callable[[], Coroutine[Any, Any, R]]) -> R:
        self.direct = False
        return self._runner.run(how())

    def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits a consumer group's offsets with the transaction. ``group``: what
        ``consumer.group_metadata()`` returns, or the name of a group.
        """
        self._runner.run(self._engine.transactions.send_offsets(offsets, group))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction as a block: its end commits, an exception aborts. If the commit's outcome
        is not known (a retriable error), what is left of it is ended before the next block.
        """
        if self._engine.transactions.is_left:
            self.abort_transaction()
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException as error:
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Aborts because of ``error``, which counts more than an abort that fails."""
        transactions = self._engine.transactions
        if transactions.can_abort:
            transactions.is_left = True
            try:
                self.abort_transaction()
            except KafkaError as failure:
                error.add_note(f"the transaction could not be aborted either: {failure}")

    def end_transaction(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends the transaction that this producer id and epoch has open under this transactional
        id, perhaps in another process, which is then done with it. Needs no ``init_transactions``.
        """
        self._runner.run(self._engine.end_transaction(producer_id, epoch, commit))
