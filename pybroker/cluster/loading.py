"""Reads the whole image from the store: two rounds of reads, however many topics there are."""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.cluster import znodes
from pybroker.cluster.image import (
    NO_CONFIGS,
    NO_CONTROLLER,
    BrokerRegistration,
    Configs,
    MetadataImage,
    ResourceType,
    TopicImage,
)
from pybroker.coordination.interface import CoordinationStore, NoNode
from pyclient.protocol.uuids import from_base64


async def load_image(store: CoordinationStore, cluster_id: str) -> MetadataImage:
    """Everything that the store holds, as an image of version 1."""
    controller, epoch, features = await store.get_many(
        [znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, znodes.FEATURE]
    )
    topics = {topic.name: topic for topic in await _load_topics(store)}
    return MetadataImage(
        cluster_id=cluster_id,
        version=1,
        controller_id=znodes.decode_controller(controller[0]) if controller else NO_CONTROLLER,
        controller_epoch=int(epoch[0]) if epoch else 0,
        brokers=await load_brokers(store),
        topics=topics,
        names={topic.id: topic.name for topic in topics.values()},
        resource_configs=await _load_configs(store),
        features=znodes.decode_features(features[0]) if features else {},
        features_epoch=features[1].version if features else -1,
    )


async def load_brokers(store: CoordinationStore) -> dict[int, BrokerRegistration]:
    """The live brokers."""
    ids = [int(name) for name in await store.children(znodes.BROKER_IDS)]
    nodes = await store.get_many([znodes.broker_path(id) for id in ids])
    return {
        id: znodes.decode_broker(id, node[0], node[1].created)
        for id, node in zip(ids, nodes, strict=True)
        if node is not None
    }


async def load_deleted(store: CoordinationStore) -> list[TopicImage]:
    """Topics whose deletion was interrupted, without partitions: logs of theirs may be left."""
    ids = await store.children(znodes.DELETED_TOPICS)
    nodes = await store.get_many([f"{znodes.DELETED_TOPICS}/{id}" for id in ids])
    return [
        TopicImage(node[0].decode(), from_base64(id), ())
        for id, node in zip(ids, nodes, strict=True)
        if node is not None
    ]


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


async def _load_configs(
    store: CoordinationStore,
) -> dict[tuple[ResourceType, str], Configs]:
    found: dict[tuple[ResourceType, str], Configs] = {}
    for resource_type in (ResourceType.BROKER, ResourceType.GROUP):
        try:
            entities = await store.children(znodes.CONFIG_FOLDERS[resource_type])
        except NoNode:
            continue
        names = ["" if name == znodes.DEFAULT_ENTITY else name for name in entities]
        configs = await load_configs(store, resource_type, names)
        found |= {(resource_type, name): c for name, c in configs.items() if c}
    return found
