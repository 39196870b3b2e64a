"""The cluster's metadata at one moment, and the difference between two moments.

A ``MetadataImage`` never changes, so it can be read without a lock and across an await. A ``MetadataDelta`` makes the
next image of it. Both are plain values; ``controller`` and ``elections`` decide what a change *means* (which broker
leads, which changes are allowed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from pybroker.config import Endpoint
from pybroker.security.acls import NO_ENTRIES, Entries, ResourcePattern
from pybroker.security.tokens import Token, Tokens
from pyclient.protocol.errors import UnknownServerError, UnknownTopicOrPartition

K = TypeVar("K")
V = TypeVar("V")

NO_LEADER: Final = -1
NO_CONTROLLER: Final = -1
DEFAULT_BROKER: Final = ""

Configs = Mapping[str, str]
NO_CONFIGS: Final[Configs] = MappingProxyType({})

_KEEP: Final = {"cleanup.policy": ""}
UNREADABLE_CONFIGS: Final[Configs] = MappingProxyType(_KEEP)
"""Stands for the unreadable configuration of a topic. No record of the topic is deleted until the configuration is
readable or a policy is set.
"""
MISSING_CONFIGS: Final[Configs] = MappingProxyType(dict(_KEEP))
"""Stands for the configuration of a topic whose configuration node is missing. No record of the topic is deleted."""
UNREADABLE_DEFAULTS: Final[Configs] = MappingProxyType(
    {"log.cleanup.policy": "", "log.retention.ms": "-1", "log.retention.bytes": "-1"}
)
"""The defaults while a configuration of brokers is unreadable. Topics without their own settings keep all records."""


class ResourceType(IntEnum):
    """The kinds of resources with a configuration; the numbers are those in requests. Requests for configurations
    cannot name USER or the last three, whose numbers are our own.

    The name of a USER_CLIENT is the end of its path below the users: ``alice/clients/app``. The nodes above it are also
    configurations: an empty one at ``alice/clients``, and the user's own.
    """

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    USER = 7
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
    CLIENT = 101
    USER_CLIENT = 102
    IP = 103


class BrokerRegistration(NamedTuple):
    """A live broker. ``epoch`` grows with each registration; ``endpoints`` has one per listener.

    ``is_clean``: the broker's earlier process stopped in order. ``boot``: the start of its machine, and its log dirs;
    while ``boot`` stays the same, all written data exist, synced or not. ``is_leaving``: the broker is about to stop.
    ``offline``: replicas (topic id, index) whose disk it has lost. ``min_isr``: the min.insync.replicas in its own
    settings, which it uses as a leader if neither the topic nor the cluster has a value. ``machine``: the name of its
    host, over which replicas are spread if there are no racks. ``features``: name, lowest and highest level of each
    feature that its software supports.
    """

    id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    log_dirs: tuple[str, ...] = ()
    is_clean: bool = False
    boot: str = ""
    is_leaving: bool = False
    offline: frozenset[tuple[bytes, int]] = frozenset()
    min_isr: int = 1
    machine: str = ""
    features: tuple[tuple[str, int, int], ...] = ()

    def endpoint(self, listener: str) -> Endpoint | None:
        """Returns the endpoint of that listener, or None."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition: its replicas, its leader and its in-sync replicas.

    ``leader_epoch`` grows with each election, ``partition_epoch`` with each change. The first of ``replicas`` is the
    preferred leader. ``leader`` is NO_LEADER if no replica may lead. ``elr`` has replicas that left the ISR when it was
    already too small to commit any record, so they may lead as well (KIP-966). ``adding`` and ``removing`` are the
    replicas that a reassignment adds and removes. A replica in both was added, and is removed because it is no longer
    wanted.
    """

    index: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        """True while a reassignment is in progress."""
        return bool(self.adding or self.removing)

    @property
    def joining(self) -> tuple[int, ...]:
        """The replicas that a reassignment adds and does not remove again."""
        return tuple(broker for broker in self.adding if broker not in self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class TopicImage(NamedTuple):
    """A topic: its name, its 16-byte id, its partitions by index, its own configuration."""

    name: str
    id: bytes
    partitions: tuple[PartitionImage, ...]
    configs: Configs = NO_CONFIGS

    @property
    def has_unknown_configs(self) -> bool:
        """True if the topic's configuration in the store is unreadable or missing."""
        return self.configs is UNREADABLE_CONFIGS or self.configs is MISSING_CONFIGS

    @property
    def is_internal(self) -> bool:
        """True for the topics in which the broker keeps its own state."""
        return self.name in INTERNAL_TOPICS


OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One reading of the whole store. ``unreadable`` are the names of existing topics that could not be read."""

    unreadable: frozenset[str] = frozenset()


NOT_READ: Final = Reading()


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What changed: whole topics, brokers and configurations, each in its new state.

    ``deleted`` has the topics before their deletion; a name may be in ``changed`` too, if the topic was created again.
    In the first delta of a term, ``deleted`` also has topics whose deletion was interrupted: they are without
    partitions, under their ids. ``missing`` has topics that have disappeared from the metadata without a deletion. A
    broker with the value None has gone.
    """

    changed: Mapping[str, TopicImage] = field(default_factory=dict)
    deleted: Mapping[str, TopicImage] = field(default_factory=dict)
    brokers: Mapping[int, BrokerRegistration | None] = field(default_factory=dict)
    configs: Mapping[tuple[ResourceType, str], Configs] = field(default_factory=dict)
    controller: tuple[int, int] | None = None
    features: tuple[int, Mapping[str, int]] | None = None
    """The epoch and levels of all finalized features."""
    version: int | None = None
    """The image's version afterwards, if it is not the next one."""
    boots: Mapping[int, str] = field(default_factory=dict)
    """The ``boots`` of an image, for brokers that are not in ``brokers``."""
    missing: Mapping[str, TopicImage] = field(default_factory=dict)
    reading: Reading | None = None
    """The ``reading`` of an image from the store, else None. If it is set, the delta's removals are not decisions."""
    acls: Mapping[ResourcePattern, Entries] = field(default_factory=dict)
    """All ACLs of each changed pattern; an empty value removes the pattern."""
    tokens: Mapping[str, Token | None] = field(default_factory=dict)
    """Changed delegation tokens by id; the value None removes a token."""

    def __bool__(self) -> bool:
        return bool(
            self.changed
            or self.deleted
            or self.missing
            or self.brokers
            or self.configs
            or self.controller
            or self.features
            or self.acls
            or self.tokens
        )


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The brokers, topics and configurations of the cluster; ``version`` grows with each change."""

    cluster_id: str = ""
    version: int = 0
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    boots: Mapping[int, str] = field(default_factory=dict)
    """The last known ``boot`` of each broker, including brokers that have gone. A broker that returns with another
    ``boot`` may have lost unsynced data.
    """
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict)
    resource_configs: Mapping[tuple[ResourceType, str], Configs] = field(default_factory=dict)
    """The configurations of all resources but topics. A resource whose keys were all removed has an empty one."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Finalized levels by feature (see ``cluster.decisions.features``)."""
    features_epoch: int = -1
    """Grows with each change of ``features``; -1 if there are none."""
    acls: Mapping[ResourcePattern, Entries] = field(default_factory=dict)
    """The ACLs of each pattern that has any."""
    tokens: Tokens = field(default_factory=dict)
    """The delegation tokens, including expired ones that are not removed yet."""
    reading: Reading = field(default=NOT_READ, compare=False)
    """The reading of the store with which the image began."""
    frozen: frozenset[str] = field(default=frozenset(), compare=False)
    """Names of topics whose nodes differ from this image. The controller's plans leave them unchanged."""
    lost: frozenset[str] = field(default=frozenset(), compare=False)
    """Names of topics that this image lacks although no deletion is known. When the store was last read, their nodes
    were unreadable, or missing without a note.
    """

    @property
    def unreadable(self) -> frozenset[str]:
        """Names of topics in the store that could not be read. Brokers that know them keep them."""
        return self.reading.unreadable

    @property
    def live_controller(self) -> int:
        """The controller in responses to clients; NO_CONTROLLER while that broker is not alive."""
        return self.controller_id if self.controller_id in self.brokers else NO_CONTROLLER

    def topic(self, name: str) -> TopicImage | None:
        """Returns the topic of that name, or None."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """Returns the topic of that id, or None."""
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def with_configs_of(self, known: MetadataImage) -> MetadataImage:
        """Returns this image, which was read from the store, with ``known``'s configurations in place of unreadable
        ones.

        A broker reads the whole store again after its session has expired. If a configuration's node became malformed
        in the meantime, the broker must not forget guarantees of that configuration, such as ``min.insync.replicas``.
        """
        topics = {
            name: topic._replace(configs=old.configs)
            for name, topic in self.topics.items()
            if topic.has_unknown_configs
            and (old := known.topics.get(name)) is not None
            and old.id == topic.id
        }
        configs = {
            resource: known.resource_configs[resource]
            for resource, found in self.resource_configs.items()
            if found is UNREADABLE_DEFAULTS and resource in known.resource_configs
        }
        if not topics and not configs:
            return self
        return replace(
            self, topics={**self.topics, **topics}, resource_configs={**self.resource_configs, **configs}
        )

    def writable(self, topic: TopicImage) -> TopicImage:
        """Returns the topic. Raises UnknownServerError if it is frozen."""
        if topic.name in self.frozen:
            raise UnknownServerError(
                f"topic '{topic.name}' cannot be changed, because its nodes in the coordination store are incomplete"
            )
        return topic

    def topic_of(self, name: str, index: int) -> TopicImage:
        """Returns the topic with this partition. Raises UnknownTopicOrPartition."""
        if self.partition(name, index) is None:
            raise UnknownTopicOrPartition(f"there is no partition {name}-{index}")
        return self.topics[name]

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """Returns a partition, None if it does not exist."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def configs(self, resource_type: ResourceType, name: str) -> Configs:
        """Returns the stored configuration of a resource, empty if there is none."""
        if resource_type is ResourceType.TOPIC:
            topic = self.topics.get(name)
            return NO_CONFIGS if topic is None else topic.configs
        return self.resource_configs.get((resource_type, name), NO_CONFIGS)

    def apply(self, delta: MetadataDelta) -> MetadataImage:
        """Returns the image after ``delta``; unchanged parts are shared, not copied."""
        topics, names = self.topics, self.names
        if delta.changed or delta.deleted or delta.missing:
            topics, names = dict(topics), dict(names)
            for topic in (*delta.deleted.values(), *delta.missing.values()):
                if names.pop(topic.id, None) is not None:  # otherwise another topic may have its name by now
                    topics.pop(topic.name, None)
            for topic in delta.changed.values():
                topics[topic.name] = topic
                names[topic.id] = topic.name
        controller = delta.controller or (self.controller_id, self.controller_epoch)
        features_epoch, features = delta.features or (self.features_epoch, self.features)
        return replace(
            self,
            version=self.version + 1 if delta.version is None else delta.version,
            controller_id=controller[0],
            controller_epoch=controller[1],
            brokers=_with(self.brokers, delta.brokers),
            boots=self._apply_boots(delta),
            topics=topics,
            names=names,
            resource_configs=self._apply_configs(delta),
            features=features,
            features_epoch=features_epoch,
            acls=self._apply_acls(delta),
            tokens=_with(self.tokens, delta.tokens),
            reading=delta.reading or self.reading,
            lost=self._apply_losses(delta),
        )

    def replaced(self, delta: MetadataDelta) -> dict[str, TopicImage]:
        """Returns the topics that ``delta`` replaces by new topics of the same name without deleting the old ones."""
        gone = {topic.id for topic in delta.deleted.values()}
        before = (self.topics.get(name) for name in delta.changed)
        return {
            topic.name: topic
            for topic in before
            if topic is not None and topic.id != delta.changed[topic.name].id and topic.id not in gone
        }

    def _apply_losses(self, delta: MetadataDelta) -> frozenset[str]:
        lost = self.lost if delta.reading is None else delta.reading.unreadable
        if delta.missing:
            lost = lost.union(topic.name for topic in delta.missing.values())
        if lost:
            lost = lost.difference(delta.changed, (topic.name for topic in delta.deleted.values()))
        return lost

    def _apply_boots(self, delta: MetadataDelta) -> Mapping[int, str]:
        if not delta.brokers and not delta.boots:
            return self.boots
        return {**self.boots, **delta.boots, **boots_of(_with({}, delta.brokers))}

    def _apply_configs(
        self, delta: MetadataDelta
    ) -> Mapping[tuple[ResourceType, str], Configs]:
        if not delta.configs:
            return self.resource_configs
        return {**self.resource_configs, **delta.configs}

    def _apply_acls(self, delta: MetadataDelta) -> Mapping[ResourcePattern, Entries]:
        if not delta.acls:
            return self.acls
        acls = {**self.acls, **delta.acls}
        for pattern, entries in delta.acls.items():
            if not entries:
                del acls[pattern]
        return acls


def changed_acls(before: MetadataImage, after: MetadataImage) -> dict[ResourcePattern, Entries]:
    """Returns the changes of ACLs for a delta."""
    gone = dict.fromkeys(before.acls.keys() - after.acls.keys(), NO_ENTRIES)
    return gone | {pattern: acls for pattern, acls in after.acls.items() if before.acls.get(pattern) != acls}


def changed_tokens(before: MetadataImage, after: MetadataImage) -> dict[str, Token | None]:
    """Returns the changes of delegation tokens for a delta."""
    gone: dict[str, Token | None] = dict.fromkeys(before.tokens.keys() - after.tokens.keys())
    return gone | {id: token for id, token in after.tokens.items() if before.tokens.get(id) != token}


def _with(before: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    if not changes:
        return before
    return {id: value for id, value in {**before, **changes}.items() if value is not None}


def boots_of(brokers: Mapping[int, BrokerRegistration]) -> dict[int, str]:
    """Returns the ``boot`` of each broker."""
    return {id: broker.boot for id, broker in brokers.items()}
