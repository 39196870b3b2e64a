"""DeleteGroups (42), KIP-229: deletes empty groups with their offsets."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one
from pybroker.handlers.common.security.rights import DELETE_GROUP, may
from pyclient.protocol import DeleteGroups, errors


async def handle(request: DeleteGroups.Request, call: Call) -> DeleteGroups.Response:
    """Answers with one result per group."""
    results = await one_by_one(request.groups_names, lambda group_id: _delete(group_id, call), call)
    return DeleteGroups.Response(results=results)


async def _delete(group_id: str, call: Call) -> DeleteGroups.Response.DeletableGroupResult:
    if not may(call, DELETE_GROUP, group_id):
        code = errors.GroupAuthorizationFailed.code
        return DeleteGroups.Response.DeletableGroupResult(group_id=group_id, error_code=code)
    return await call.broker.groups.delete_group(group_id)
