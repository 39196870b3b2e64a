"""CreateAcls (30), 1 to 3: stores ACLs (KIP-140). They apply to all clients of this broker before it replies."""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import Paced, in_turns, one_by_one, pieces, settled
from pybroker.handlers.common.security.acls import ITEMS_AT_ONCE, refusal
from pybroker.security.acls import AccessControlEntry, AclBinding, ResourcePattern, by_code
from pyclient.protocol import CreateAcls
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from pyclient.protocol.errors import KafkaError

Response = CreateAcls.Response
Creation = CreateAcls.Request.AclCreation


async def handle(request: CreateAcls.Request, call: Call) -> CreateAcls.Response:
    """Answers with one result per ACL, in order; SECURITY_DISABLED without an authorizer."""
    disabled = refusal(call)
    answer = _at_controller(request, call) if disabled is None else settled(refused(request, call, disabled))
    response: CreateAcls.Response = await answer
    return response


@in_turns
def refused(request: CreateAcls.Request, call: Call, error: KafkaError) -> Paced[CreateAcls.Response]:
    """Returns the response to a client that may not create ACLs."""
    response = Response()
    for _ in request.creations:
        yield
        response.results.append(_result(error))
    return response


async def _create(request: CreateAcls.Request, call: Call) -> CreateAcls.Response:
    async def create(piece: list[Creation]) -> list[KafkaError | None]:
        try:
            return await call.broker.controller.create_acls([_binding(each) for each in piece])
        except KafkaError as error:
            return [error] * len(piece)

    results = await one_by_one(pieces(request.creations, ITEMS_AT_ONCE), create, call)
    return Response(results=[_result(error) for piece in results for error in piece])


_at_controller = forwarded(CreateAcls, _create)


def _binding(each: Creation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            by_code(AclResourceType, each.resource_type),
            each.resource_name,
            by_code(PatternType, each.resource_pattern_type),
        ),
        AccessControlEntry(
            each.principal,
            each.host,
            by_code(AclOperation, each.operation),
            by_code(AclPermissionType, each.permission_type),
        ),
    )


def _result(error: KafkaError | None) -> Response.AclCreationResult:
    if error is None:
        return Response.AclCreationResult()
    return Response.AclCreationResult(error_code=error.code, error_message=str(error))
