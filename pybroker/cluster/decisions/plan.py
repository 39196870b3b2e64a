"""The form of a decision: answers, writes to the store, and the delta that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, NamedTuple, TypeVar

from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import (
    Configs,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from pybroker.store.interface import Create, Delete, Operation, Set
from pyclient.protocol.errors import KafkaError

T = TypeVar("T")


@dataclass(slots=True)
class Plan(Generic[T]):
    """A decision: ``results`` answer the request item by item, ``steps`` are written one after the other.

    A step is one ``multi`` and its delta. So a single write to the store may create many topics, and no write is too
    large.
    """

    results: T
    steps: list[Step] = field(default_factory=list)
    later: list[Removal] = field(default_factory=list)
    """Removals of nodes that may follow the answer."""

    def confirmed(self) -> Plan[T]:
        """Returns the plan with at least one step. A step that writes nothing still fails if the term is over.

        Use it for a change whose answer must be right even if nothing has to be written. A deposed controller may not
        know that it is deposed, and its image may be old.
        """
        return self if self.steps else Plan(self.results, [Step((), MetadataDelta())])


class Step(NamedTuple):
    """Writes that happen together, and the delta that they make."""

    operations: Sequence[Operation]
    delta: MetadataDelta


class Removal(NamedTuple):
    """The steps that remove the nodes of a deleted topic. If a step fails, new steps can be made from the nodes that
    are left.
    """

    topic_id: bytes
    name: str
    steps: list[Step]


PARTITIONS_PER_STEP: Final = 800
"""How many partitions a step may have. With the longest names these take 650 KB; a write to ZooKeeper may have 1 MB.
"""

BYTES_PER_PARTITION: Final = 800
"""How many bytes of other data count as one partition."""

JOINED_BYTES: Final = 1 << 16
"""How many bytes a change may have to share a step. A larger one is its own step: the journal has a second copy."""

ASSIGNMENTS_PER_PARTITION: Final = 30
"""How many replica lists in a topic's node take as many bytes as the writes of one partition."""


