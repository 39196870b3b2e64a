"""ConsumerGroupHeartbeat (68): joins a group of the new consumer protocol, stays in it, or leaves it (KIP-848). Version
1 adds regular expressions, and member ids that the client makes (KIP-1082).

The reply comes at once, whatever the other members do.
"""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.coordinator.group.joining import Caller
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import DESCRIBE_TOPIC, READ_GROUP, check, check_all, seeing
from pyclient.protocol import ConsumerGroupHeartbeat, errors


def handle(
    request: ConsumerGroupHeartbeat.Request, call: Call
) -> Awaitable[ConsumerGroupHeartbeat.Response]:
    """Applies the member's changes, and answers with the changes that the member must make."""
    return _beat(request, call) if call.broker.authorizer is None else _beat_if_permitted(request, call)


async def _beat_if_permitted(request: ConsumerGroupHeartbeat.Request, call: Call) -> ConsumerGroupHeartbeat.Response:
    """Handles the request if the member may read the group and may describe all topics that it names."""
    try:
        check(call, READ_GROUP, request.group_id)
        await check_all(call, DESCRIBE_TOPIC, request.subscribed_topic_names or ())
    except errors.KafkaError as error:
        return ConsumerGroupHeartbeat.Response(error_code=error.code, error_message=str(error))
    return await _beat(request, call)


def _beat(request: ConsumerGroupHeartbeat.Request, call: Call) -> Awaitable[ConsumerGroupHeartbeat.Response]:
    host = f"/{call.connection.peer_address[0]}"
    caller = Caller(call.version, call.client_id or "", host, seeing(call))
    response: Awaitable[ConsumerGroupHeartbeat.Response] = call.broker.groups.consumers.heartbeat(
        request, caller
    )
    return response
