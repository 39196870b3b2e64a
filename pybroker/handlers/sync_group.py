"""SyncGroup (14): distributes the assignment of a classic group. Version 3 adds static members (KIP-345), v5 the
protocol's type and name (KIP-559).
"""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security.rights import READ_GROUP, may
from pyclient.protocol import SyncGroup, errors

_FIRST_WITH_PROTOCOL = 5


async def handle(request: SyncGroup.Request, call: Call) -> SyncGroup.Response:
    """Answers when the group's leader has sent the assignments and the log has them."""
    if not may(call, READ_GROUP, request.group_id):
        return SyncGroup.Response(error_code=errors.GroupAuthorizationFailed.code)
    named = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= _FIRST_WITH_PROTOCOL and not named:
        return SyncGroup.Response(error_code=errors.InconsistentGroupProtocol.code)
    response: SyncGroup.Response = await call.broker.groups.sync_group(request)
    return response
