"""Reads the whole image from the store: in two rounds of reads, however many topics there are.

The store may change while it is read. Then the journal entries that were written since the reading began complete the
result (``following.newest``).

Other programs may change ZooKeeper. A node in another format than brokers write must not stop any broker: it is
ignored, with a warning. While a configuration is unreadable, no records are deleted, because the defaults might delete
records that the unknown settings keep. Unreadable ACLs deny everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import msgspec

from pybroker.cluster.metadata import acl_nodes, journal, token_nodes, znodes
from pybroker.cluster.metadata.image import (
    MISSING_CONFIGS,
    NO_CONFIGS,
    UNREADABLE_CONFIGS,
    UNREADABLE_DEFAULTS,
    BrokerRegistration,
    Configs,
    MetadataImage,
    PartitionImage,
    Reading,
    ResourceType,
    TopicImage,
)
from pybroker.security.acls import UNREADABLE, Entries, ResourcePattern, by_word
from pybroker.security.tokens import Token
from pybroker.store.interface import CoordinationStore, NoNode, Stat
from pyclient.protocol.acls import AclResourceType
from pyclient.protocol.uuids import from_base64

T = TypeVar("T")

FIRST_VERSION: Final = 1
FOLDERS_AT_ONCE: Final = 100
"""How many nodes of a topic are listed at once, so that the loop can serve other work in between."""
NOT_OURS: Final = (ValueError, LookupError, TypeError, AttributeError)
"""The errors that decoding raises for a node that another program has written."""

_log = logging.getLogger(__name__)


async def load_image(store: CoordinationStore, cluster_id: str) -> MetadataImage:
    """Reads the store as an image, in the version that the journal had before the reading.

    Its brokers are those that the controller has taken into account.
    """
    version = await newest_version(store)
    folders = [acl_nodes.FOLDERS[0], token_nodes.TOKENS]
    features, found, acls, tokens = await store.get_many([znodes.FEATURE, znodes.KNOWN, *folders])
    known = _required(znodes.KNOWN, journal.decode_known, found[0] if found else b"")
    gone = {topic.id for topic in await load_deleted(store)}
    whole, torn = await _load_topics(store, await store.children(znodes.TOPICS))
    topics = {topic.name: topic for topic in whole if topic.id not in gone}
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
        features=_required(znodes.FEATURE, znodes.decode_features, features[0]) if features else {},
        features_epoch=features[1].version if features else -1,
        acls=await load_acls(store) if acls else {},
        tokens=await load_tokens(store) if tokens else {},
        reading=Reading(await _unreadable(store, torn)),
    )


async def newest_version(store: CoordinationStore) -> int:
    """Returns the version of the journal's last entry; 1 if it is empty."""
    return max(await load_versions(store), default=FIRST_VERSION)


async def load_versions(store: CoordinationStore) -> list[int]:
    """Returns the versions of the journal's entries, in order."""
    return list(map(int, filter(str.isdecimal, await store.children(znodes.JOURNAL))))


async def load_brokers(store: CoordinationStore) -> dict[int, BrokerRegistration]:
    """Returns the live brokers. Each has the reports about work that it cannot do."""
    ids = [int(name) for name in await store.children(znodes.BROKER_IDS) if name.isdecimal()]
    nodes = await store.get_many([znodes.broker_path(id) for id in ids])
    unfit = await store.get_many([znodes.unfit_path(id) for id in ids])
    brokers = {}
    for id, node, said in zip(ids, nodes, unfit, strict=True):
        broker = _broker(id, node, said) if node is not None else None
        if broker is not None:
            brokers[id] = broker
    return brokers


def _broker(
    id: int, node: tuple[bytes, Stat], said: tuple[bytes, Stat] | None
) -> BrokerRegistration | None:
    broker = read_broker(id, *node)
    if broker is None or said is None or said[1].owner != node[1].owner:
        return broker
    unfit = _readable(znodes.unfit_path(id), znodes.decode_unfit, said[0])
    return broker if unfit is None else broker._replace(is_leaving=unfit[0], offline=unfit[1])


