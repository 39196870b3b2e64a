"""The trial of settings that an administrator gives a broker: could it have them?

Only this broker can tell that of its own files, so the trial comes before the controller stores anything. Settings of
TLS are tried; all others the controller judges by their text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from pybroker.cluster.decisions.config_changes import ConfigChange, changed
from pybroker.cluster.metadata.image import ResourceType
from pybroker.config import ConfigError
from pybroker.config.tls_keys import LISTENER_PREFIX
from pybroker.handlers.common.call import Call
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

_TRIED: Final = ("ssl.", LISTENER_PREFIX)

Write = Callable[[Any, Call], Awaitable[Any]]
Answer = Callable[[ConfigChange, KafkaError | None], Any]


def tried(change_of: Callable[[Any], ConfigChange], answer: Answer, write: Write) -> Write:
    """``write`` of the resources of a request. If this broker does not pass its trial, it is answered with the error,
    and the others are written.
    """

    async def write_what_passes(request: Any, call: Call) -> Any:
        own = [index for index, each in enumerate(request.resources) if _is_own(each, call)]
        if len(own) != 1:  # what is named twice the controller refuses
            return await write(request, call)
        (index,) = own
        change = change_of(request.resources[index])
        error = await _refusal(change, call)
        if error is not None:
            request.resources = [*request.resources[:index], *request.resources[index + 1 :]]
        response = await write(request, call)
        if error is not None:
            response.responses = [*response.responses[:index], answer(change, error), *response.responses[index:]]
        return response

    return write_what_passes


def _is_own(resource: Any, call: Call) -> bool:
    own = (ResourceType.BROKER, str(call.broker.node_id))
    return (resource.resource_type, resource.resource_name) == own


async def _refusal(change: ConfigChange, call: Call) -> KafkaError | None:
    image = call.broker.metadata.image
    before = image.configs(ResourceType.BROKER, change.name)
    try:
        settings = changed(image, ResourceType.BROKER, change)
    except KafkaError:
        return None  # the controller tells it
    touched = {name for name, _ in before.items() ^ settings.items()}
    if any(name.startswith(_TRIED) for name in touched):
        try:
            await call.broker.try_out(settings)
        except ConfigError as error:
            return errors.InvalidRequest(str(error))
    return None
