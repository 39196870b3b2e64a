"""Corrects the metadata, which all brokers have, if they differ from the store.

Normally they cannot differ, because every change is written in one ``multi`` with its journal entry. But a fault or
another program may have changed the nodes. Then every later change of these nodes would fail. So the controller reads
the store again and writes a journal entry, so that all brokers have the same image of the next version. This deletes no
topic and no log. A topic stays in the metadata as it was, with its logs, if its nodes are missing, or if it would lose
a partition or a replica. An unreadable configuration stays as it was.

A topic that stays this way is *frozen*: the controller leaves it out of its plans, so that other topics need not wait
for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from pybroker.cluster.decisions.plan import Step
from pybroker.cluster.following import newest
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import (
    MISSING_CONFIGS,
    NO_CONFIGS,
    UNREADABLE_CONFIGS,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    changed_acls,
    changed_tokens,
)
from pybroker.store.interface import CoordinationStore, Create, Operation, Set


class Correction(NamedTuple):
    """The step that makes the metadata equal to the store, and the names of topics that cannot be made equal."""

    step: Step
    frozen: frozenset[str]


async def load_correction(store: CoordinationStore, image: MetadataImage) -> Correction:
    """Reads the store and computes the correction."""
    stored = await newest(store, MetadataImage(cluster_id=image.cluster_id))
    return Correction(correction(image, stored), frozen(image, stored))


def frozen(image: MetadataImage, stored: MetadataImage) -> frozenset[str]:
    """Returns the names of topics that cannot be corrected to match the store. Every change of them would fail."""
    return frozenset(name for name, topic in image.topics.items() if not _can_be_corrected(topic, stored))


def _can_be_corrected(topic: TopicImage, stored: MetadataImage) -> bool:
    found = stored.topics.get(topic.name)
    return found is not None and found.id == topic.id and _keeps_all(topic, found)


def correction(image: MetadataImage, stored: MetadataImage) -> Step:
    """Returns the step that makes ``image`` equal to ``stored``. A configuration whose node is missing gets an empty
    one.
    """
    operations: list[Operation] = []
    topics: dict[str, TopicImage] = {}
    for found, topic in _changed_topics(image, stored):
        topics[topic.name] = topic
        operations += _writes(found, topic, image.controller_epoch)
    configs = {
        resource: stored.resource_configs.get(resource, NO_CONFIGS)
        for resource in {**image.resource_configs, **stored.resource_configs}
        if image.resource_configs.get(resource) != stored.resource_configs.get(resource)
    }
    operations += [
        Create(znodes.config_path(*resource), znodes.encode_configs(NO_CONFIGS))
        for resource in configs
        if resource not in stored.resource_configs
    ]
    features = (stored.features_epoch, stored.features)
    is_old = features != (image.features_epoch, image.features)
    delta = MetadataDelta(
        topics,
        configs=configs,
        features=features if is_old else None,
        acls=changed_acls(image, stored),
        tokens=changed_tokens(image, stored),
    )
    return Step(operations, delta)


def _changed_topics(image: MetadataImage, stored: MetadataImage) -> Iterator[tuple[TopicImage, TopicImage]]:
    """Yields each changed topic, as it is stored and as it should be. Skips topics whose name has another id now."""
    for name, topic in stored.topics.items():
        old = image.topics.get(name)
        if old is None:
            yield topic, topic
        elif (old != topic or topic.configs is MISSING_CONFIGS) and _can_be_corrected(old, stored):
            known = old.partitions
            newer = (_newer(each, known[n]) if n < len(known) else each for n, each in enumerate(topic.partitions))
            configs = old.configs if topic.configs in (MISSING_CONFIGS, UNREADABLE_CONFIGS) else topic.configs
            yield topic, topic._replace(partitions=tuple(newer), configs=configs)


def _keeps_all(old: TopicImage, stored: TopicImage) -> bool:
    """Returns False if a partition or a replica is missing: a broker would believe that its log was moved away."""
    if len(old.partitions) > len(stored.partitions):
        return False
    return all(set(a.replicas) <= set(b.replicas) for a, b in zip(old.partitions, stored.partitions, strict=False))


def _newer(stored: PartitionImage, old: PartitionImage) -> PartitionImage:
    """Returns the partition in epochs that are newer than ``old`` for every replica.

    If leader or replicas differ, the leader epoch grows too: a leader epoch has one leader and one set of replicas.
    """
    if stored == old:
        return old
    if stored.leader_epoch > old.leader_epoch:
        return stored
    has_same = (stored.leader_epoch, stored.leader, stored.replicas) == (old.leader_epoch, old.leader, old.replicas)
    if has_same and stored.partition_epoch > old.partition_epoch:
        return stored
    leader_epoch = max(stored.leader_epoch, old.leader_epoch) + 1
    return replace(stored, leader_epoch=leader_epoch, partition_epoch=stored.partition_epoch + 1)


def _writes(stored: TopicImage, topic: TopicImage, controller_epoch: int) -> Iterator[Operation]:
    if stored.configs is MISSING_CONFIGS:
        yield Create(znodes.config_path(ResourceType.TOPIC, topic.name), znodes.encode_configs(topic.configs))
    for before, after in zip(stored.partitions, topic.partitions, strict=True):
        if after != before:
            path = znodes.state_path(topic.name, after.index)
            yield Set(path, znodes.encode_state(after, controller_epoch), before.partition_epoch)
