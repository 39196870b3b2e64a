"""IncrementalAlterConfigs (44), 0-1: sets and deletes single settings, and appends to and subtracts from lists
(KIP-339). Resources are topics, brokers, the brokers' default, groups (KIP-848) and the broker's loggers (KIP-412)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange, Result, check_broker_name
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers.common import broker_loggers
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.security.config_rights import permitted
from pybroker.handlers.common.tls_trial import tried
from pybroker.handlers.common.writes import in_writes
from pyclient.protocol import IncrementalAlterConfigs, errors
from pyclient.protocol.errors import KafkaError


async def handle(
    request: IncrementalAlterConfigs.Request, call: Call
) -> IncrementalAlterConfigs.Response:
    """Answers with one result per resource, when the new settings are in effect."""
    response: IncrementalAlterConfigs.Response = await in_writes(
        request, call, _permitted, ("resources", "responses"), attrgetter("resource_type", "resource_name")
    )
    return response


async def _anywhere(
    request: IncrementalAlterConfigs.Request, call: Call
) -> IncrementalAlterConfigs.Response:
    """Changes this broker's loggers here, and everything else at the controller."""
    loggers = [r for r in request.resources if r.resource_type == ResourceType.BROKER_LOGGER]
    if not loggers or call.broker.controller.is_controller:
        response: IncrementalAlterConfigs.Response = await _at_controller(request, call)
        return response
    others = [r for r in request.resources if r.resource_type != ResourceType.BROKER_LOGGER]
    here = await _alter(_part(request, loggers), call)
    there = await _at_controller(_part(request, others), call)
    parts = {True: iter(here.responses), False: iter(there.responses)}
    return IncrementalAlterConfigs.Response(
        responses=[
            next(parts[r.resource_type == ResourceType.BROKER_LOGGER]) for r in request.resources
        ]
    )


def _part(
    request: IncrementalAlterConfigs.Request,
    resources: list[IncrementalAlterConfigs.Request.AlterConfigsResource],
) -> IncrementalAlterConfigs.Request:
    return IncrementalAlterConfigs.Request(
        resources=resources, validate_only=request.validate_only
    )


async def _alter(
    request: IncrementalAlterConfigs.Request, call: Call
) -> IncrementalAlterConfigs.Response:
    changes = [_change_of(resource) for resource in request.resources]
    results = await _results(changes, call, validate_only=request.validate_only)
    return IncrementalAlterConfigs.Response(responses=list(map(_answer, changes, results)))


def _change_of(resource: IncrementalAlterConfigs.Request.AlterConfigsResource) -> ConfigChange:
    keys = tuple(KeyChange(config.name, config.config_operation, config.value) for config in resource.configs)
    return ConfigChange(resource.resource_type, resource.resource_name, keys)


def _answer(
    change: ConfigChange, error: KafkaError | None
) -> IncrementalAlterConfigs.Response.AlterConfigsResourceResponse:
    return IncrementalAlterConfigs.Response.AlterConfigsResourceResponse(
        error_code=error.code if error else errors.NONE,
        error_message=str(error) if error else None,
        resource_type=change.resource_type,
        resource_name=change.name,
    )


_at_controller = tried(_change_of, _answer, forwarded(IncrementalAlterConfigs, _alter))
_permitted = permitted(_change_of, _answer, _anywhere)


async def _results(
    changes: Sequence[ConfigChange], call: Call, *, validate_only: bool
) -> list[Result]:
    stored = [c for c in changes if c.resource_type != ResourceType.BROKER_LOGGER]
    outcomes: list[Result] = []
    if stored:
        try:
            outcomes = await call.broker.controller.alter_configs(
                stored, validate_only=validate_only
            )
        except KafkaError as error:
            outcomes = [error] * len(stored)
    rest = iter(outcomes)
    return [
        _alter_loggers(change, call.broker.node_id, validate_only=validate_only)
        if change.resource_type == ResourceType.BROKER_LOGGER
        else next(rest)
        for change in changes
    ]


def _alter_loggers(change: ConfigChange, node_id: int, *, validate_only: bool) -> Result:
    try:
        if not change.name:
            raise errors.InvalidRequest("loggers belong to a single broker: name its id")
        check_broker_name(change.name, node_id)
        broker_loggers.check(change.keys)
    except KafkaError as error:
        return error
    if not validate_only:
        broker_loggers.apply(change.keys)
    return None
