"""LeaveGroup (13): removes members from a classic group. Version 3 removes several members, by member or instance id
(KIP-345); v5 adds a reason (KIP-800).
"""

from __future__ import annotations

from typing import Final

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one, pieces
from pybroker.handlers.common.security.rights import READ_GROUP, may
from pyclient.protocol import LeaveGroup, errors

Member = LeaveGroup.Request.MemberIdentity

_MEMBERS_AT_ONCE: Final = 100
"""How many members leave in one turn."""


async def handle(request: LeaveGroup.Request, call: Call) -> LeaveGroup.Response:
    """Answers with one result per member, and the first error of the group."""
    if not may(call, READ_GROUP, request.group_id):
        return LeaveGroup.Response(error_code=errors.GroupAuthorizationFailed.code)
    told = LeaveGroup.Response()

    async def leave(members: list[Member]) -> None:
        request.members = members
        some: LeaveGroup.Response = await call.broker.groups.leave_group(request, call.version)
        told.error_code = told.error_code or some.error_code
        told.members += some.members

    await one_by_one(pieces(request.members, _MEMBERS_AT_ONCE) if request.members else [[]], leave, call)
    return told
