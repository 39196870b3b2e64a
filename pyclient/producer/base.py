"""What both faces of the producer do with records before they are in a queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from random import getrandbits
from typing import Any, Final, NamedTuple

from cy.batch.record_headers import listed, size_of_headers
from cy.produce.arrow_column import ArrowColumn, HeaderColumn
from cy.produce.deliveries import Deliveries
from cy.produce.partition_queue import TopicQueues
from cy.produce.producer_batch import DeliveryReport, ProducerBatch
from cy.produce.record_queues import RecordQueues, milliseconds
from pyclient.config import Config
from pyclient.core.showing import shown
from pyclient.errors import BufferExhausted, ClientClosed, ConfigError, KafkaError
from pyclient.producer import at_exit
from pyclient.producer.engine import Engine, Queues
from pyclient.producer.errors import RecordTooLarge
from pyclient.producer.pipeline import OnDelivery, Pipeline, ProducerRecord
from pyclient.producer.settings import read
from pyclient.protocol import errors
from pyclient.topic_name import check_topic

_ENDING: Final[set[asyncio.Task[Any] | None]] = set()
"""Tasks that close abandoned producers. A loop refers to its tasks only weakly, so this keeps them alive."""


class Prepared(NamedTuple):
    """A record as bytes, before it has its partition."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    timestamp: int | None
    headers: Any
    on_delivery: OnDelivery | None

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        return size_of(self.value, self.key) + size_of_headers(self.headers)


class Lack(NamedTuple):
    """What a record waits for before it can be appended."""

    topic: str | None
    """Its partitions are not known yet; None: there is no room."""
    size: int
    """Bytes of key, value and headers."""
    left: float
    """Seconds that it may wait; 0 or below: no longer."""


