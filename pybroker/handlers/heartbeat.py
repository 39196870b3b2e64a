"""Heartbeat (12): keeps a member in its classic group. Version 3 adds static members (KIP-345)."""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import READ_GROUP, may
from pyclient.protocol import Heartbeat, errors


def handle(request: Heartbeat.Request, call: Call) -> Heartbeat.Response | Awaitable[Heartbeat.Response]:
    """Notes that a member is alive. REBALANCE_IN_PROGRESS asks it to join again."""
    if not may(call, READ_GROUP, request.group_id):
        return Heartbeat.Response(error_code=errors.GroupAuthorizationFailed.code)
    response: Awaitable[Heartbeat.Response] = call.broker.groups.heartbeat(request)
    return response
