"""The controller's decisions about configurations, as pure functions.

Errors of a topic are INVALID_CONFIG, those of a broker INVALID_REQUEST, as in Kafka. A broker key can be changed if its
row in the table of keys allows that. The resource is one broker or, with an empty name, the whole cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from pybroker.cluster.decisions.plan import PartitionChanges, Plan, Step, write_configs
from pybroker.cluster.decisions.topic_names import check_name, unknown_topic
from pybroker.cluster.decisions.topic_rules import MIN_ISR
from pybroker.cluster.metadata.image import (
    DEFAULT_BROKER,
    Configs,
    MetadataDelta,
    MetadataImage,
    ResourceType,
    TopicImage,
)
from pybroker.config import (
    KEYS,
    TOPICS,
    BrokerConfig,
    ConfigError,
    Key,
    Scope,
    Type,
    check_group_configs,
    parse_topic_overrides,
)
from pybroker.config.broker_config import key_of, suggestion
from pybroker.config.group_config import GROUPS
from pybroker.config.keys.key import format_value, parse_type
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs on a key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class KeyChange(NamedTuple):
    """A change of one key of a resource."""

    name: str
    operation: int
    value: str | None


class ConfigChange(NamedTuple):
    """A change of one resource's configuration.

    ``replace`` removes every key that ``keys`` does not name (AlterConfigs).
    """

    resource_type: int
    name: str
    keys: tuple[KeyChange, ...]
    replace: bool = False


Result = KafkaError | None
Accepted = Mapping[tuple[ResourceType, str], Configs]
"""New configurations by resource."""

BYTES_PER_STEP: Final = 1 << 17
"""How many bytes of configurations one step may have. Together with their copy in the journal, they fit into a write to
ZooKeeper.
"""
BYTES_OF_A_WRITE: Final = 80
"""How many bytes a write has in addition to its name and value."""

UNCLEAN: Final = "unclean.leader.election.enable"


def may_allow_unclean(changes: Iterable[ConfigChange]) -> bool:
    """Returns whether offline partitions may get leaders because of these changes."""
    return any(change.replace or key.name == UNCLEAN for change in changes for key in change.keys)


class ConfigController:
    """Decides about changes of the configurations of topics, brokers and groups."""

    def __init__(self, config: BrokerConfig, node_id: int) -> None:
        self._config = config
        self._node_id = node_id
        self._checks: dict[int, Callable[[MetadataImage, str, Configs], None]] = {
            ResourceType.TOPIC: self._check_topic,
            ResourceType.BROKER: self._check_broker,
            ResourceType.GROUP: self._check_group,
        }

    def alter(self, image: MetadataImage, changes: Sequence[ConfigChange]) -> Plan[list[Result]]:
        """Changes configurations. Returns None or an error for each, in order. Each step has as many valid changes as
        fit into it.
        """
        times = Counter((change.resource_type, change.name) for change in changes)
        results: list[Result] = []
        accepted: dict[tuple[ResourceType, str], Configs] = {}
        for change in changes:
            try:
                if times[change.resource_type, change.name] > 1:
                    raise errors.InvalidRequest("each resource may occur only once in a request")
                resource_type = self._check_resource(image, change)
                configs = changed(image, resource_type, change)
                self._checks[resource_type](image, change.name, configs)
            except KafkaError as error:
                results.append(error)
            else:
                accepted[resource_type, change.name] = configs
                results.append(None)
        if not accepted:
            return Plan(results)
        partitions = _forget_eligible(image, accepted)
        first, *others = [_step(image, part, partitions) for part in parts(image, accepted)]
        return Plan(results, [*partitions.steps(first), *others])

    def _check_resource(self, image: MetadataImage, change: ConfigChange) -> ResourceType:
        if change.resource_type not in self._checks:
            raise errors.InvalidRequest(f"resource type {change.resource_type} has no configuration")
        resource_type = ResourceType(change.resource_type)
        if resource_type is ResourceType.BROKER:
            check_broker_name(change.name, self._node_id, image.brokers)
        elif resource_type is ResourceType.GROUP and not change.name:
            raise errors.InvalidRequest("the name of a group must not be empty")
        elif resource_type is ResourceType.TOPIC:
            _check_topic_exists(image, change.name)
        return resource_type

    def _check_topic(self, image: MetadataImage, name: str, configs: Configs) -> None:
        try:
            parse_topic_overrides(configs)
        except ConfigError as error:
            raise errors.InvalidConfig(str(error)) from error

    def _check_group(self, image: MetadataImage, name: str, configs: Configs) -> None:
        try:
            check_group_configs(self._config, configs)
        except ConfigError as error:
            raise errors.InvalidConfig(str(error)) from error

    def _check_broker(self, image: MetadataImage, name: str, configs: Configs) -> None:
        before = image.configs(ResourceType.BROKER, name)
        for key, text in configs.items():
            if before.get(key) != text:
                _check_dynamic(key, text, is_default=name == DEFAULT_BROKER)


def _check_topic_exists(image: MetadataImage, name: str) -> None:
    if not name:
        raise errors.InvalidRequest("topics have no default configuration: name a topic")
    check_name(name)
    topic = image.topic(name)
    if topic is None:
        raise unknown_topic(name)
    image.writable(topic)


def check_broker_name(name: str, node_id: int, others: Collection[int] = ()) -> None:
    """Raises InvalidRequest unless ``name`` is the id of this broker or of one of the ``others``, or empty for the
    default.
    """
    if name == DEFAULT_BROKER or name in {str(id) for id in (node_id, *others)}:
        return
    if not name.lstrip("-").isdigit():
        raise errors.InvalidRequest(f"broker id must be an integer, but it is {name!r}")
    raise errors.InvalidRequest(f"this is broker {node_id}, but the request is for broker {name}")


def _check_dynamic(name: str, text: str, *, is_default: bool) -> None:
    key = KEYS.get(name) or key_of(name)
    if key is None:
        raise errors.InvalidRequest(f"{name} is unknown{suggestion(name, KEYS)}")
    if key.scope is Scope.READ_ONLY:
        raise errors.InvalidRequest(f"{name} cannot be changed while the broker runs")
    if key.scope is Scope.PER_BROKER and is_default:
        raise errors.InvalidRequest(f"{name} can only be set for a single broker: name one")
    if name == MIN_ISR and not is_default:
        text = f"{name} cannot be set for a single broker, because another one may lead next: leave the name empty"
        raise errors.InvalidRequest(text)
    try:
        key.parse(text)
    except ConfigError as error:
        raise errors.InvalidRequest(str(error)) from error


_TABLES: Mapping[ResourceType, Mapping[str, Key]] = {
    ResourceType.TOPIC: TOPICS,
    ResourceType.BROKER: KEYS,
    ResourceType.GROUP: GROUPS,
}


def changed(image: MetadataImage, resource_type: ResourceType, change: ConfigChange) -> dict[str, str]:
    """Returns all settings of a resource after the change, without validating them. Raises KafkaError."""
    if len({key.name for key in change.keys}) < len(change.keys):
        raise errors.InvalidRequest("the request names a key twice")
    configs = {} if change.replace else dict(image.configs(resource_type, change.name))
    for key in change.keys:
        if key.operation == ConfigOperation.DELETE:
            configs.pop(key.name, None)
        elif key.value is None:
            raise errors.InvalidRequest(f"{key.name} has no value")
        elif key.operation == ConfigOperation.SET:
            configs[key.name] = key.value
        else:
            row = _TABLES[resource_type].get(key.name)
            configs[key.name] = _merged(key, row, configs.get(key.name))
    return configs


def _merged(change: KeyChange, row: Key | None, current: str | None) -> str:
    if change.operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise errors.InvalidRequest(f"operation {change.operation} is unknown")
    if row is None or row.type is not Type.LIST:
        raise errors.InvalidConfig(
            f"{change.name} is not a list: values cannot be added or removed"
        )
    if current is None:
        current = format_value(row.default) or ""
    members, named = parse_type(Type.LIST, current), parse_type(Type.LIST, change.value or "")
    assert isinstance(members, tuple)
    assert isinstance(named, tuple)
    if change.operation == ConfigOperation.APPEND:
        return ",".join(dict.fromkeys(members + named))
    return ",".join(member for member in members if member not in named)


def parts(image: MetadataImage, accepted: Accepted) -> Iterator[Accepted]:
    """Yields the changes in parts that each fit into one write to the store."""
    part: dict[tuple[ResourceType, str], Configs] = {}
    size = 0
    for (resource_type, name), configs in accepted.items():
        more = BYTES_OF_A_WRITE + len(name) + len(write_configs(image, resource_type, name, configs).data)
        if part and size + more > BYTES_PER_STEP:
            yield part
            part, size = {}, 0
        part[resource_type, name] = configs
        size += more
    yield part


def _step(
    image: MetadataImage,
    accepted: Accepted,
    partitions: PartitionChanges,
) -> Step:
    operations = [
        write_configs(image, resource_type, name, configs)
        for (resource_type, name), configs in accepted.items()
    ]
    topics: dict[str, TopicImage] = {
        name: partitions.changed(image.topics[name])._replace(configs=configs)
        for (resource_type, name), configs in accepted.items()
        if resource_type is ResourceType.TOPIC
    }
    others = {
        resource: configs
        for resource, configs in accepted.items()
        if resource[0] is not ResourceType.TOPIC
    }
    return Step(operations, MetadataDelta(changed=topics, configs=others))


def _forget_eligible(image: MetadataImage, accepted: Accepted) -> PartitionChanges:
    """Removes eligible leader replicas (ELR) if a lower min.insync.replicas allows commits without them.

    Such replicas have all committed records only as long as no record is committed without them.
    """
    changes = PartitionChanges(image)
    is_of_brokers = any(
        resource_type is ResourceType.BROKER
        and image.configs(resource_type, name).get(MIN_ISR) != configs.get(MIN_ISR)
        for (resource_type, name), configs in accepted.items()
    )
    for topic in image.topics.values():
        configs = accepted.get((ResourceType.TOPIC, topic.name), topic.configs)
        if is_of_brokers or configs.get(MIN_ISR) != topic.configs.get(MIN_ISR):
            for partition in filter(lambda each: each.elr, topic.partitions):
                changes.add(topic, replace(partition, elr=()))
    return changes
