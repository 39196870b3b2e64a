"""What both faces of the producer do with records before they are in a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cy.record_queues import RecordQueues
from pyclient.errors import ConfigError, KafkaError
from pyclient.producer.errors import RecordTooLarge
from pyclient.producer.pipeline import Pipeline, ProducerRecord
from pyclient.protocol import errors


def payload(pipeline: Pipeline, record: ProducerRecord) -> tuple[Any, Any]:
    """(value, key) as bytes."""
    return pipeline.value(record.topic, record.value), pipeline.key(record.topic, record.key)


def many(
    pipeline: Pipeline, topic: str, values: Sequence[Any], keys: Sequence[Any] | None
) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Values and keys of ``send_many`` as lists or tuples of bytes or None."""
    if pipeline.interceptors or pipeline.partitioner is not None:
        raise ConfigError("send_many passes interceptors and a partitioner of one's own by: use send")
    if keys is not None and len(keys) != len(values):
        raise ValueError(f"{len(values)} values and {len(keys)} keys")
    return (
        _listed(values, topic, pipeline.value if pipeline.value_serializer else None),
        None if keys is None else _listed(keys, topic, pipeline.key if pipeline.key_serializer else None),
    )


def _listed(items: Any, topic: str, apply: Any) -> Sequence[Any]:
    if hasattr(items, "to_pylist"):
        items = items.to_pylist()
    if apply is not None:
        return [apply(topic, item) for item in items]
    return items if type(items) in (list, tuple) else list(items)


def check_fits(queues: RecordQueues, topic: str, size: int) -> None:
    """Raises RecordTooLarge for a record that can never be sent."""
    if not queues.fits(size):
        raise RecordTooLarge(
            f"{topic}: a record of {size} bytes is larger than max.request.size or buffer.memory"
        )


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
