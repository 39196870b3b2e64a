"""What the handlers of CreateAcls, DescribeAcls and DeleteAcls share."""

from __future__ import annotations

from typing import Final

from pybroker.handlers.common.call import Call
from pybroker.security.acls import AclFilter, by_code
from pyclient.protocol import DeleteAcls, DescribeAcls
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from pyclient.protocol.errors import SecurityDisabled

ITEMS_AT_ONCE: Final = 100
"""How many ACLs one write to the store has at most."""


def refusal(call: Call) -> SecurityDisabled | None:
    """Returns SecurityDisabled if this broker has no authorizer, else None."""
    return None if call.broker.authorizer is not None else SecurityDisabled("No Authorizer is configured.")


def filter_of(request: DescribeAcls.Request | DeleteAcls.Request.DeleteAclsFilter) -> AclFilter:
    """Returns the filter that a request describes."""
    return AclFilter(
        by_code(AclResourceType, request.resource_type_filter),
        request.resource_name_filter,
        by_code(PatternType, request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        by_code(AclOperation, request.operation),
        by_code(AclPermissionType, request.permission_type),
    )
