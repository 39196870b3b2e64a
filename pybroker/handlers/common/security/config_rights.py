"""Checks the rights to settings. Settings of a topic or group need a right to it, all others one to the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pybroker.cluster.decisions.config_changes import ConfigChange
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.config_writes import Answer, Write, passing
from pybroker.handlers.common.security.rights import (
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    Right,
    check,
)
from pyclient.protocol.errors import KafkaError

_DESCRIBED: Final[Mapping[int, Right]] = {
    ResourceType.TOPIC: DESCRIBE_CONFIGS_TOPIC,
    ResourceType.GROUP: DESCRIBE_CONFIGS_GROUP,
}
_ALTERED: Final[Mapping[int, Right]] = {
    ResourceType.TOPIC: ALTER_CONFIGS_TOPIC,
    ResourceType.GROUP: ALTER_CONFIGS_GROUP,
}


def check_described(call: Call, kind: int, name: str) -> None:
    """Checks that the client may describe the resource's settings.

    Raises TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed.
    """
    if kind in _DESCRIBED:
        check(call, _DESCRIBED[kind], name)
    else:
        check(call, DESCRIBE_CONFIGS_CLUSTER)


def permitted(change_of: Callable[[Any], ConfigChange], answer: Answer, write: Write) -> Write:
    """Wraps ``write`` so that it gets only resources that the client may change; the others get errors."""
    return passing(_denied, change_of, answer, write)


async def _denied(changes: Sequence[ConfigChange], call: Call) -> dict[int, KafkaError]:
    refused: dict[int, KafkaError] = {}
    for index, change in enumerate(changes if call.broker.authorizer is not None else ()):
        try:
            if change.resource_type in _ALTERED:
                check(call, _ALTERED[change.resource_type], change.name)
            else:
                check(call, ALTER_CONFIGS_CLUSTER)
        except KafkaError as error:
            refused[index] = error
    return refused