def read_broker(id: int, data: bytes, stat: Stat) -> BrokerRegistration | None:
    """Returns a broker's registration, None if the node is malformed."""
    return _readable(znodes.broker_path(id), znodes.decode_broker, id, data, stat.created)


class Deleted(NamedTuple):
    """A deleted topic; ``brokers`` may still have logs of it (None: any broker)."""

    id: bytes
    name: str
    brokers: tuple[int, ...] | None

    def may_be_on(self, node_id: int) -> bool:
        """Returns whether that broker may have logs of the topic."""
        return self.brokers is None or node_id in self.brokers

    def image(self) -> TopicImage:
        """Returns the topic, without partitions."""
        return TopicImage(self.name, self.id, ())


async def load_deleted(store: CoordinationStore) -> list[Deleted]:
    """Returns the topics that are noted as deleted."""
    ids = await store.children(znodes.DELETED_TOPICS)
    paths = [f"{znodes.DELETED_TOPICS}/{id}" for id in ids]
    nodes = zip(ids, paths, await store.get_many(paths), strict=True)
    notes = [_readable(path, _note, id, node[0]) for id, path, node in nodes if node is not None]
    return [note for note in notes if note is not None]


def _note(id: str, data: bytes) -> Deleted:
    return Deleted(from_base64(id), *znodes.decode_left(data))


async def load_marked(store: CoordinationStore, deleted: Iterable[Deleted]) -> list[Deleted]:
    """Returns those deleted topics that may still have nodes."""
    deleted = list(deleted)
    marks = await store.get_many([znodes.remains_path(topic.id) for topic in deleted])
    return [topic for topic, mark in zip(deleted, marks, strict=True) if mark is not None]


async def load_nodes(store: CoordinationStore, name: str, topic_id: bytes) -> list[str]:
    """Returns the existing nodes of a topic, children first; none if another topic has the name now."""
    path, config = znodes.topic_path(name), znodes.config_path(ResourceType.TOPIC, name)
    root, configs = await store.get_many([path, config])
    known = _readable(path, znodes.decode_topic, root[0]) if root else None
    if known is not None and known[0] != topic_id:
        return []
    return [*(await _load_tree(store, path) if root else []), *([config] if configs else [])]


async def _load_tree(store: CoordinationStore, path: str) -> list[str]:
    """Returns the existing nodes from ``path`` down, children first.

    It reads each level piece by piece, because a topic may have thousands of partitions.
    """
    found: list[str] = []
    level = [path]
    while level:
        found = level + found
        below: list[list[str]] = []
        for begin in range(0, len(level), FOLDERS_AT_ONCE):
            piece = level[begin : begin + FOLDERS_AT_ONCE]
            below += await asyncio.gather(*(_children(store, node) for node in piece))
        level = [f"{node}/{name}" for node, names in zip(level, below, strict=True) for name in names]
    return found


