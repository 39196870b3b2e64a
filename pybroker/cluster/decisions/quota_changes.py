"""The controller's decisions about quotas (KIP-546), as pure functions.

A quota is a key in the configuration of its user, client id, user and client id, or address. A user's passwords are in
the same configuration, and these changes do not touch them. The texts of errors are Kafka's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from pybroker.cluster.decisions.config_changes import Accepted, parts
from pybroker.cluster.decisions.plan import Plan, Step, write_configs
from pybroker.cluster.metadata.image import NO_CONFIGS, Configs, MetadataDelta, MetadataImage, ResourceType
from pybroker.cluster.metadata.znodes import clients_name, user_and_client, user_client_name
from pybroker.quotas.keys import CONNECTIONS, DEFAULT, FETCH, MUTATIONS, PRODUCE, REQUEST, Entity
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

_WHOLE: Final = {PRODUCE: ("a LONG", 1 << 63), FETCH: ("a LONG", 1 << 63), CONNECTIONS: ("an INT", 1 << 31)}
"""Keys whose values are whole numbers below a limit."""
_OF_CLIENTS: Final = frozenset({PRODUCE, FETCH, REQUEST, MUTATIONS})
_OF_ADDRESSES: Final = frozenset({CONNECTIONS})
_KEYS: Final = _OF_CLIENTS | _OF_ADDRESSES

Named = tuple[tuple[str, str | None], ...]
"""An entity in a request: pairs of type and name, where None is the default."""
Resource = tuple[ResourceType, str]


class QuotaChange(NamedTuple):
    """A change of an entity's quotas; the value None removes a quota."""

    entity: Named
    values: Sequence[tuple[str, float | None]]

    @property
    def key(self) -> Named:
        """The entity with its types in a fixed order."""
        return tuple(sorted(self.entity, key=lambda each: each[0]))


Results = dict[Named, KafkaError | None]
"""Results by the ``key`` of the change, in the order of the request."""


def alter(image: MetadataImage, changes: Sequence[QuotaChange]) -> Plan[Results]:
    """Changes quotas. Returns None or an error for each entity."""
    times = Counter(change.key for change in changes)
    results: Results = {}
    accepted: dict[Resource, Configs] = {}
    for change in changes:
        try:
            if times[change.key] > 1:
                raise errors.InvalidRequest(f"Ignoring duplicate entity {_shown(change.entity)}")
            entity = _entity_of(change.entity)
            resource = _resource(entity)
            before = image.configs(*resource)
            configs = _changed(before, change, _OF_CLIENTS if entity.ip is None else _OF_ADDRESSES)
        except KafkaError as error:
            results[change.key] = error
        else:
            results[change.key] = None
            if configs != before:
                accepted |= dict.fromkeys(_missing_above(image, accepted, entity), NO_CONFIGS)
                accepted[resource] = configs
    return Plan(results, [_step(image, part) for part in parts(image, accepted)] if accepted else [])


def _step(image: MetadataImage, part: Accepted) -> Step:
    operations = [write_configs(image, *resource, configs) for resource, configs in part.items()]
    return Step(operations, MetadataDelta(configs=part))


def _shown(entity: Named) -> str:
    return "ClientQuotaEntity(entries={" + ", ".join(f"{kind}={name or 'null'}" for kind, name in entity) + "})"


