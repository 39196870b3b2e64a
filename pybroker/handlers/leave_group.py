"""LeaveGroup (13): removes members from a classic group; v3 several members, by member or instance id (KIP-345), v5
reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.handlers.common.call import Call
from pyclient.protocol import LeaveGroup


def handle(request: LeaveGroup.Request, call: Call) -> Awaitable[LeaveGroup.Response]:
    """One outcome per member."""
    response: Awaitable[LeaveGroup.Response] = call.broker.groups.leave_group(request, call.version)
    return response
