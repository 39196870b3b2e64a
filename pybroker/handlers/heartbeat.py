"""Heartbeat (12): keeps a member in its classic group; v3 static members (KIP-345)."""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.handlers.common.call import Call
from pyclient.protocol import Heartbeat


def handle(request: Heartbeat.Request, call: Call) -> Awaitable[Heartbeat.Response]:
    """Notes that a member is alive. REBALANCE_IN_PROGRESS asks it to join again."""
    response: Awaitable[Heartbeat.Response] = call.broker.groups.heartbeat(request)
    return response
