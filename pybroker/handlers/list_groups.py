"""ListGroups (16): lists the groups of a broker; v4 by state (KIP-518), v5 by type (KIP-848)."""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.handlers.common.call import Call
from pyclient.protocol import ListGroups


def handle(request: ListGroups.Request, call: Call) -> Awaitable[ListGroups.Response]:
    """The groups that this broker coordinates."""
    response: Awaitable[ListGroups.Response] = call.broker.groups.list_groups(request)
    return response
