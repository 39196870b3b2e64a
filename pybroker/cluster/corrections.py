"""What to do where the metadata, which all brokers have, is not what the store holds.

It should not be: every change is written in one ``multi`` with its entry in the journal. A fault or
another program's hand may have made it so; then every change of those nodes would fail. The
controller reads everything anew and tells the others by an entry of its own, so that all have the
same image of the next version. Nothing is deleted by it: a topic whose nodes are gone stays in the
metadata, and so do its logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pybroker.cluster import znodes
from pybroker.cluster.following import newest
from pybroker.cluster.image import NO_CONFIGS, MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pybroker.cluster.plan import Step
from pybroker.coordination.interface import CoordinationStore, Create, Operation, Set


async def load_correction(store: CoordinationStore, image: MetadataImage) -> Step:
    """Reads what the store holds; the step by which ``image`` has it too."""
    return correction(image, await newest(store, MetadataImage(cluster_id=image.cluster_id)))


def correction(image: MetadataImage, stored: MetadataImage) -> Step:
    """What makes ``image`` as ``stored``; a configuration whose node is gone has an empty one again."""
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
    return Step(operations, MetadataDelta(topics, configs=configs, features=features if is_old else None))


def _changed_topics(image: MetadataImage, stored: MetadataImage) -> Iterator[tuple[TopicImage, TopicImage]]:
    """As they are stored, and as they shall be; none that is another one of the same name, or has lost partitions."""
    for name, topic in stored.topics.items():
        old = image.topics.get(name)
        if old is None:
            yield topic, topic
        elif old != topic and old.id == topic.id and len(old.partitions) <= len(topic.partitions):
            known = old.partitions
            newer = (_newer(each, known[n]) if n < len(known) else each for n, each in enumerate(topic.partitions))
            yield topic, topic._replace(partitions=tuple(newer))


def _newer(stored: PartitionImage, old: PartitionImage) -> PartitionImage:
    """In epochs by which it replaces ``old`` at every replica."""
    if stored == old:
        return old
    if (stored.leader_epoch, stored.partition_epoch) > (old.leader_epoch, old.partition_epoch):
        return stored
    leader_epoch = max(stored.leader_epoch, old.leader_epoch) + 1
    return replace(stored, leader_epoch=leader_epoch, partition_epoch=stored.partition_epoch + 1)


def _writes(stored: TopicImage, topic: TopicImage, controller_epoch: int) -> Iterator[Operation]:
    for before, after in zip(stored.partitions, topic.partitions, strict=True):
        if after != before:
            path = znodes.state_path(topic.name, after.index)
            yield Set(path, znodes.encode_state(after, controller_epoch), before.partition_epoch)
