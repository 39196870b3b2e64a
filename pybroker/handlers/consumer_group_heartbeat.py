"""ConsumerGroupHeartbeat (68): joins a group of the new consumer protocol, stays in it, or leaves it (KIP-848); v1
regular expressions and member ids made by the client (KIP-1082).

One API for joining, going on and leaving; the answer is at once, whatever the rest of the group does.
"""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.coordinator.group.joining import Caller
from pybroker.handlers.common.call import Call
from pyclient.protocol import ConsumerGroupHeartbeat


def handle(
    request: ConsumerGroupHeartbeat.Request, call: Call
) -> Awaitable[ConsumerGroupHeartbeat.Response]:
    """Takes the member's changes and answers with those of the group."""
    host = f"/{call.connection.peer_address[0]}"
    caller = Caller(call.version, call.client_id or "", host)
    response: Awaitable[ConsumerGroupHeartbeat.Response] = call.broker.groups.consumers.heartbeat(
        request, caller
    )
    return response