class BaseProducer(Queues):
    """What the faces have in common; a face adds the engine and how it waits."""

    _engine: Engine
    _is_told = False  # what it lost, as nobody closed it, is logged
    _is_ended = False  # its close is complete

    def __init__(self, keys: Config) -> None:
        self._settings = read(keys)
        self._pipeline = Pipeline(keys)
        super().__init__(
            batch_size=keys.batch_size,
            buffer_memory=keys.buffer_memory,
            max_request_size=keys.max_request_size,
            round_robin=self._pipeline.round_robin,
            ignore_keys=keys.partitioner_ignore_keys,
            adaptive=keys.partitioner_adaptive_partitioning_enable,
            seed=getrandbits(63) | 1,
        )

    async def _close_abandoned(self, owner: str) -> None:
        """Closes a producer to which the application no longer refers. Delivers its records, or says which are lost."""
        engine, this = self._engine, asyncio.current_task()
        _ENDING.add(this)
        at_exit.tell_open(owner, engine)
        batches = [] if engine.is_transactional else engine.sender.last()
        try:
            await engine.close(None)
        finally:
            _ENDING.discard(this)
            self.shut()
            self._finish(owner, [] if self._is_told else batches, at_exit.NOT_CLOSED)

    def admit(self, admits: bool) -> None:
        """Whether records may be sent now. ``send`` appends those that are bytes already without asking anybody;
        all others, and all while it may not, come to ``send_later``, which says why not.
        """
        self.direct = admits and self._pipeline.is_empty and not self.closed

    def shut(self) -> None:
        """Nothing is appended any more."""
        self.closed = True
        self.admit(False)

    def _prepared(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: Any,
        on_delivery: Any,
    ) -> Prepared:
        """The record after interceptors and serializers."""
        pipeline = self._pipeline
        record = pipeline.intercept(ProducerRecord(topic, value, key, partition, timestamp, headers))
        return Prepared(
            record.topic,
            pipeline.value(record.topic, record.value),
            pipeline.key(record.topic, record.key),
            record.partition,
            record.timestamp,
            listed(record.headers),
            pipeline.acknowledgement(on_delivery),
        )

    def _tried(self, record: Prepared) -> DeliveryReport | None:
        """Appends the record; None if it cannot be done yet."""
        partition = record.partition
        partitioner = self._pipeline.partitioner
        topic = known_topic(self, record.topic)
        if partition is None and partitioner is not None and topic is not None:
            partition = partitioner(record.topic, record.key, record.value, topic.partition_count)
            check_partition(self, record.topic, partition)
        return self.try_send(
            record.topic,
            record.value,
            record.key,
            partition,
            record.timestamp,
            record.headers,
            record.on_delivery,
        )

    def _later(self, record: Prepared, timeout: float | None = None) -> Generator[Lack, None, DeliveryReport]:
        """Appends a record that could not be appended; yields what it lacks, and the face waits for that. Waits for
        max.block.ms, but no longer than ``timeout`` seconds.
        """
        block = self._settings.max_block
        deadline = time.monotonic() + (block if timeout is None else min(block, timeout))
        while True:
            yield self._lack(record.topic, record.partition, record.size, deadline)
            report = self._tried(record)
            if report is not None:
                return report

    def _many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        partition: int | None,
        timestamp: int | None,
        headers: Any,
    ) -> Generator[Lack, None, Deliveries]:
        """``send_many`` of both faces; yields what the next record lacks, and the face waits for that."""
        self._check_open()
        known_topic(self, topic)
        stamp = milliseconds(timestamp)
        if self._pipeline.sees_records:
            return (yield from self._one_by_one(topic, triples(values, keys, headers), partition, stamp))
        items, item_keys = many(self._pipeline, topic, values, keys)
        tails = header_column(headers, values)
        deliveries = Deliveries(len(items), stamp)
        at = 0
        deadline = time.monotonic() + self._settings.max_block
        while (done := self.add_many(topic, items, item_keys, at, partition, stamp, deliveries, tails)) < len(items):
            if done > at:
                deadline = time.monotonic() + self._settings.max_block
            at = done
            key, tail = (None if column is None else column[at] for column in (item_keys, tails))
            yield self._lack(topic, partition, size_of(items[at], key, tail), deadline)
        return deliveries

    def _one_by_one(
        self, topic: str, records: list[tuple[Any, Any, Any]], partition: int | None, stamp: int
    ) -> Generator[Lack, None, Deliveries]:
        deliveries = Deliveries(len(records), stamp)
        for value, key, row in records:
            self._check_open()
            record = self._prepared(topic, value, key, partition, stamp, row, None)
            report = self._tried(record)
            deliveries.keep((yield from self._later(record)) if report is None else report)
        return deliveries

    def _lack(self, topic: str, partition: int | None, size: int, deadline: float) -> Lack:
        """What a record that cannot be appended is to wait for. Raises what no wait would change."""
        self._check_open()
        check_fits(self, topic, size)
        left = deadline - time.monotonic()
        if self.topic(topic) is None:
            return Lack(topic, size, left)
        check_partition(self, topic, partition)
        return Lack(None, size, left)

    def _check_open(self) -> None:
        """Raises what ``send`` raises where nothing may be sent now."""
        if self.closed:
            raise ClientClosed
        self._check_process()
        if self._settings.transactional_id is not None:
            self._engine.transactions.check_open()

    def _check_process(self) -> None:
        """Raises ClientForked where the face notices that it is in another process."""

    def _exhausted(self) -> BufferExhausted:
        block = self._settings.max_block * 1000
        ends = f"max.block.ms={block:.0f}, or the timeout of the call, was over"
        return BufferExhausted(f"buffer.memory={self.limit} was full until {ends}")

    # -- ends --------------------------------------------------------------------------------------

    def _complete_close(self, owner: str) -> None:
        """The last step of a close, when each record is delivered or given up. Can be called again after a signal."""
        if self._is_ended:
            return
        self._let_go()
        lost, self._engine.given_up = self._engine.given_up, []
        self._finish(owner, lost, at_exit.CLOSED)
        self._is_ended = True

    def _finish(self, owner: str, lost: Sequence[ProducerBatch], told: str) -> None:
        at_exit.forget(self)
        at_exit.tell_lost(owner, lost, told)
        self._pipeline.close()

    def _let_go(self) -> None:
        """Ends what the face has besides the engine, which has ended."""

    @contextmanager
    def _giving_up(self, error: BaseException) -> Iterator[None]:
        """Around an abort because of ``error``, which counts more than an abort that fails."""
        self._engine.transactions.is_left = True
        try:
            yield
        except KafkaError as failure:
            error.add_note(f"the transaction could not be aborted either: {failure}")

    def __repr__(self) -> str:
        engine = getattr(self, "_engine", None)
        if engine is None:
            return f"<{type(self).__name__} that could not be made>"
        client, name = engine.client, self._settings.transactional_id
        return shown(type(self).__name__, client.config, client, self.closed, **{"transactional.id": name})

    def metrics(self) -> dict[str, dict[str, float]]:
        """Returns what is counted, by group and name of Kafka's metrics. Any thread may call this."""
        used: int = self.used
        return {
            "producer-metrics": {
                "connection-count": self._engine.client.nodes.connections,
                "buffer-total-bytes": self.limit,
                "buffer-available-bytes": max(0, self.limit - used),
                "requests-in-flight": self._engine.sender.unanswered,
            }
        }

    @property
    def producer_id(self) -> tuple[int, int] | None:
        """(producer id, epoch) as brokers know it; None before the first send."""
        current = self._engine.identities.current
        return None if current is None else (current.producer_id, current.epoch)


