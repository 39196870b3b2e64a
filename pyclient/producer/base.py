"""What both faces of the producer do with records before they are in a queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from random import getrandbits
from typing import Any, NamedTuple

from cy.arrow_column import ArrowColumn, HeaderColumn
from cy.partition_queue import TopicQueues
from cy.producer_batch import DeliveryReport
from cy.record_headers import size_of_headers
from cy.record_queues import RecordQueues
from pyclient.config import Config
from pyclient.errors import ConfigError, KafkaError
from pyclient.producer.engine import Engine
from pyclient.producer.errors import RecordTooLarge
from pyclient.producer.pipeline import OnDelivery, Pipeline, ProducerRecord
from pyclient.producer.settings import read
from pyclient.protocol import errors
from pyclient.topic_name import check_topic


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


class BaseProducer(RecordQueues):
    """What the faces have in common; a face adds the engine and how it waits."""

    _engine: Engine

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

    def _is_direct(self) -> bool:
        """Whether ``send`` may append without asking anybody."""
        return self._pipeline.is_empty and self._settings.transactional_id is None

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
            record.headers,
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
            f"{topic}: a record of {size} bytes is larger than max.request.size or buffer.memory"
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
