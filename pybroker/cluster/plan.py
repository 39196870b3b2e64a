"""What the controller decided: answers, writes to the store, and the change they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from pybroker.cluster import znodes
from pybroker.cluster.image import (
    Configs,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from pybroker.coordination.interface import Create, Delete, Operation, Set
from pyclient.protocol.errors import KafkaError

T = TypeVar("T")


@dataclass(slots=True)
class Plan(Generic[T]):
    """``results`` answer the request item by item; ``steps`` are done one after the other.

    A step is one ``multi`` and the delta that it makes; so many topics are one write to the store,
    and no write grows without limit.
    """

    results: T
    steps: list[Step] = field(default_factory=list)


class Step(NamedTuple):
    """Writes that happen together, and what they change."""

    operations: Sequence[Operation]
    delta: MetadataDelta


class NewTopic(NamedTuple):
    """A topic to create; -1 is the broker's default; ``assignments`` are chosen by hand."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class NewPartitions(NamedTuple):
    """A topic that shall have ``total`` partitions; the new ones perhaps assigned by hand."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class TopicName(NamedTuple):
    """A topic by name or by id."""

    name: str | None = None
    id: bytes | None = None


Outcome = TopicImage | KafkaError


def create_topic(topic: TopicImage, controller_epoch: int) -> Iterable[Operation]:
    """Writes that make a topic with everything below it."""
    yield Create(
        znodes.config_path(ResourceType.TOPIC, topic.name), znodes.encode_configs(topic.configs)
    )
    yield Create(znodes.topic_path(topic.name), _topic_data(topic))
    yield Create(f"{znodes.topic_path(topic.name)}/partitions")
    for partition in topic.partitions:
        yield from create_partition(topic.name, partition, controller_epoch)


def _topic_data(topic: TopicImage) -> bytes:
    return znodes.encode_topic(topic.id, {p.index: p.replicas for p in topic.partitions})


def create_partition(
    name: str, partition: PartitionImage, controller_epoch: int
) -> Iterable[Operation]:
    """Writes that make a partition below its topic."""
    path = znodes.state_path(name, partition.index)
    yield Create(path.removesuffix("/state"))
    yield Create(path, znodes.encode_state(partition, controller_epoch))


def set_assignments(topic: TopicImage) -> Operation:
    """The write of a topic's replicas."""
    return Set(znodes.topic_path(topic.name), _topic_data(topic))


def delete_topic(topic: TopicImage) -> Iterable[Operation]:
    """Writes that remove a topic with everything below it, and remember that its logs must go."""
    yield Create(znodes.deleted_path(topic.id), topic.name.encode())
    root = znodes.topic_path(topic.name)
    for partition in topic.partitions:
        path = znodes.state_path(topic.name, partition.index)
        yield Delete(path)
        yield Delete(path.removesuffix("/state"))
    yield Delete(f"{root}/partitions")
    yield Delete(root)
    yield Delete(znodes.config_path(ResourceType.TOPIC, topic.name))


def forget_deleted(topics: Iterable[TopicImage]) -> list[Operation]:
    """Writes for when the logs of deleted topics are gone."""
    return [Delete(znodes.deleted_path(topic.id)) for topic in topics]


def update_partitions(
    old: TopicImage, new: TopicImage, controller_epoch: int
) -> Iterable[Operation]:
    """Conditional writes of the partitions in which ``new`` differs from ``old``."""
    for before, after in zip(old.partitions, new.partitions, strict=False):
        if before is not after:
            yield Set(
                znodes.state_path(new.name, after.index),
                znodes.encode_state(after, controller_epoch),
                before.partition_epoch,
            )


def write_configs(
    image: MetadataImage, resource_type: ResourceType, name: str, configs: Configs
) -> Operation:
    """The write of a resource's configuration, new or not."""
    path, data = znodes.config_path(resource_type, name), znodes.encode_configs(configs)
    is_there = resource_type is ResourceType.TOPIC or image.configs(resource_type, name)
    return Set(path, data) if is_there else Create(path, data)
