"""The journal: the changes of each version of the metadata, which every broker follows.

The controller writes ``/pybroker/journal/<version>`` in the same ``multi`` as the change itself. A broker with version
v of the image that applies entry v + 1 has version v + 1, the same as every other broker at that version. An entry
contains the new state, not the change. So an image that was read while the store changed becomes correct when the
entries written during the reading are applied.

An entry is a map in MessagePack. It describes an existing topic by partition, so that one ISR of a topic with thousands
of partitions takes a few bytes. A reader ignores unknown fields.

    e  controller epoch of the writer
    t  new topics, whole                    p  topics by id: partitions that are new or changed
    c  topics by id: their configuration    d  ids of deleted topics, and their replicas' brokers
    b  brokers that are new or changed      g  brokers that are gone
    r  configurations of other resources    k  controller: id, epoch
    f  features: epoch, levels
    a  ACLs by pattern: all that it has now  s  delegation tokens: new, changed, or their ids if gone

Pure functions: ``following`` reads, the controller writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from pybroker.cluster.metadata import offline_replicas
from pybroker.cluster.metadata.image import (
    NO_CONTROLLER,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    boots_of,
)
from pybroker.config import Endpoint
from pybroker.security.acls import AccessControlEntry, Entries, ResourcePattern
from pybroker.security.tokens import Token
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

KEPT = 1_000
"""How many entries the store keeps. A broker that is further behind reads the whole store again."""


class _Partition(msgspec.Struct, array_like=True, omit_defaults=True):
    index: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class _Topic(msgspec.Struct, array_like=True):
    name: str
    id: bytes
    configs: dict[str, str]
    partitions: list[_Partition]


class _Broker(msgspec.Struct, array_like=True):
    id: int
    epoch: int
    endpoints: tuple[tuple[str, str, str, int], ...]
    rack: str | None
    log_dirs: tuple[str, ...]
    is_clean: bool
    boot: str
    is_leaving: bool
    offline: offline_replicas.Rows[bytes]
    min_isr: int = 1
    machine: str = ""
    features: tuple[tuple[str, int, int], ...] = ()


class _Acls(msgspec.Struct, array_like=True):
    resource_type: int
    name: str
    pattern_type: int
    entries: list[tuple[str, str, int, int]]
    """Principal, host, operation, permission."""


class _Token(msgspec.Struct, array_like=True):
    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    most_ms: int


class Entry(msgspec.Struct, omit_defaults=True):
    """One entry of the journal: the changes of one version of the metadata."""

    e: int
    t: list[_Topic] = []
    p: dict[bytes, list[_Partition]] = {}
    c: dict[bytes, dict[str, str]] = {}
    d: dict[bytes, tuple[int, ...]] = {}
    b: list[_Broker] = []
    g: list[int] = []
    r: list[tuple[int, str, dict[str, str]]] = []
    k: tuple[int, int] | None = None
    f: tuple[int, dict[str, int]] | None = None
    a: list[_Acls] = []
    s: dict[str, _Token | None] = {}


class _Known(msgspec.Struct, array_like=True):
    controller: tuple[int, int]
    brokers: tuple[_Broker, ...]
    boots: dict[int, str] = {}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)
_known_decoder = msgspec.msgpack.Decoder(_Known)


def encode(delta: MetadataDelta, image: MetadataImage, controller_epoch: int) -> bytes:
    """Encodes the entry of ``delta``, which follows ``image``."""
    entry = Entry(controller_epoch, k=delta.controller)
    for topic in delta.changed.values():
        _add_topic(entry, topic, image.topic_by_id(topic.id))
    entry.d = {topic.id: _replicas(topic) for topic in delta.deleted.values()}
    entry.b = [_broker(broker) for broker in delta.brokers.values() if broker is not None]
    entry.g = [id for id, broker in delta.brokers.items() if broker is None]
    entry.r = [(kind, name, dict(configs)) for (kind, name), configs in delta.configs.items()]
    if delta.features is not None:
        entry.f = (delta.features[0], dict(delta.features[1]))
    entry.a = [_Acls(*pattern, [*entries]) for pattern, entries in delta.acls.items()]
    entry.s = {id: None if token is None else _Token(*token) for id, token in delta.tokens.items()}
    return _encoder.encode(entry)


def _add_topic(entry: Entry, topic: TopicImage, old: TopicImage | None) -> None:
    if old is None:
        partitions = [_partition(partition) for partition in topic.partitions]
        entry.t.append(_Topic(topic.name, topic.id, dict(topic.configs), partitions))
        return
    known = len(old.partitions)
    changed = [
        _partition(partition)
        for index, partition in enumerate(topic.partitions)
        if index >= known or partition is not old.partitions[index]
    ]
    if changed:
        entry.p[topic.id] = changed
    if topic.configs != old.configs:
        entry.c[topic.id] = dict(topic.configs)


def _partition(image: PartitionImage) -> _Partition:
    return _Partition(
        image.index,
        image.leader,
        image.leader_epoch,
        image.partition_epoch,
        image.replicas,
        image.isr,
        image.elr,
        image.adding,
        image.removing,
    )


def _replicas(topic: TopicImage) -> tuple[int, ...]:
    return tuple(sorted({broker for p in topic.partitions for broker in p.replicas}))


def _broker(broker: BrokerRegistration) -> _Broker:
    return _Broker(
        broker.id,
        broker.epoch,
        tuple(tuple(endpoint) for endpoint in broker.endpoints),  # type: ignore[misc]
        broker.rack,
        broker.log_dirs,
        broker.is_clean,
        broker.boot,
        broker.is_leaving,
        offline_replicas.rows(broker.offline),
        broker.min_isr,
        broker.machine,
        broker.features,
    )


def decode(data: bytes, image: MetadataImage) -> MetadataDelta:
    """Decodes the entry that follows ``image``."""
    entry = _decoder.decode(data)
    return MetadataDelta(
        changed=_changed(entry, image),
        deleted={
            topic.name: topic for topic in map(image.topic_by_id, entry.d) if topic is not None
        },
        brokers={broker.id: _registration(broker) for broker in entry.b} | dict.fromkeys(entry.g),
        configs={(ResourceType(kind), name): configs for kind, name, configs in entry.r},
        controller=entry.k,
        features=entry.f,
        acls=dict(map(_acls, entry.a)),
        tokens={id: None if each is None else Token(*msgspec.structs.astuple(each)) for id, each in entry.s.items()},
    )


def _acls(each: _Acls) -> tuple[ResourcePattern, Entries]:
    pattern = ResourcePattern(AclResourceType(each.resource_type), each.name, PatternType(each.pattern_type))
    entries = (
        AccessControlEntry(principal, host, AclOperation(operation), AclPermissionType(permission))
        for principal, host, operation, permission in each.entries
    )
    return pattern, tuple(entries)


def _changed(entry: Entry, image: MetadataImage) -> Mapping[str, TopicImage]:
    topics = {
        each.name: TopicImage(
            each.name, each.id, tuple(map(_partition_image, each.partitions)), each.configs
        )
        for each in entry.t
    }
    for topic_id in {**entry.p, **entry.c}:
        old = image.topic_by_id(topic_id)
        if old is not None:
            partitions = _merged(old.partitions, entry.p.get(topic_id, ()))
            configs = entry.c.get(topic_id, old.configs)
            topics[old.name] = TopicImage(old.name, old.id, partitions, configs)
    return topics


def _merged(
    old: tuple[PartitionImage, ...], changed: Iterable[_Partition]
) -> tuple[PartitionImage, ...]:
    partitions = dict(enumerate(old)) | {each.index: _partition_image(each) for each in changed}
    return tuple(partitions[index] for index in range(len(partitions)) if index in partitions)


def _partition_image(each: _Partition) -> PartitionImage:
    return PartitionImage(
        each.index,
        each.leader,
        each.leader_epoch,
        each.partition_epoch,
        each.replicas,
        each.isr,
        each.elr,
        each.adding,
        each.removing,
    )


def _registration(broker: _Broker) -> BrokerRegistration:
    return BrokerRegistration(
        broker.id,
        broker.epoch,
        tuple(Endpoint(*endpoint) for endpoint in broker.endpoints),
        broker.rack,
        broker.log_dirs,
        broker.is_clean,
        broker.boot,
        broker.is_leaving,
        offline_replicas.replicas(broker.offline),
        broker.min_isr,
        broker.machine,
        broker.features,
    )


class Known(NamedTuple):
    """/pybroker/known: the controller, the live brokers that it has taken into account, and ``boots`` as in the image.
    """

    controller: tuple[int, int]
    brokers: Mapping[int, BrokerRegistration]
    boots: Mapping[int, str]


def encode_known(known: Known) -> bytes:
    """Encodes /pybroker/known."""
    brokers = tuple(_broker(broker) for broker in known.brokers.values())
    return _encoder.encode(_Known(known.controller, brokers, dict(known.boots)))


def decode_known(data: bytes) -> Known:
    """Decodes /pybroker/known; an empty node has no broker."""
    if not data:
        return Known((NO_CONTROLLER, 0), {}, {})
    found = _known_decoder.decode(data)
    brokers = {broker.id: _registration(broker) for broker in found.brokers}
    return Known(found.controller, brokers, {**boots_of(brokers), **found.boots})
