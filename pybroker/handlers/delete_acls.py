"""DeleteAcls (31), 1 to 3: deletes the ACLs that filters find, and returns them (KIP-140).

When the reply comes, they no longer apply on any connection of this broker. A filter that names no resource walks all
ACLs in turns, and deletes those that match piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pybroker.cluster.decisions.acl_changes import Acls, candidates
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import PIECE, Paced, in_turns, one_by_one, settled, walk
from pybroker.handlers.common.security.acls import filter_of, refusal
from pybroker.security.acls import AclBinding, AclFilter, ResourcePattern
from pyclient.protocol import DeleteAcls
from pyclient.protocol.errors import KafkaError

Response = DeleteAcls.Response
Filter = DeleteAcls.Request.DeleteAclsFilter
Result = Response.DeleteAclsFilterResult

ACLS_AT_ONCE: Final = 1000
"""How many ACLs, deleted or not, the patterns of one change have. Those of one pattern stay together."""


async def handle(request: DeleteAcls.Request, call: Call) -> DeleteAcls.Response:
    """Answers with one result per filter, in order; SECURITY_DISABLED without an authorizer."""
    disabled = refusal(call)
    answer = _at_controller(request, call) if disabled is None else settled(refused(request, call, disabled))
    response: DeleteAcls.Response = await answer
    return response


@in_turns
def refused(request: DeleteAcls.Request, call: Call, error: KafkaError) -> Paced[DeleteAcls.Response]:
    """Returns the response to a client that may not delete ACLs."""
    response = Response()
    for _ in request.filters:
        yield
        response.filter_results.append(_refused(error))
    return response


async def _delete(request: DeleteAcls.Request, call: Call) -> DeleteAcls.Response:
    async def delete(each: Filter) -> Result:
        try:
            return await _delete_found(filter_of(each), call)
        except KafkaError as error:
            return _refused(error)

    return Response(filter_results=await one_by_one(request.filters, delete, call))


_at_controller = forwarded(DeleteAcls, _delete)


async def _delete_found(wanted: AclFilter, call: Call) -> Result:
    """Deletes the ACLs that match the filter, and returns them. Raises KafkaError.

    The controller is asked even if none matches: only it knows that there is none.
    """
    wanted.check()
    acls = call.broker.metadata.image.acls
    result = Result()
    found = await settled(walk(_found(acls, wanted), call))
    for part in _parts(acls, found) if found else ([],):
        result.matching_acls += map(_told, await call.broker.controller.delete_acls(wanted, part))
    return result


def _found(acls: Acls, wanted: AclFilter) -> Paced[list[ResourcePattern]]:
    """The patterns of which any ACL is wanted."""
    found: list[ResourcePattern] = []
    looked_at = 0
    for pattern in candidates(acls, wanted):
        looked_at += 1
        if wanted.matches_pattern(pattern):
            entries = acls[pattern]
            looked_at += len(entries)
            if any(map(wanted.matches_entry, entries)):
                found.append(pattern)
        if looked_at >= PIECE:
            looked_at = 0
            yield
    return found


def _parts(acls: Acls, found: list[ResourcePattern]) -> Iterator[list[ResourcePattern]]:
    part: list[ResourcePattern] = []
    count = 0
    for pattern in found:
        part.append(pattern)
        count += len(acls[pattern])
        if count >= ACLS_AT_ONCE:
            yield part
            part, count = [], 0
    if part:
        yield part


def _refused(error: KafkaError) -> Result:
    return Result(error_code=error.code, error_message=str(error))


def _told(binding: AclBinding) -> Response.DeleteAclsMatchingAcl:
    (kind, name, pattern_type), (principal, host, operation, permission) = binding
    return Response.DeleteAclsMatchingAcl(
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )
