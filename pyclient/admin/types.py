"""The types of the admin client's arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from operator import index
from typing import Final, NamedTuple

from pyclient.topic_partition import TopicPartition


class NewTopic(NamedTuple):
    """A topic to create. -1 is the broker's default. ``assignments`` lists brokers by partition."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | float | None] = {}


class CreatedTopic(NamedTuple):
    """A topic that was created; ``topic_id`` in base64. -1 and None mean that the broker did not say."""

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
    """A partition. ``leader`` is -1 if there is none. Brokers are given by id.

    ``elr`` and ``last_known_elr`` are the eligible leader replicas (KIP-966), None if the broker does not tell them.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class TopicDescription(NamedTuple):
    """A topic, with its partitions by number."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class ResourceType(IntEnum):
    """The kinds of resources that have a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource with a configuration. The name of a broker is its id, or empty for all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name}"


class ConfigSource(IntEnum):
    """The source of a configuration value."""

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
    """A key from which a value may come; the one with the highest precedence comes first."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A key and its value. ``source`` is a ConfigSource, or a number that this client does not know.
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
        """Whether the value is a default that was not set explicitly."""
        return self.source == ConfigSource.DEFAULT_CONFIG


class AlterOp(IntEnum):
    """How to change a key; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigOp(NamedTuple):
    """A change of one key of a configuration."""

    name: str
    value: str | None
    op: AlterOp = AlterOp.SET


class OffsetSpec(IntEnum):
    """The offset to list. A time in ms since 1970 may be used instead: it means the first record at or after it."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5

    @classmethod
    def of(cls, given: int | str) -> int:
        """Returns the protocol's number for a member, its name (``"earliest"``, ``"max-timestamp"``) or a time in ms.
        Raises ValueError for another name or a negative time, and TypeError for another type.
        """
        if isinstance(given, str):
            found = cls.__members__.get(given.upper().replace("-", "_"))
            if found is None:
                names = ", ".join(name.lower().replace("_", "-") for name in cls.__members__)
                raise ValueError(f"offset {given!r} is not one of {names}, and not a time in ms since 1970, an int")
            return found
        try:
            number = index(given)
        except TypeError:
            raise TypeError(f"offset {given!r} is neither an OffsetSpec nor an int, a time in ms since 1970") from None
        if number < min(cls):
            raise ValueError(f"offset {given!r} is neither an OffsetSpec nor a time in ms since 1970")
        return number


class ListedOffset(NamedTuple):
    """An offset, or -1 if no record fits. ``timestamp`` is in ms, or -1 unless the offset was requested by time."""

    offset: int
    timestamp: int
    leader_epoch: int


class GroupListing(NamedTuple):
    """A group in a list. ``type`` is ``Classic``, ``Consumer`` …, or empty if the broker did not say."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(NamedTuple):
    """A member of a group. ``epoch`` and ``target`` belong to the new protocol (KIP-848)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    rack: str | None = None


class GroupDescription(NamedTuple):
    """A group. ``type`` is ``Classic`` or ``Consumer``; only the latter has ``epoch`` and
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
    """A member to remove, by its instance id (static) or by its member id."""

    group_instance_id: str | None = None
    member_id: str = ""


class BrokerDescription(NamedTuple):
    """A broker, as the cluster's metadata describe it."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


class ClusterDescription(NamedTuple):
    """The cluster; ``controller_id`` is -1 if there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


class ReplicaInfo(NamedTuple):
    """A replica in a log dir: its bytes, the records that it lags behind, and whether it is moving to this dir."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A log dir of a broker; bytes are -1 if the broker does not say."""

    path: str
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool


class Election(Enum):
    """How to elect a leader: the first replica if it is in sync, or any live replica, which may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A reassignment in progress; brokers are given by id."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id. Times are in ms; ``start_time_ms`` is -1 without an open transaction."""

    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """The leader's state of a producer in a partition; -1 stands for an unknown value."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class FencedProducer(NamedTuple):
    """The producer id and epoch of a transactional id after its producers were fenced."""

    producer_id: int
    producer_epoch: int


class FeatureRange(NamedTuple):
    """The lowest and highest version level of a feature."""

    min_version: int
    max_version: int


class Features(NamedTuple):
    """The features of the cluster: the finalized levels, and the levels that the broker supports."""

    finalized: Mapping[str, FeatureRange]
    supported: Mapping[str, FeatureRange]
    epoch: int


class UpgradeType(IntEnum):
    """Whether an update may lower a feature's level, and whether metadata may be lost then."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class VersionRange(NamedTuple):
    """The versions of an API that a broker serves. ``usable`` is the version that this client uses, or None."""

    key: int
    min_version: int
    max_version: int
    usable: int | None


SCRAM_ITERATIONS: Final = 4096
"""The default of Kafka's tools, and the lowest number that a broker accepts."""


class ScramMechanism(IntEnum):
    """A SCRAM mechanism for which a user may have a password."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """The mechanism's name in settings: ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")


class ScramCredentialInfo(NamedTuple):
    """What a broker tells about a user's password: the mechanism and its iterations."""

    mechanism: ScramMechanism
    iterations: int = SCRAM_ITERATIONS


@dataclass(frozen=True)
class UserScramCredentialUpsertion:
    """Sets a user's password for one mechanism. Without a ``salt``, a random one is used."""

    user: str
    credential_info: ScramCredentialInfo
    password: str = field(repr=False)
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class UserScramCredentialDeletion:
    """Deletes a user's password for one mechanism."""

    user: str
    mechanism: ScramMechanism
