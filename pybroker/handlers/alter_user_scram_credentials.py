"""AlterUserScramCredentials (51), 0: stores and forgets users' passwords for SCRAM (KIP-554).

The request has salted passwords, which are as secret as passwords.
"""

from __future__ import annotations

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pyclient.protocol import AlterUserScramCredentials
from pyclient.protocol.errors import KafkaError

Response = AlterUserScramCredentials.Response


async def handle(request: AlterUserScramCredentials.Request, call: Call) -> AlterUserScramCredentials.Response:
    """Answers with one result per user, when the passwords are in effect."""
    response: AlterUserScramCredentials.Response = await _at_controller(request, call)
    return response


def refused(
    request: AlterUserScramCredentials.Request, call: Call, error: KafkaError
) -> AlterUserScramCredentials.Response:
    """Returns the response to a client that may not change passwords."""
    users = dict.fromkeys(each.name for asked in (request.deletions, request.upsertions) for each in asked)
    return Response(results=[_result(user, error) for user in users])


async def _alter(request: AlterUserScramCredentials.Request, call: Call) -> AlterUserScramCredentials.Response:
    from pybroker.cluster.decisions.scram_changes import ScramChange  # a broker without users need not have it

    changes = [ScramChange(each.name, each.mechanism) for each in request.deletions]
    changes += [
        ScramChange(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in request.upsertions
    ]
    try:
        results = await call.broker.controller.alter_scram(changes)
    except KafkaError as error:
        results = dict.fromkeys((change.user for change in changes), error)
    return Response(results=[_result(user, error) for user, error in results.items()])


_at_controller = forwarded(AlterUserScramCredentials, _alter)


def _result(user: str, error: KafkaError | None) -> Response.AlterUserScramCredentialsResult:
    if error is None:
        return Response.AlterUserScramCredentialsResult(user=user)
    return Response.AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=str(error))
