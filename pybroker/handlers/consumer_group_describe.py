"""ConsumerGroupDescribe (69): describes groups of the new consumer protocol (KIP-848); v1 shows which protocol a
member speaks (KIP-1099)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.handlers.common import authorized_operations
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one
from pyclient.protocol import ConsumerGroupDescribe, errors

if TYPE_CHECKING:
    Described = ConsumerGroupDescribe.Response.DescribedGroup


async def handle(
    request: ConsumerGroupDescribe.Request, call: Call
) -> ConsumerGroupDescribe.Response:
    """The groups, in the order of the request; GROUP_ID_NOT_FOUND for those of the classic kind."""
    described = await one_by_one(request.group_ids, lambda group_id: _describe(group_id, request, call), call)
    return ConsumerGroupDescribe.Response(groups=described)


async def _describe(
    group_id: str, request: ConsumerGroupDescribe.Request, call: Call
) -> Described:
    found: Described = await call.broker.groups.consumers.describe(group_id)
    if request.include_authorized_operations and found.error_code == errors.NONE:
        found.authorized_operations = authorized_operations.GROUP
    return found
