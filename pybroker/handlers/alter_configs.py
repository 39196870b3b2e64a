"""AlterConfigs (33), 0-2: replaces all settings of a topic, a broker, a group, or the default of all brokers. Settings
that the request does not name return to their defaults."""

from __future__ import annotations

from operator import attrgetter

from pybroker.cluster.decisions.config_changes import ConfigChange, ConfigOperation, KeyChange, Result
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.security.config_rights import permitted
from pybroker.handlers.common.tls_trial import tried
from pybroker.handlers.common.writes import in_writes
from pyclient.protocol import AlterConfigs, errors
from pyclient.protocol.errors import KafkaError


async def handle(request: AlterConfigs.Request, call: Call) -> AlterConfigs.Response:
    """Answers with one result per resource, when the new settings are in effect."""
    key = attrgetter("resource_type", "resource_name")
    response: AlterConfigs.Response = await in_writes(request, call, _at_controller, ("resources", "responses"), key)
    return response


def _change_of(resource: AlterConfigs.Request.AlterConfigsResource) -> ConfigChange:
    keys = tuple(KeyChange(config.name, ConfigOperation.SET, config.value) for config in resource.configs)
    return ConfigChange(resource.resource_type, resource.resource_name, keys, replace=True)


def _answer(change: ConfigChange, error: KafkaError | None) -> AlterConfigs.Response.AlterConfigsResourceResponse:
    return AlterConfigs.Response.AlterConfigsResourceResponse(
        error_code=error.code if error else errors.NONE,
        error_message=str(error) if error else None,
        resource_type=change.resource_type,
        resource_name=change.name,
    )


async def _alter(request: AlterConfigs.Request, call: Call) -> AlterConfigs.Response:
    changes = [_change_of(resource) for resource in request.resources]
    results: list[Result]
    try:
        results = await call.broker.controller.alter_configs(
            changes, validate_only=request.validate_only
        )
    except KafkaError as error:
        results = [error] * len(changes)
    return AlterConfigs.Response(responses=list(map(_answer, changes, results)))


_at_controller = permitted(_change_of, _answer, tried(_change_of, _answer, forwarded(AlterConfigs, _alter)))
