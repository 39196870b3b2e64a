"""DescribeAcls (29), 1 to 3: returns the ACLs that a filter finds, by resource (KIP-140)."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import PIECE, Paced, in_turns, pieces
from pybroker.handlers.common.security.acls import filter_of, refusal
from pybroker.security.acls import AclFilter, Entries, ResourcePattern
from pyclient.protocol import DescribeAcls, errors

Response = DescribeAcls.Response


@in_turns
def handle(request: DescribeAcls.Request, call: Call) -> Paced[DescribeAcls.Response]:
    """Answers with the ACLs of this broker's metadata; SECURITY_DISABLED without an authorizer."""
    wanted = filter_of(request)
    try:
        if (disabled := refusal(call)) is not None:
            raise disabled
        wanted.check()
    except errors.KafkaError as error:
        return Response(error_code=error.code, error_message=str(error))
    response = Response()
    for piece in pieces(call.broker.metadata.image.acls.items(), PIECE):
        response.resources += filter(None, (_resource(wanted, *each) for each in piece))
        yield
    return response


def _resource(wanted: AclFilter, pattern: ResourcePattern, entries: Entries) -> Response.DescribeAclsResource | None:
    if not wanted.matches_pattern(pattern):
        return None
    acls = [
        Response.AclDescription(principal=principal, host=host, operation=operation, permission_type=permission)
        for principal, host, operation, permission in filter(wanted.matches_entry, entries)
    ]
    kind, name, pattern_type = pattern
    return acls and Response.DescribeAclsResource(  # type: ignore[return-value]
        resource_type=kind, resource_name=name, pattern_type=pattern_type, acls=acls
    )
