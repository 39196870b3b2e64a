"""ListGroups (16): lists the groups of a broker. Version 4 can filter by state (KIP-518), v5 by type (KIP-848)."""

from __future__ import annotations

from operator import attrgetter

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import DESCRIBE_CLUSTER, DESCRIBE_GROUP, may, permitted
from pyclient.protocol import ListGroups


async def handle(request: ListGroups.Request, call: Call) -> ListGroups.Response:
    """Answers with the groups that this broker coordinates and that the client may describe."""
    response: ListGroups.Response = await call.broker.groups.list_groups(request)
    if not may(call, DESCRIBE_CLUSTER, is_told=False):
        response.groups = await permitted(call, DESCRIBE_GROUP, response.groups, attrgetter("group_id"))
    return response
