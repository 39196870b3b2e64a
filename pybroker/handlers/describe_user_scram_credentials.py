"""DescribeUserScramCredentials (50), 0: returns which users have SCRAM passwords, and their iterations (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pybroker.handlers.common.call import Call
from pyclient.protocol import DescribeUserScramCredentials, errors

if TYPE_CHECKING:
    from pybroker.cluster.decisions.scram_changes import ScramUser

Response = DescribeUserScramCredentials.Response
Result = Response.DescribeUserScramCredentialsResult


def handle(request: DescribeUserScramCredentials.Request, call: Call) -> DescribeUserScramCredentials.Response:
    """Answers with one result per named user, or per user if none is named."""
    from pybroker.cluster.decisions.scram_changes import users  # a broker without users need not have it

    image = call.broker.metadata.image
    if not request.users:
        return Response(results=[_result(user) for user in users(image)])
    times = Counter(each.name for each in request.users)
    known = {user.name: user for user in users(image, times)}
    response = Response()
    for name, count in times.items():
        if count > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            response.results.append(_refused(name, errors.DuplicateResource(text)))
        elif name not in known:
            text = f"Attempt to describe a user credential that does not exist: {name}"
            response.results.append(_refused(name, errors.ResourceNotFound(text)))
        else:
            response.results.append(_result(known[name]))
    return response


def _result(user: ScramUser) -> Result:
    infos = [Response.CredentialInfo(mechanism=each, iterations=count) for each, count in user.iterations.items()]
    return Result(user=user.name, credential_infos=infos)


def _refused(name: str, error: errors.KafkaError) -> Result:
    return Result(user=name, error_code=error.code, error_message=str(error))