def _entity_of(named: Named) -> Entity:
    """Parses an entity. Raises InvalidRequest."""
    found: dict[str, str] = {}
    for kind, name in named:
        if kind in found:
            raise errors.InvalidRequest(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise errors.InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise errors.InvalidRequest(f"Empty {kind} not supported")
        found[kind] = DEFAULT if name is None else name
    if not found:
        raise errors.InvalidRequest("Invalid empty client quota entity")
    if IP in found and len(found) > 1:
        text = "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        raise errors.InvalidRequest(text)
    if found.get(IP) and not _is_address(found[IP]):
        raise errors.InvalidRequest(f"{found[IP]} is not a valid IP or resolvable host.")
    return Entity(found.get(USER), found.get(CLIENT_ID), found.get(IP))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text and "/" not in text


def _resource(entity: Entity) -> Resource:
    if entity.ip is not None:
        return ResourceType.IP, entity.ip
    if entity.user is None:
        assert entity.client is not None
        return ResourceType.CLIENT, entity.client
    if entity.client is None:
        return ResourceType.USER, entity.user
    return ResourceType.USER_CLIENT, user_client_name(entity.user, entity.client)


def _missing_above(image: MetadataImage, accepted: Accepted, entity: Entity) -> Iterator[Resource]:
    """Yields the nodes above an entity's node that do not exist yet."""
    if entity.user is not None and entity.client is not None:
        above = (ResourceType.USER, entity.user), (ResourceType.USER_CLIENT, clients_name(entity.user))
        for resource in above:
            if resource not in image.resource_configs and resource not in accepted:
                yield resource


def _changed(before: Configs, change: QuotaChange, keys: frozenset[str]) -> Configs:
    """Returns the configuration with the change. Raises InvalidRequest."""
    for name, count in Counter(name for name, _ in change.values).items():
        if count > 1:
            entity = _shown(change.entity)
            raise errors.InvalidRequest(f"Duplicate quota key {name} not updating quota for this entity {entity}")
    configs = dict(before)
    for name, value in change.values:
        if value is not None:
            configs[name] = _text(name, value, keys)
        elif name in keys:  # a password is not a quota
            configs.pop(name, None)
    return configs


def _text(name: str, value: float, keys: frozenset[str]) -> str:
    """Returns the value as Kafka stores it. Raises InvalidRequest."""
    if name not in keys:
        raise errors.InvalidRequest(f"Invalid configuration key {name}")
    if not value > 0:
        raise errors.InvalidRequest(f"Quota {name} must be greater than 0")
    kind, limit = _WHOLE.get(name, ("a DOUBLE", math.inf))
    if value >= limit:
        raise errors.InvalidRequest(f"Proposed value for {name} is too large for {kind}.")
    if name not in _WHOLE:
        return repr(float(value))
    if value % 1 > 1e-6:
        raise errors.InvalidRequest(f"{name} cannot be a fractional value.")
    return str(int(value))


def quotas(image: MetadataImage) -> dict[Entity, dict[str, float]]:
    """Returns all quotas; skips unreadable ones."""
    found = {}
    for (kind, name), configs in image.resource_configs.items():
        if _KEYS.isdisjoint(configs):
            continue  # such as a user with passwords only: there may be thousands
        if entity := _of_resource(kind, name):
            values = dict(_values(configs, _OF_CLIENTS if entity.ip is None else _OF_ADDRESSES))
            if values:
                found[entity] = values
    return found


def _of_resource(kind: ResourceType, name: str) -> Entity | None:
    if kind is ResourceType.USER:
        return Entity(user=name)
    if kind is ResourceType.CLIENT:
        return Entity(client=name)
    if kind is ResourceType.IP:
        return Entity(ip=name)
    both = user_and_client(name) if kind is ResourceType.USER_CLIENT else None
    return None if both is None else Entity(*both)


def _values(configs: Configs, keys: frozenset[str]) -> Iterator[tuple[str, float]]:
    for key, text in configs.items():
        if key not in keys:
            continue
        try:
            value = float(text)
        except (TypeError, ValueError):
            continue
        if 0 < value < math.inf:
            yield key, value


class Component(NamedTuple):
    """A filter for one type of entity: ``match_type`` is 0 for this name, 1 for the default, 2 for any name."""

    entity_type: str
    match_type: int
    match: str | None


EXACT, BY_DEFAULT, ANY = 0, 1, 2
_MATCH_TYPES: Final = {BY_DEFAULT: "MATCH_TYPE_DEFAULT", ANY: "MATCH_TYPE_SPECIFIED"}


def described(
    image: MetadataImage, components: Iterable[Component], *, strict: bool
) -> list[tuple[Named, dict[str, float]]]:
    """Returns the entities that match every component, with their quotas. ``strict`` leaves out entities that also have
    other types.

    Raises InvalidRequest, UnsupportedVersion.
    """
    wanted: dict[str, Component] = {}
    for component in components:
        _check(component, wanted)
        wanted[component.entity_type] = component
    if IP in wanted and len(wanted) > 1:
        text = "IP filter component should not be used with user or clientId filter component."
        raise errors.InvalidRequest(f"Invalid entity filter component combination. {text}")
    found = []
    for entity, values in quotas(image).items():
        names = {kind: name for kind, name in zip((USER, CLIENT_ID, IP), entity, strict=True) if name is not None}
        has_all = all(kind in names and _matches(each, names[kind]) for kind, each in wanted.items())
        if has_all and not (strict and len(names) > len(wanted)):
            found.append((tuple((kind, name or None) for kind, name in names.items()), values))
    return found


def _check(component: Component, before: Mapping[str, Component]) -> None:
    kind, match_type, match = component
    if not kind:
        raise errors.InvalidRequest("Invalid empty entity type.")
    if kind in before:
        raise errors.InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in (USER, CLIENT_ID, IP):
        raise errors.UnsupportedVersion(f"Unsupported entity type {kind}")
    if match_type == EXACT:
        if match is None:
            raise errors.InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type not in _MATCH_TYPES:
        raise errors.InvalidRequest(f"Unknown match type {match_type}")
    elif match is not None:
        text = f"Request specified {_MATCH_TYPES[match_type]}, but also specified a match string."
        raise errors.InvalidRequest(text)


def _matches(component: Component, name: str) -> bool:
    if component.match_type == EXACT:
        return bool(name) and name == component.match
    return component.match_type == ANY or name == DEFAULT
