"""JoinGroup (11): joins a classic group. Version 1 adds the rebalance timeout (KIP-62), v4 the error MEMBER_ID_REQUIRED
(KIP-394), v5 static members (KIP-345). Version 7 adds the protocol type (KIP-559), v8 a reason (KIP-800), v9
skip_assignment (KIP-814)."""

from __future__ import annotations

from pybroker.coordinator.group.join_responses import refusal
from pybroker.coordinator.group.joining import Caller
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import READ_GROUP, may, seeing
from pyclient.protocol import JoinGroup, errors

_FIRST_WITH_NULL_PROTOCOL = 7


async def handle(request: JoinGroup.Request, call: Call) -> JoinGroup.Response:
    """Answers when the group has its next generation."""
    response: JoinGroup.Response
    if may(call, READ_GROUP, request.group_id):
        host = f"/{call.connection.peer_address[0]}"
        caller = Caller(call.version, call.client_id or "", host, seeing(call))
        response = await call.broker.groups.join_group(request, caller)
    else:
        response = refusal(errors.GroupAuthorizationFailed, member_id="")
    if response.protocol_name is None and call.version < _FIRST_WITH_NULL_PROTOCOL:
        response.protocol_name = ""
    return response
