"""Reads the whole image from the store: two rounds of reads, however many topics there are.

The store may change while it is read. What was read is made whole by the journal's entries from
before the reading on (``following.newest``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pybroker.cluster import journal, znodes
from pybroker.cluster.image import (
    NO_CONFIGS,
    BrokerRegistration,
    Configs,
    MetadataImage,
    ResourceType,
    TopicImage,
)
from pybroker.cluster.topic_steps import Remains
from pybroker.coordination.interface import CoordinationStore, NoNode, Stat
from pyclient.protocol.uuids import from_base64

FIRST_VERSION: Final = 1

_log = logging.getLogger(__name__)


async def load_image(store: CoordinationStore, cluster_id: str) -> MetadataImage:
    """Everything that the store holds, as an image of the version that the journal had before.

    Its brokers are those that the controller has taken into account.
    """
    version = await newest_version(store)
    features, found = await store.get_many([znodes.FEATURE, znodes.KNOWN])
    known = journal.decode_known(found[0] if found else b"")
    gone = {topic.id for topic in await load_deleted(store)}
    topics = {topic.name: topic for topic in await _load_topics(store) if topic.id not in gone}
    return MetadataImage(
        cluster_id=cluster_id,
        version=version,
        controller_id=known.controller[0],
        controller_epoch=known.controller[1],
        brokers=known.brokers,
        boots=known.boots,
        topics=topics,
        names={topic.id: topic.name for topic in topics.values()},
        resource_configs=await _load_configs(store),
        features=znodes.decode_features(features[0]) if features else {},
        features_epoch=features[1].version if features else -1,
    )


async def newest_version(store: CoordinationStore) -> int:
    """The version of the journal's last entry; 1 where it is empty."""
    names = await store.children(znodes.JOURNAL)
    return int(names[-1]) if names else FIRST_VERSION


async def load_brokers(store: CoordinationStore) -> dict[int, BrokerRegistration]:
    """The live brokers, with what they say they cannot do."""
    ids = [int(name) for name in await store.children(znodes.BROKER_IDS)]
    nodes = await store.get_many([znodes.broker_path(id) for id in ids])
    unfit = await store.get_many([znodes.unfit_path(id) for id in ids])
    return {
        id: _broker(id, node, said)
        for id, node, said in zip(ids, nodes, unfit, strict=True)
        if node is not None
    }


def _broker(
    id: int, node: tuple[bytes, Stat], said: tuple[bytes, Stat] | None
) -> BrokerRegistration:
    broker = znodes.decode_broker(id, node[0], node[1].created)
    if said is None or said[1].owner != node[1].owner:
        return broker
    is_leaving, offline = znodes.decode_unfit(said[0])
    return broker._replace(is_leaving=is_leaving, offline=offline)


class Deleted(NamedTuple):
    """A topic that was deleted: logs of it may be left, on ``brokers`` (None: on any)."""

    id: bytes
    name: str
    brokers: tuple[int, ...] | None

    def may_be_on(self, node_id: int) -> bool:
        """Whether that broker may have logs of it."""
        return self.brokers is None or node_id in self.brokers

    def image(self) -> TopicImage:
        """The topic, without partitions."""
        return TopicImage(self.name, self.id, ())


async def load_deleted(store: CoordinationStore) -> list[Deleted]:
    """The topics that are noted as deleted."""
    ids = await store.children(znodes.DELETED_TOPICS)
    nodes = await store.get_many([f"{znodes.DELETED_TOPICS}/{id}" for id in ids])
    return [
        Deleted(from_base64(id), *znodes.decode_left(node[0]))
        for id, node in zip(ids, nodes, strict=True)
        if node is not None
    ]


async def load_remains(store: CoordinationStore, deleted: Iterable[Deleted]) -> list[Remains]:
    """Of topics whose deletion was interrupted between two steps: what is left of them."""
    deleted = list(deleted)
    marks = await store.get_many([znodes.remains_path(topic.id) for topic in deleted])
    return [
        Remains(topic.id, topic.name, await _load_indexes(store, topic.name))
        for topic, mark in zip(deleted, marks, strict=True)
        if mark is not None
    ]


async def _load_indexes(store: CoordinationStore, name: str) -> list[int]:
    try:
        names = await store.children(znodes.partitions_path(name))
    except NoNode:
        return []
    return sorted(int(name) for name in names if name.isdecimal())


async def _load_topics(store: CoordinationStore) -> Iterable[TopicImage]:
    names = await store.children(znodes.TOPICS)
    topic_nodes = await store.get_many([znodes.topic_path(name) for name in names])
    configs = await load_configs(store, ResourceType.TOPIC, names)
    found = [
        (name, *znodes.decode_topic(node[0]))
        for name, node in zip(names, topic_nodes, strict=True)
        if node is not None
    ]
    states = iter(
        await store.get_many(
            [znodes.state_path(name, index) for name, _, parts in found for index in sorted(parts)]
        )
    )
    topics = []
    for name, topic_id, replicas in found:
        partitions = tuple(
            znodes.decode_state(index, state[0], state[1].version, replicas[index])
            for index, state in zip(sorted(replicas), states, strict=False)  # states go on
            if state is not None
        )
        topics.append(TopicImage(name, topic_id, partitions, configs.get(name, NO_CONFIGS)))
    return topics


async def load_configs(
    store: CoordinationStore, resource_type: ResourceType, names: Iterable[str]
) -> dict[str, Configs]:
    """The stored configurations of those resources."""
    wanted = list(names)
    nodes = await store.get_many([znodes.config_path(resource_type, name) for name in wanted])
    return {
        name: znodes.decode_configs(node[0])
        for name, node in zip(wanted, nodes, strict=True)
        if node is not None
    }


def _config_names(resource_type: ResourceType, entities: Iterable[str]) -> Iterator[str]:
    for entity in entities:
        try:
            yield znodes.config_name(resource_type, entity)
        except ValueError as error:
            folder = znodes.CONFIG_FOLDERS[resource_type]
            _log.warning("%s/%s is left out: %s", folder, entity, error)


async def _load_configs(
    store: CoordinationStore,
) -> dict[tuple[ResourceType, str], Configs]:
    found: dict[tuple[ResourceType, str], Configs] = {}
    for resource_type in (ResourceType.BROKER, ResourceType.GROUP):
        try:
            entities = await store.children(znodes.CONFIG_FOLDERS[resource_type])
        except NoNode:
            continue
        names = list(_config_names(resource_type, entities))
        stored = await load_configs(store, resource_type, names)
        found |= {(resource_type, name): configs for name, configs in stored.items()}
    return found
