"""DescribeConfigs (32), 1-4: shows settings with their sources and synonyms (KIP-226). Version 3 adds types and
documentation (KIP-569).

Each of a topic's settings shows where it comes from, down to the broker's default. A password's value is null. If the
request names keys, the answer has those that exist; otherwise it has all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pybroker.cluster.decisions.config_changes import check_broker_name
from pybroker.cluster.decisions.topic_names import check_name, unknown_topic
from pybroker.cluster.metadata.image import DEFAULT_BROKER, MetadataImage, ResourceType
from pybroker.config import (
    GROUPS,
    KEYS,
    TOPICS,
    Described,
    Importance,
    Key,
    Origin,
    Scope,
    Source,
    Type,
    describe_broker_key,
    describe_group_key,
    describe_topic_key,
)
from pybroker.config.keys.key import ANY
from pybroker.handlers.common import broker_loggers
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pybroker.handlers.common.security import config_rights
from pyclient.protocol import DescribeConfigs, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Resource = DescribeConfigs.Request.DescribeConfigsResource
    Result = DescribeConfigs.Response.DescribeConfigsResult
    Entry = DescribeConfigs.Response.DescribeConfigsResourceResult

# key, how it is shown, is it read-only
Row = tuple[Key, Described, bool]


@in_turns
def handle(request: DescribeConfigs.Request, call: Call) -> Paced[DescribeConfigs.Response]:
    """Answers with one result per resource. A repeated resource gets only one result."""
    response = DescribeConfigs.Response()
    seen: set[tuple[int, str]] = set()
    for resource in request.resources:
        yield
        key = resource.resource_type, resource.resource_name
        if key not in seen:
            seen.add(key)
            response.results.append(_result(resource, request, call))
    return response


def _result(resource: Resource, request: DescribeConfigs.Request, call: Call) -> Result:
    result = DescribeConfigs.Response.DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        rows = _describe(resource, call)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, str(error)
        return result
    wanted = frozenset(resource.configuration_keys or ())
    result.configs = [
        _entry(row, request) for row in rows if not wanted or row[0].name in wanted
    ]
    return result


def _describe(resource: Resource, call: Call) -> Iterable[Row]:
    describe = _DESCRIBERS.get(resource.resource_type)
    if describe is None:
        raise errors.InvalidRequest(f"resource type {resource.resource_type} has no settings")
    config_rights.check_described(call, resource.resource_type, resource.resource_name)
    return describe(resource.resource_name, call)


def _topic(name: str, call: Call) -> Iterable[Row]:
    check_name(name)
    topic = call.broker.metadata.image.topic(name)
    if topic is None:
        raise unknown_topic(name)
    config, overrides = call.broker.config, topic.configs
    return [
        (key, describe_topic_key(config, key.name, overrides), False) for key in TOPICS.values()
    ]


def _broker(name: str, call: Call) -> Iterable[Row]:
    check_broker_name(name, call.broker.node_id)
    if name == DEFAULT_BROKER:
        image: MetadataImage = call.broker.metadata.image
        stored = image.configs(ResourceType.BROKER, DEFAULT_BROKER)
        return [
            (KEYS[key], _default_of_brokers(key, text), False)
            for key, text in stored.items()
            if key in KEYS
        ]
    config = call.broker.config
    return [
        (key, describe_broker_key(config, key.name), key.scope is Scope.READ_ONLY)
        for key in (*KEYS.values(), *config.keys_of_listeners)
    ]


def _default_of_brokers(name: str, text: str) -> Described:
    origin = Origin(name, text, Source.DYNAMIC_DEFAULT_BROKER)
    return Described(text, origin.source, [origin])


def _loggers(name: str, call: Call) -> Iterable[Row]:
    if name == DEFAULT_BROKER:
        raise errors.InvalidRequest("loggers belong to a single broker: name its id")
    check_broker_name(name, call.broker.node_id)
    return [
        (
            _LEVEL._replace(name=logger),
            Described(level, Source.DYNAMIC_BROKER_LOGGER, []),
            False,
        )
        for logger, level in broker_loggers.levels().items()
    ]


def _group(name: str, call: Call) -> Iterable[Row]:
    if not name:
        raise errors.InvalidRequest("the name of a group is empty")
    config = call.broker.config
    overrides = call.broker.metadata.image.configs(ResourceType.GROUP, name)
    return [
        (key, describe_group_key(config, key.name, overrides), False) for key in GROUPS.values()
    ]


_LEVEL = Key("", Type.UNKNOWN, None, ANY, Importance.LOW, Scope.PER_BROKER, "")

_DESCRIBERS: Mapping[int, Callable[[str, Call], Iterable[Row]]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.BROKER_LOGGER: _loggers,
    ResourceType.GROUP: _group,
}


def _entry(row: Row, request: DescribeConfigs.Request) -> Entry:
    key, shown, read_only = row
    entry = DescribeConfigs.Response.DescribeConfigsResourceResult(
        name=key.name,
        value=None if key.is_sensitive else shown.text,
        read_only=read_only,
        config_source=shown.source,
        is_sensitive=key.is_sensitive,
        config_type=key.type,
        documentation=key.doc if request.include_documentation else None,
    )
    if request.include_synonyms:
        entry.synonyms = [
            DescribeConfigs.Response.DescribeConfigsSynonym(
                name=origin.name,
                value=None if key.is_sensitive else origin.text,
                source=origin.source,
            )
            for origin in shown.synonyms
        ]
    return entry
