"""DeleteGroups (42), KIP-229: deletes empty groups with their offsets."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one
from pyclient.protocol import DeleteGroups


async def handle(request: DeleteGroups.Request, call: Call) -> DeleteGroups.Response:
    """One outcome per group."""
    return DeleteGroups.Response(
        results=await one_by_one(request.groups_names, call.broker.groups.delete_group, call)
    )
