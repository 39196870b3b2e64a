"""What the admin client takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from pyclient.topic_partition import TopicPartition


class NewTopic(NamedTuple):
    """A topic to create. -1: the broker's default. ``assignments``: brokers by partition."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic that was created; ``topic_id`` in base64. -1, None: the broker did not say."""

    topic_id: str
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str | None] | None


class TopicListing(NamedTuple):
    """A topic in a list; ``topic_id`` in base64."""

    name: str
    topic_id: str
    is_internal: bool


class PartitionDescription(NamedTuple):
    """A partition; ``leader`` is -1 where there is none. Brokers by id."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicDescription(NamedTuple):
    """A topic and its partitions by number."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class ResourceType(IntEnum):
    """What has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Something that has a configuration; a broker's name is its id, empty for all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name}"


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """A key that a value may come from, the strongest first."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A key and its value. ``source``: a ConfigSource, or a number that is newer than this client.
    ``type``: Kafka's number of the value's type (1 boolean, 2 string, 3 int, 5 long …).
    """

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: int = 0
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Nobody has set it."""
        return self.source == ConfigSource.DEFAULT_CONFIG


class AlterOp(IntEnum):
    """What to do to a key; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigOp(NamedTuple):
    """A change of one key."""

    name: str
    value: str | None
    op: AlterOp = AlterOp.SET


class OffsetSpec(IntEnum):
    """Which offset to list; a time in ms since 1970 is one as well: the first record not before it."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class ListedOffset(NamedTuple):
    """An offset, -1 where no record fits; ``timestamp`` in ms, -1 unless it was asked for by time."""

    offset: int
    timestamp: int
    leader_epoch: int


class GroupListing(NamedTuple):
    """A group in a list. ``type``: ``Classic``, ``Consumer`` …; empty: the broker did not say."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(NamedTuple):
    """A member of a group. ``epoch`` and ``target`` are of the new protocol (KIP-848)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    rack: str | None = None


class GroupDescription(NamedTuple):
    """A group. ``type`` is ``Classic`` or ``Consumer``; ``epoch`` is the latter's, and so is
    ``assignment_epoch``; ``coordinator`` is a broker's id.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


class MemberToRemove(NamedTuple):
    """A member, by the id of its instance (static) or by its own."""

    group_instance_id: str | None = None
    member_id: str = ""


class BrokerDescription(NamedTuple):
    """A broker of the cluster."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


class ClusterDescription(NamedTuple):
    """The cluster; ``controller_id`` is -1 where there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


class ReplicaInfo(NamedTuple):
    """A replica in a log dir: bytes, records it lags behind, whether it is moving there."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A log dir of a broker; bytes are -1 where the broker does not say."""

    path: str
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool


class Election(Enum):
    """Which leader to elect: the first replica, or any that is alive, losing records."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A reassignment that goes on; brokers by id."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id; times in ms, ``start_time_ms`` is -1 without an open transaction."""

    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """What a partition's leader knows of a producer; -1 where there is nothing."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class FencedProducer(NamedTuple):
    """The producer id and epoch that a transactional id has after its producers were fenced."""

    producer_id: int
    producer_epoch: int


class FeatureRange(NamedTuple):
    """The lowest and highest version level of a feature."""

    min_version: int
    max_version: int


class Features(NamedTuple):
    """Features of the cluster: levels in force, levels that the broker supports."""

    finalized: Mapping[str, FeatureRange]
    supported: Mapping[str, FeatureRange]
    epoch: int


class UpgradeType(IntEnum):
    """Whether a feature's level may go down, and lose metadata in doing so."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class VersionRange(NamedTuple):
    """The versions of an API that a broker serves, and the one that this client uses, None: none."""

    key: int
    min_version: int
    max_version: int
    usable: int | None