class PartitionChanges:
    """Partitions whose state or replicas change, as conditional writes."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._changed: dict[str, dict[int, PartitionImage]] = {}

    def __bool__(self) -> bool:
        return bool(self._changed)

    def current(self, topic: TopicImage, index: int) -> PartitionImage:
        """Returns the partition with its changes so far."""
        return self._changed.get(topic.name, {}).get(index, topic.partitions[index])

    def add(self, topic: TopicImage, partition: PartitionImage) -> PartitionImage:
        """Sets a changed ``partition`` of a ``topic`` of the image; returns the partition with its new partition epoch.

        The partition epoch is the image's plus one, however often the partition changes here, because its node is
        written once. A frozen topic does not change.
        """
        before = topic.partitions[partition.index]
        if partition is before or topic.name in self._image.frozen:
            return before
        changed = replace(partition, partition_epoch=before.partition_epoch + 1)
        self._changed.setdefault(topic.name, {})[partition.index] = changed
        return changed

    def changed(self, topic: TopicImage) -> TopicImage:
        """Returns the topic with all its changes so far."""
        news = self._changed.get(topic.name)
        if not news:
            return topic
        return topic._replace(partitions=tuple(news.get(p.index, p) for p in topic.partitions))

    def steps(self, last: Step | None = None) -> list[Step]:
        """Returns the changes in steps. ``last`` joins the last step, or is a step of its own if it is large."""
        topics = dict[str, TopicImage]()
        steps = [self._step(chunk, topics) for chunk in self._chunks()]
        if last is not None and steps and _size(last) <= JOINED_BYTES:
            steps[-1:] = [_joined(steps[-1], last)]
        elif last is not None:
            steps.append(last)
        return steps

    def _chunks(self) -> Iterator[list[tuple[str, PartitionImage]]]:
        chunk: list[tuple[str, PartitionImage]] = []
        moved: set[str] = set()
        weight = 0
        for name, partition in self._all():
            more = 1 if name in moved else self._weight(name, partition)
            if chunk and weight + more > PARTITIONS_PER_STEP:
                yield chunk
                chunk, moved, weight = [], set(), 0
                more = self._weight(name, partition)
            if more > 1:
                moved.add(name)
            chunk.append((name, partition))
            weight += more
        if chunk:
            yield chunk

    def _all(self) -> Iterator[tuple[str, PartitionImage]]:
        for name, changed in self._changed.items():
            for partition in changed.values():
                yield name, partition

    def _weight(self, name: str, partition: PartitionImage) -> int:
        """Returns the partition's weight; it is larger if the topic's node is written too."""
        partitions = self._image.topics[name].partitions
        if _assignment(partition) == _assignment(partitions[partition.index]):
            return 1
        return 2 + len(partitions) // ASSIGNMENTS_PER_PARTITION

    def _step(
        self, chunk: Sequence[tuple[str, PartitionImage]], topics: dict[str, TopicImage]
    ) -> Step:
        operations: list[Operation] = []
        by_topic: dict[str, dict[int, PartitionImage]] = {}
        for name, partition in chunk:
            by_topic.setdefault(name, {})[partition.index] = partition
        for name, changed in by_topic.items():
            old = topics.get(name) or self._image.topics[name]
            partitions = tuple(changed.get(before.index, before) for before in old.partitions)
            topics[name] = old._replace(partitions=partitions)
            operations += update_partitions(old, topics[name], self._image.controller_epoch)
        return Step(operations, MetadataDelta({name: topics[name] for name in by_topic}))


def _size(step: Step) -> int:
    return sum(len(operation.data) for operation in step.operations if isinstance(operation, (Create, Set)))


def _joined(first: Step, second: Step) -> Step:
    delta = replace(second.delta, changed={**first.delta.changed, **second.delta.changed})
    return Step([*first.operations, *second.operations], delta)


def update_partitions(
    old: TopicImage, new: TopicImage, controller_epoch: int
) -> Iterable[Operation]:
    """Yields conditional writes of the partitions in which ``new`` differs from ``old``."""
    has_moved = False
    for before, after in zip(old.partitions, new.partitions, strict=False):
        if before is not after:
            has_moved |= _assignment(before) != _assignment(after)
            yield Set(
                znodes.state_path(new.name, after.index),
                znodes.encode_state(after, controller_epoch),
                before.partition_epoch,
            )
    if has_moved:
        yield set_assignments(new)


def _assignment(partition: PartitionImage) -> object:
    return partition.replicas, partition.adding, partition.removing


class NewTopic(NamedTuple):
    """A topic to create. -1 means the broker's default; ``assignments`` come from the user."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class NewPartitions(NamedTuple):
    """A topic that should have ``total`` partitions; ``assignments`` of the new ones may come from the user."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class TopicName(NamedTuple):
    """A topic by name or by id."""

    name: str | None = None
    id: bytes | None = None


Outcome = TopicImage | KafkaError


def create_topic(topic: TopicImage, controller_epoch: int) -> Iterable[Operation]:
    """Yields the writes that create a topic with everything below it."""
    yield Create(
        znodes.config_path(ResourceType.TOPIC, topic.name), znodes.encode_configs(topic.configs)
    )
    yield Create(znodes.topic_path(topic.name), znodes.encode_topic(topic))
    yield Create(f"{znodes.topic_path(topic.name)}/partitions")
    for partition in topic.partitions:
        yield from create_partition(topic.name, partition, controller_epoch)


def create_partition(
    name: str, partition: PartitionImage, controller_epoch: int
) -> Iterable[Operation]:
    """Yields the writes that create a partition below its topic."""
    path = znodes.state_path(name, partition.index)
    yield Create(path.removesuffix("/state"))
    yield Create(path, znodes.encode_state(partition, controller_epoch))


def set_assignments(topic: TopicImage) -> Operation:
    """Returns the write of a topic's replicas."""
    return Set(znodes.topic_path(topic.name), znodes.encode_topic(topic))


def delete_partitions(name: str, indexes: Iterable[int]) -> Iterable[Operation]:
    """Yields the writes that remove partitions of a deleted topic."""
    for index in indexes:
        path = znodes.state_path(name, index)
        yield Delete(path)
        yield Delete(path.removesuffix("/state"))


def delete_root(name: str) -> Iterable[Delete]:
    """Yields the writes that remove a topic without partitions."""
    yield Delete(f"{znodes.topic_path(name)}/partitions")
    yield Delete(znodes.topic_path(name))
    yield Delete(znodes.config_path(ResourceType.TOPIC, name))


def write_configs(
    image: MetadataImage, resource_type: ResourceType, name: str, configs: Configs
) -> Set | Create:
    """Returns the operation that writes a resource's configuration, whether its node exists or not."""
    path, data = znodes.config_path(resource_type, name), znodes.encode_configs(configs)
    is_there = resource_type is ResourceType.TOPIC or (resource_type, name) in image.resource_configs
    return Set(path, data) if is_there else Create(path, data)
