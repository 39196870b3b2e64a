"""DeleteAcls (31), 1 to 3: deletes the ACLs that filters find, and returns them (KIP-140).

They do not count any more, on any connection of this broker, when the reply comes.
"""

from __future__ import annotations

from pybroker.handlers.common.acls import filter_of, refusal
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import one_by_one
from pybroker.security.acls import AclBinding
from pyclient.protocol import DeleteAcls
from pyclient.protocol.errors import KafkaError

Response = DeleteAcls.Response
Filter = DeleteAcls.Request.DeleteAclsFilter
Result = Response.DeleteAclsFilterResult


async def handle(request: DeleteAcls.Request, call: Call) -> DeleteAcls.Response:
    """One result for each filter, in order; SECURITY_DISABLED without an authorizer."""
    if (disabled := refusal(call)) is not None:
        return refused(request, call, disabled)
    response: DeleteAcls.Response = await _at_controller(request, call)
    return response


def refused(request: DeleteAcls.Request, call: Call, error: KafkaError) -> DeleteAcls.Response:
    """The response to a client that may not delete any."""
    return Response(filter_results=[_refused(error) for _ in request.filters])


async def _delete(request: DeleteAcls.Request, call: Call) -> DeleteAcls.Response:
    async def delete(each: Filter) -> Result:
        try:
            return _deleted(await call.broker.controller.delete_acls(filter_of(each)))
        except KafkaError as error:
            return _refused(error)

    return Response(filter_results=await one_by_one(request.filters, delete, call))


_at_controller = forwarded(DeleteAcls, _delete)


def _refused(error: KafkaError) -> Result:
    return Result(error_code=error.code, error_message=str(error))


def _deleted(bindings: list[AclBinding]) -> Result:
    return Result(
        matching_acls=[
            Response.DeleteAclsMatchingAcl(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern_type,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for (kind, name, pattern_type), (principal, host, operation, permission) in bindings
        ]
    )
