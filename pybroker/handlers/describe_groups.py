"""DescribeGroups (15): describes groups and their members. Version 3 adds authorized operations (KIP-430), v4 static
members (KIP-345), v6 the error GROUP_ID_NOT_FOUND (KIP-1043)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one
from pybroker.handlers.common.security import authorized_operations
from pybroker.handlers.common.security.rights import DESCRIBE_GROUP, may
from pyclient.protocol import DescribeGroups, errors

if TYPE_CHECKING:
    Described = DescribeGroups.Response.DescribedGroup


async def handle(request: DescribeGroups.Request, call: Call) -> DescribeGroups.Response:
    """Answers with the groups, in the order of the request. A repeated group is answered once, because its
    description may be long.
    """
    groups = dict.fromkeys(request.groups)
    described = await one_by_one(groups, lambda group_id: _describe(group_id, request, call), call)
    return DescribeGroups.Response(groups=described)


async def _describe(group_id: str, request: DescribeGroups.Request, call: Call) -> Described:
    if not may(call, DESCRIBE_GROUP, group_id):
        return DescribeGroups.Response.DescribedGroup(
            group_id=group_id, error_code=errors.GroupAuthorizationFailed.code
        )
    found: Described = await call.broker.groups.describe_group(group_id, call.version)
    if request.include_authorized_operations and found.error_code == errors.NONE:
        found.authorized_operations = authorized_operations.of_group(call, group_id)
    return found
