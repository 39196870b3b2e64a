"""Tries new TLS settings of a broker before the controller stores them.

Only that broker can tell whether its own files are usable. The controller checks all other settings by their text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from pybroker.cluster.decisions.config_changes import ConfigChange, changed
from pybroker.cluster.metadata.image import DEFAULT_BROKER, ResourceType
from pybroker.config import ConfigError
from pybroker.config.keys.tls_keys import LISTENER_PREFIX
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.config_writes import Answer, Write, passing
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

_TRIED: Final = ("ssl.", LISTENER_PREFIX)


def tried(change_of: Callable[[Any], ConfigChange], answer: Answer, write: Write) -> Write:
    """Wraps ``write`` so that it gets only resources whose TLS settings this broker can use; the others get errors."""
    return passing(_refused, change_of, answer, write)


async def _refused(changes: Sequence[ConfigChange], call: Call) -> dict[int, KafkaError]:
    """Tries the brokers' settings; leaves resources that are named twice to the controller, which refuses them."""
    of_brokers = [index for index, change in enumerate(changes) if change.resource_type == ResourceType.BROKER]
    times = Counter(changes[index].name for index in of_brokers)
    refused = {}
    for index in of_brokers:
        if times[changes[index].name] == 1:
            error = await _refusal(changes[index], call)
            if error is not None:
                refused[index] = error
    return refused


async def _refusal(change: ConfigChange, call: Call) -> KafkaError | None:
    image = call.broker.metadata.image
    before = image.configs(ResourceType.BROKER, change.name)
    try:
        settings = changed(image, ResourceType.BROKER, change)
    except KafkaError:
        return None  # the controller will refuse the change
    touched = {name for name, _ in before.items() ^ settings.items()}
    if change.name == DEFAULT_BROKER or not any(name.startswith(_TRIED) for name in touched):
        return None
    if change.name != str(call.broker.node_id):
        is_tried = call.connection.broker_id is not None  # that broker has tried them and forwards the request
        lacking = f"only broker {change.name} can check its own TLS settings: send the request to that broker"
        return None if is_tried else errors.InvalidRequest(lacking)
    try:
        await call.broker.try_out(settings)
    except ConfigError as error:
        return errors.InvalidRequest(str(error))
    return None
