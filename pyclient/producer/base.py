"""What the blocking and the asyncio producer do with records before they are in a queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from random import getrandbits
from typing import Any, Final, NamedTuple

from cy.batch.record_headers import listed, size_of_headers
from cy.counted import counted
from cy.produce.arrow_column import ArrowColumn, HeaderColumn
from cy.produce.deliveries import Deliveries
from cy.produce.missing import MISSING, require_key
from cy.produce.partition_queue import TopicQueues
from cy.produce.producer_batch import DeliveryReport, ProducerBatch
from cy.produce.record_queues import RecordQueues, milliseconds
from pyclient.config import Config
from pyclient.core.deadline import MAX_BLOCK, Deadline
from pyclient.core.showing import shown
from pyclient.errors import BufferExhausted, ConfigError, KafkaError
from pyclient.other_names import OF_PRODUCER, knows
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
    """A record as bytes, before its partition is chosen."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    timestamp: int | None
    headers: Any
    on_delivery: OnDelivery | None

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        return size_of(self.value, self.key) + size_of_headers(self.headers)


class Lack(NamedTuple):
    """The reason why a record cannot be appended yet, and how long it may wait."""

    topic: str | None
    """The topic whose partitions are not known yet; None if buffer memory is missing."""
    size: int
    """The bytes of key, value and headers."""
    left: float
    """The seconds that the record may still wait. If 0 or less, it may not wait."""
    setting: str | None
    """The key that limits the wait; None if the timeout of the call does."""


@knows(OF_PRODUCER)
class BaseProducer(Queues):
    """What both producers have in common. Each of them adds the engine, and how it waits."""

    _engine: Engine
    _is_told = False  # its lost records were logged
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
        """Closes a producer to which the application no longer refers. Delivers its records, or logs which are lost."""
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
        """Sets whether records may be sent now.

        If so, ``send`` directly appends a record that is already bytes. All other records go to ``send_later``, which
        raises the reason if they may not be sent.
        """
        self.direct = admits and self._pipeline.is_empty and not self.closed

    def shut(self) -> None:
        """Accepts no further records."""
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
        """Returns the record after interceptors and serializers."""
        if value is MISSING:
            require_key(key)
            value = None
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
        """Appends the record, or returns None if that is not possible yet."""
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
        """Appends a record that could not be appended at once. Yields what it lacks, for which the caller waits.

        The record waits for at most max.block.ms, and for at most ``timeout`` seconds.
        """
        block = self._settings.max_block
        wait, setting = self._limit_of(timeout if timeout is not None and timeout < block else None)
        deadline = Deadline(time.monotonic() + wait, setting)
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
        """``send_many`` of both producers. Yields what the next record lacks, for which the caller waits."""
        self._check_open()
        known_topic(self, topic)
        stamp = milliseconds(timestamp)
        if self._pipeline.sees_records:
            return (yield from self._one_by_one(topic, triples(values, keys, headers), partition, stamp))
        items, item_keys = many(self._pipeline, topic, values, keys)
        tails = header_column(headers, values)
        deliveries = Deliveries(len(items), stamp)
        at = 0
        deadline = Deadline(time.monotonic() + self._settings.max_block, MAX_BLOCK)
        while (done := self.add_many(topic, items, item_keys, at, partition, stamp, deliveries, tails)) < len(items):
            if done > at:
                deadline = Deadline(time.monotonic() + self._settings.max_block, MAX_BLOCK)
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

    def _limit_of(self, timeout: float | None) -> tuple[float, str | None]:
        """Returns how many seconds a call with this timeout may wait, and the key that they come from."""
        return (self._settings.max_block, MAX_BLOCK) if timeout is None else (timeout, None)

    def _lack(self, topic: str, partition: int | None, size: int, deadline: Deadline) -> Lack:
        """Returns the reason why a record must wait. Raises an error if waiting cannot help."""
        self._check_open()
        check_fits(self, topic, size)
        left = deadline - time.monotonic()
        if self.topic(topic) is None:
            return Lack(topic, size, left, deadline.setting)
        check_partition(self, topic, partition)
        return Lack(None, size, left, deadline.setting)

    def _check_open(self) -> None:
        """Raises the error of ``send`` if records may not be sent now."""
        if self.closed:
            raise self._engine.client.closed()
        self._check_process()
        if self._settings.transactional_id is not None:
            self._engine.transactions.check_open()

    def _check_process(self) -> None:
        """Raises ClientForked in a forked child, if the subclass detects that."""

    def _exhausted(self, lack: Lack) -> BufferExhausted:
        block = f"{lack.setting}={self._settings.max_block * 1000:.0f}"
        limit = "the timeout of the call" if lack.setting is None else block
        return BufferExhausted(f"buffer.memory={self.limit} was full until {limit} had passed")

    # -- ends --------------------------------------------------------------------------------------

    def _complete_close(self, owner: str) -> None:
        """Completes a close, after each record was delivered or failed. After a signal it can be called again."""
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
        """Releases what the subclass has besides the engine, which has ended."""

    @contextmanager
    def _giving_up(self, error: BaseException) -> Iterator[None]:
        """Returns a context for an abort that ``error`` has caused. If the abort fails too, raises ``error``, with that
        failure as a note.
        """
        self._engine.transactions.is_left = True
        try:
            yield
        except KafkaError as failure:
            error.add_note(f"the transaction could not be aborted either: {failure}")

    def __repr__(self) -> str:
        engine = getattr(self, "_engine", None)
        if engine is None:
            return f"<{type(self).__name__} whose constructor failed>"
        client, name = engine.client, self._settings.transactional_id
        return shown(type(self).__name__, client.config, client, self.closed, **{"transactional.id": name})

    def metrics(self) -> dict[str, dict[str, float]]:
        """Returns the metrics by Kafka's group and name. Any thread may call this."""
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
        """The (producer id, epoch) that brokers know; None before the first send."""
        current = self._engine.identities.current
        return None if current is None else (current.producer_id, current.epoch)


