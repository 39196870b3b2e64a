"""Returns stray logs to their topic: it creates the topic's nodes again, with the topic's id, and with replicas on the
brokers that have the logs.

The brokers must be stopped. When they start, they find the topic, and each takes its strays back as its logs. The
in-sync replicas are no longer known. So the broker with the most records leads, in an epoch above all epochs in the
logs. The others truncate the records that the leader does not have, and fetch the ones that they lack.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pybroker.cluster.decisions.topic_steps import creation_steps
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MISSING_CONFIGS, MetadataImage, PartitionImage, ResourceType, TopicImage
from pybroker.store.interface import CoordinationStore, Create


class Refused(Exception):
    """Raised if the strays cannot be adopted. The text says why, and what to do."""


class Holder(NamedTuple):
    """A broker's log of a partition: the newest leader epoch in it, and its end offset."""

    partition: int
    node_id: int
    leader_epoch: int
    end_offset: int


def adopted(name: str, topic_id: bytes, holders: Iterable[Holder]) -> TopicImage:
    """Returns the topic that has these logs. Raises Refused if a partition has none."""
    by_index: dict[int, list[Holder]] = {}
    for holder in holders:
        by_index.setdefault(holder.partition, []).append(holder)
    missing = sorted(set(range(max(by_index) + 1)) - by_index.keys())
    if missing:
        raise Refused(f"there is no stray of {name}-{missing[0]}: look for it in the log dirs of the other brokers")
    return TopicImage(name, topic_id, tuple(_partition(index, by_index[index]) for index in range(len(by_index))))


def _partition(index: int, holders: list[Holder]) -> PartitionImage:
    best = sorted(holders, key=lambda each: (-each.leader_epoch, -each.end_offset, each.node_id))
    replicas = tuple(dict.fromkeys(each.node_id for each in best))
    epoch = best[0].leader_epoch + 1
    return PartitionImage(index, replicas[0], epoch, 0, replicas, replicas[:1])


async def adopt(store: CoordinationStore, topic: TopicImage) -> None:
    """Creates the topic's nodes. Keeps a configuration that still exists. If none exists, retention deletes nothing
    until one is set.

    Raises Refused, CoordinationError.
    """
    config = znodes.config_path(ResourceType.TOPIC, topic.name)
    paths = [znodes.topic_path(topic.name), znodes.deleted_path(topic.id), config]
    existing, note, configured = await store.get_many(paths)
    if existing is not None:
        raise Refused(f"topic '{topic.name}' exists: delete it, or produce the records of the strays to it")
    if note is not None:
        raise Refused(f"topic '{topic.name}' with this id was deleted, and not all brokers have removed its logs yet")
    if await store.children(znodes.BROKER_IDS):
        raise Refused("brokers are registered: stop them all")
    whole = topic._replace(configs=MISSING_CONFIGS)
    for step in creation_steps(MetadataImage(), [whole]):
        made = [op for op in step.operations if not (configured and isinstance(op, Create) and op.path == config)]
        await store.multi(made)