def size_of(value: Any, key: Any, headers: bytes | None = None) -> int:
    """Bytes of a value, a key and encoded headers."""
    return sum(len(part) for part in (value, key, headers) if part is not None)


def many(
    pipeline: Pipeline, topic: str, values: Sequence[Any], keys: Sequence[Any] | None
) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Values and keys of ``send_many`` as lists or tuples of bytes or None, which nobody changes."""
    _check_keys(values, keys)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return _columns(pipeline, values, keys)
    return (
        _listed(values, topic, pipeline.value if pipeline.value_serializer else None),
        None if keys is None else _listed(keys, topic, pipeline.key if pipeline.key_serializer else None),
    )


def header_column(headers: Any, values: Sequence[Any]) -> HeaderColumn | None:
    """Headers of the records of ``send_many``. Raises TypeError where they, or the values, are no Arrow column."""
    if headers is None:
        return None
    if not hasattr(values, "__arrow_c_array__") and not hasattr(values, "__arrow_c_stream__"):
        raise TypeError("headers of many records need values that are an Arrow array: else use send")
    column = HeaderColumn(_array(headers))
    if len(column) != len(values):
        raise ValueError(f"{len(values)} values and headers of {len(column)}")
    return column


def triples(values: Sequence[Any], keys: Sequence[Any] | None, headers: Any) -> list[tuple[Any, Any, Any]]:
    """Value, key and headers of each record, where ``send_many`` sends one by one; of Arrow columns as bytes."""
    _check_keys(values, keys)
    rows = repeat(None) if headers is None else map(_header_pairs, headers.to_pylist())
    return list(zip(_items(values), repeat(None) if keys is None else _items(keys), rows, strict=False))


def _header_pairs(row: Any) -> Any:
    return row and [tuple(pair.values()) for pair in row]


def _items(given: Any) -> Any:
    return given.to_pylist() if hasattr(given, "to_pylist") else given


def _check_keys(values: Sequence[Any], keys: Sequence[Any] | None) -> None:
    if keys is not None and len(keys) != len(values):
        raise ValueError(f"{len(values)} values and {len(keys)} keys")


def _listed(items: Any, topic: str, apply: Any) -> Sequence[Any]:
    if apply is not None:
        return [apply(topic, item) for item in items]
    return tuple(items)  # the caller's list may change while there is no room for all of it


def _columns(pipeline: Pipeline, values: Any, keys: Any) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Values and keys that Arrow holds; a chunked array is put together."""
    if pipeline.value_serializer or pipeline.key_serializer:
        raise ConfigError("send_many sends Arrow columns as they are: serializers do not apply")
    return _column(values), None if keys is None else _column(keys)


def _column(array: Any) -> Any:
    return ArrowColumn(_array(array))


def _array(array: Any) -> Any:
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    if not hasattr(array, "__arrow_c_array__"):
        raise TypeError(f"{type(array).__name__} is no Arrow array; keys, values and headers must all be")
    return array


def check_fits(queues: RecordQueues, topic: str, size: int) -> None:
    """Raises RecordTooLarge for a record that can never be sent."""
    if not queues.fits(size):
        raise RecordTooLarge(
            f"{topic}: a record of {size} bytes is larger than max.request.size={queues.max_record} "
            f"or buffer.memory={queues.limit}: raise this setting of the producer. "
            "The topic has a limit of its own, max.message.bytes (on the broker message.max.bytes)"
        )


def known_topic(queues: RecordQueues, topic: Any) -> TopicQueues | None:
    """What is known of the topic. Raises InvalidTopicException, TypeError for what can be no topic."""
    known = queues.topic(topic) if isinstance(topic, str) else None
    if known is None:
        check_topic(topic)
    return known


def check_partition(queues: RecordQueues, topic: str, partition: int | None) -> None:
    """Raises UnknownTopicOrPartition for a partition that the topic does not have."""
    known = queues.topic(topic)
    if partition is None or known is None or 0 <= partition < known.partition_count:
        return
    raise unknown_partition(topic, partition, known.partition_count)


def unknown_partition(topic: str, partition: int, count: int) -> KafkaError:
    """The error of a partition that is not there."""
    unknown: type[KafkaError] = errors.UnknownTopicOrPartition
    return unknown(f"topic {topic} has {count} partitions: there is no partition {partition}")