def size_of(value: Any, key: Any, headers: bytes | None = None) -> int:
    """Returns the bytes of a value, a key and encoded headers."""
    return sum(len(part) for part in (value, key, headers) if part is not None)


def many(
    pipeline: Pipeline, topic: str, values: Sequence[Any], keys: Sequence[Any] | None
) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Returns values and keys of ``send_many`` as sequences of bytes or None that the caller cannot change."""
    _check_columns(values, keys)
    if _is_arrow(values):
        return _columns(pipeline, values, keys)
    return (
        _listed(values, topic, pipeline.value if pipeline.value_serializer else None),
        None if keys is None else _listed(keys, topic, pipeline.key if pipeline.key_serializer else None),
    )


def header_column(headers: Any, values: Sequence[Any]) -> HeaderColumn | None:
    """Returns the headers for ``send_many``. Raises TypeError if they, or the values, are not an Arrow column."""
    if headers is None:
        return None
    if not _is_arrow(values):
        raise TypeError("send_many takes headers only with values that are an Arrow array: else use send")
    column = HeaderColumn(_array(headers))
    if len(column) != len(values):
        raise ValueError(f"got {counted(len(values), 'value')}, but headers for {len(column)}")
    return column


def triples(values: Sequence[Any], keys: Sequence[Any] | None, headers: Any) -> list[tuple[Any, Any, Any]]:
    """Returns value, key and headers of each record, if ``send_many`` must send them one by one."""
    _check_columns(values, keys)
    rows = repeat(None) if headers is None else map(_header_pairs, headers.to_pylist())
    return list(zip(_items(values), repeat(None) if keys is None else _items(keys), rows, strict=False))


def _header_pairs(row: Any) -> Any:
    return row and [tuple(pair.values()) for pair in row]


def _items(given: Any) -> Any:
    return given.to_pylist() if hasattr(given, "to_pylist") else given


def _check_columns(values: Sequence[Any], keys: Sequence[Any] | None) -> None:
    if not _is_column(values):
        raise TypeError(f"send_many takes a list of values, not {type(values).__name__}: send takes one value")
    if keys is None:
        return
    for what, given in (("keys", keys), ("values", values)):
        if not _is_column(given) or not hasattr(given, "__len__"):
            raise TypeError(f"send_many takes a list of keys with a list of values: {what} is {type(given).__name__}")
    if len(keys) != len(values):
        raise ValueError(f"got {counted(len(values), 'value')}, but {counted(len(keys), 'key')}")


def _is_column(given: Any) -> bool:
    if isinstance(given, (str, bytes, bytearray)):
        return False
    return isinstance(given, Iterable) or hasattr(given, "__getitem__") or _is_arrow(given)


def _is_arrow(given: Any) -> bool:
    return hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__")


def _listed(items: Any, topic: str, apply: Any) -> Sequence[Any]:
    if apply is not None:
        return [apply(topic, item) for item in items]
    return tuple(items)  # a copy: the caller may change its list while this waits for room


def _columns(pipeline: Pipeline, values: Any, keys: Any) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Returns Arrow values and keys; joins the chunks of a chunked array."""
    if pipeline.value_serializer or pipeline.key_serializer:
        raise ConfigError("send_many sends Arrow columns unchanged, so it cannot apply serializers")
    return _column(values), None if keys is None else _column(keys)


def _column(array: Any) -> Any:
    return ArrowColumn(_array(array))


def _array(array: Any) -> Any:
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    if not hasattr(array, "__arrow_c_array__"):
        raise TypeError(f"{type(array).__name__} is not an Arrow array; keys, values and headers must all be")
    return array


def check_fits(queues: RecordQueues, topic: str, size: int) -> None:
    """Raises RecordTooLarge if the record can never be sent."""
    if not queues.fits(size):
        raise RecordTooLarge(
            f"{topic}: a record of {size} bytes is larger than max.request.size={queues.max_record} "
            f"or buffer.memory={queues.limit}: raise this setting of the producer. "
            "The topic has a limit of its own, max.message.bytes (on the broker message.max.bytes)"
        )


def known_topic(queues: RecordQueues, topic: Any) -> TopicQueues | None:
    """Returns the queues of a topic, None if it is not known yet. Raises InvalidTopicException, TypeError for an
    invalid name.
    """
    known = queues.topic(topic) if isinstance(topic, str) else None
    if known is None:
        check_topic(topic)
    return known


def check_partition(queues: RecordQueues, topic: str, partition: int | None) -> None:
    """Raises UnknownTopicOrPartition if the topic does not have the partition."""
    known = queues.topic(topic)
    if partition is None or known is None or 0 <= partition < known.partition_count:
        return
    raise unknown_partition(topic, partition, known.partition_count)


def unknown_partition(topic: str, partition: int, count: int) -> KafkaError:
    """Returns the error for a partition that does not exist."""
    unknown: type[KafkaError] = errors.UnknownTopicOrPartition
    hint = "; leave it out, and the producer chooses one" if partition < 0 else ""
    return unknown(f"topic {topic} has {counted(count, 'partition')}: there is no partition {partition}{hint}")
