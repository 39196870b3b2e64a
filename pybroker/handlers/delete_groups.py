"""DeleteGroups (42), KIP-229: deletes empty groups with their offsets."""

from __future__ import annotations

from collections.abc import Awaitable

from pybroker.handlers.common.call import Call
from pyclient.protocol import DeleteGroups


def handle(request: DeleteGroups.Request, call: Call) -> Awaitable[DeleteGroups.Response]:
    """One outcome per group."""
    response: Awaitable[DeleteGroups.Response] = call.broker.groups.delete_groups(request)
    return response