async def _children(store: CoordinationStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNode:
        return []


async def load_unknown_topics(store: CoordinationStore, image: Callable[[], MetadataImage]) -> list[str]:
    """Returns the names of topics that are complete in the store and not in ``image()``.

    No journal entry will announce these topics: their nodes were missing when the image was read, and are back.
    """
    names = [name for name in await store.children(znodes.TOPICS) if name not in image().topics]
    if not names:
        return []
    whole, _ = await _load_topics(store, names)
    gone = {topic.id for topic in await load_deleted(store)}
    if await newest_version(store) > image().version:
        return []  # they may be new topics
    return [topic.name for topic in whole if topic.id not in gone and topic.name not in image().topics]


async def _load_topics(
    store: CoordinationStore, names: Sequence[str]
) -> tuple[list[TopicImage], dict[str, bytes | None]]:
    """Returns the complete topics, and the ids (if readable) of incomplete ones."""
    nodes = await store.get_many([znodes.topic_path(name) for name in names])
    configs = await load_configs(store, ResourceType.TOPIC, names)
    torn: dict[str, bytes | None] = {}
    found: list[tuple[str, bytes, Mapping[int, znodes.Assignment]]] = []
    for name, node in zip(names, nodes, strict=True):
        topic = None if node is None else _readable(znodes.topic_path(name), znodes.decode_topic, node[0])
        if topic is not None:
            found.append((name, *topic))
        elif node is not None:
            torn[name] = None
    states = iter(
        await store.get_many(
            [znodes.state_path(name, index) for name, _, parts in found for index in sorted(parts)]
        )
    )
    topics: list[TopicImage] = []
    for name, topic_id, replicas in found:
        partitions = _partitions(name, replicas, list(islice(states, len(replicas))))
        if len(partitions) == len(replicas):
            topics.append(TopicImage(name, topic_id, partitions, configs.get(name, MISSING_CONFIGS)))
        else:
            torn[name] = topic_id
    _tell_kept([topic.name for topic in topics if topic.configs in (UNREADABLE_CONFIGS, MISSING_CONFIGS)])
    return topics, torn


def _tell_kept(names: Sequence[str]) -> None:
    if names:
        _log.error("nothing of these topics is deleted, because their configuration cannot be read: %s", sorted(names))


def _partitions(
    name: str, replicas: Mapping[int, znodes.Assignment], states: Sequence[tuple[bytes, Stat] | None]
) -> tuple[PartitionImage, ...]:
    """Returns the partitions from the first one up to a gap."""
    partitions: list[PartitionImage] = []
    for index, state in enumerate(states):
        if state is None or index not in replicas:
            break
        path, assigned = znodes.state_path(name, index), replicas[index]
        partition = _readable(path, znodes.decode_state, index, state[0], state[1].version, assigned)
        if partition is None:
            break
        partitions.append(partition)
    return tuple(partitions)


async def _unreadable(store: CoordinationStore, torn: Mapping[str, bytes | None]) -> frozenset[str]:
    """Returns the names of incomplete topics that are not being deleted."""
    if not torn:
        return frozenset()
    gone = {topic.id for topic in await load_deleted(store)}
    names = [name for name, topic_id in torn.items() if topic_id not in gone]
    nodes = await store.get_many([znodes.topic_path(name) for name in names])
    there = frozenset(name for name, node in zip(names, nodes, strict=True) if node is not None)
    if there:
        _log.warning("incomplete topics below %s are ignored: %s", znodes.TOPICS, sorted(there))
    return there


async def load_configs(
    store: CoordinationStore, resource_type: ResourceType, names: Iterable[str]
) -> dict[str, Configs]:
    """Returns the stored configurations of those resources that have one."""
    wanted = list(names)
    nodes = await store.get_many([znodes.config_path(resource_type, name) for name in wanted])
    return {
        name: _configs(resource_type, name, node[0])
        for name, node in zip(wanted, nodes, strict=True)
        if node is not None
    }


def _configs(resource_type: ResourceType, name: str, data: bytes) -> Configs:
    if not data and resource_type not in _UNREADABLE:
        return NO_CONFIGS  # Kafka's tools leave the folder of a user's clients empty
    found = _readable(znodes.config_path(resource_type, name), znodes.decode_configs, data)
    return _UNREADABLE.get(resource_type, NO_CONFIGS) if found is None else found


_WITH_CONFIGS: Final = (
    ResourceType.BROKER, ResourceType.GROUP, ResourceType.USER, ResourceType.CLIENT, ResourceType.IP
)
_UNREADABLE: Final = {ResourceType.TOPIC: UNREADABLE_CONFIGS, ResourceType.BROKER: UNREADABLE_DEFAULTS}


def _readable(path: str, decode: Callable[..., T], *arguments: object) -> T | None:
    """Decodes a node; returns None if it is malformed."""
    try:
        return decode(*arguments)
    except NOT_OURS as error:
        _log.warning("%s is ignored, because it is malformed: %s: %s", path, type(error).__name__, error)
        return None


def _required(path: str, decode: Callable[[bytes], T], data: bytes) -> T:
    """Decodes a node without which there is no image."""
    try:
        return decode(data)
    except (*NOT_OURS, msgspec.MsgspecError) as error:
        raise ValueError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _config_names(resource_type: ResourceType, entities: Iterable[str]) -> Iterator[str]:
    for entity in entities:
        try:
            yield znodes.config_name(resource_type, entity)
        except ValueError as error:
            folder = znodes.CONFIG_FOLDERS[resource_type]
            _log.warning("%s/%s is ignored: %s", folder, entity, error)


async def _load_configs(
    store: CoordinationStore,
) -> dict[tuple[ResourceType, str], Configs]:
    found: dict[tuple[ResourceType, str], Configs] = {}
    for resource_type in _WITH_CONFIGS:
        try:
            entities = await store.children(znodes.CONFIG_FOLDERS[resource_type])
        except NoNode:
            continue
        names = list(_config_names(resource_type, entities))
        stored = await load_configs(store, resource_type, names)
        found |= {(resource_type, name): configs for name, configs in stored.items()}
    users = [name for resource_type, name in found if resource_type is ResourceType.USER]
    return found | await _load_user_clients(store, users)


async def _load_user_clients(
    store: CoordinationStore, users: Iterable[str]
) -> dict[tuple[ResourceType, str], Configs]:
    """Returns the configurations below the nodes of users."""
    above = await load_configs(store, ResourceType.USER_CLIENT, map(znodes.clients_name, users))
    entities = []
    for name in above:
        clients = await store.children(znodes.config_path(ResourceType.USER_CLIENT, name))
        entities += [f"{name}/{client}" for client in clients]
    names = _config_names(ResourceType.USER_CLIENT, entities)
    found = {**above, **await load_configs(store, ResourceType.USER_CLIENT, names)}
    return {(ResourceType.USER_CLIENT, name): configs for name, configs in found.items()}


async def load_acls(store: CoordinationStore) -> dict[ResourcePattern, Entries]:
    """Returns the ACLs of every pattern that has any."""
    patterns: dict[str, ResourcePattern] = {}
    for pattern_type, root in acl_nodes.ROOTS.items():
        for kind in await _kinds(store, root):
            folder = acl_nodes.folder(pattern_type, kind)
            for entity in await store.children(folder):
                name = _readable(f"{folder}/{entity}", acl_nodes.name_of, entity)
                patterns[f"{folder}/{entity}"] = ResourcePattern(kind, name or entity, pattern_type)
    nodes = await store.get_many(list(patterns))
    found = {
        pattern: _acls(path, pattern, node[0])
        for (path, pattern), node in zip(patterns.items(), nodes, strict=True)
        if node is not None
    }
    return {pattern: entries for pattern, entries in found.items() if entries}


async def load_tokens(store: CoordinationStore) -> dict[str, Token]:
    """Returns the delegation tokens by id."""
    ids = await store.children(token_nodes.TOKENS)
    nodes = zip(ids, await store.get_many(list(map(token_nodes.path, ids))), strict=True)
    read = ((id, _readable(token_nodes.path(id), token_nodes.decode, id, node[0])) for id, node in nodes if node)
    return {id: token for id, token in read if token is not None}


async def _kinds(store: CoordinationStore, root: str) -> Iterable[AclResourceType]:
    """Returns the resource types that have a folder."""
    try:
        words = await store.children(root)
    except NoNode:
        return []
    return [kind for word in words if (kind := _readable(f"{root}/{word}", by_word, AclResourceType, word))]


def _acls(path: str, pattern: ResourcePattern, data: bytes) -> Entries:
    try:
        if path != acl_nodes.path(pattern):
            raise ValueError("no resource has a node of this name")
        return acl_nodes.decode(data)
    except NOT_OURS as error:
        _log.error("all access to %s is denied, because %s is malformed: %s", pattern, path, error)
        return UNREADABLE
