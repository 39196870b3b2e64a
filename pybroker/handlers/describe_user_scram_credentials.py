"""DescribeUserScramCredentials (50), 0: returns which users have SCRAM passwords, and their iterations (KIP-554)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns
from pyclient.protocol import DescribeUserScramCredentials, errors

if TYPE_CHECKING:
    from pybroker.cluster.decisions.scram_changes import ScramUser

Response = DescribeUserScramCredentials.Response
Result = Response.DescribeUserScramCredentialsResult


@in_turns
def handle(
    request: DescribeUserScramCredentials.Request, call: Call
) -> Paced[DescribeUserScramCredentials.Response]:
    """Answers with one result per named user, or with one for every user if the request names none."""
    from pybroker.cluster.decisions.scram_changes import names_of_users, users  # only loaded if used

    image, response = call.broker.metadata.image, Response()
    if not request.users:
        for name in names_of_users(image):
            response.results += map(_result, users(image, [name]))
            yield
        return response
    for name, count in Counter(each.name for each in request.users).items():
        found = users(image, [name])
        if count > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            response.results.append(_refused(name, errors.DuplicateResource(text)))
        elif not found:
            text = f"Attempt to describe a user credential that does not exist: {name}"
            response.results.append(_refused(name, errors.ResourceNotFound(text)))
        else:
            response.results += map(_result, found)
        yield
    return response


def _result(user: ScramUser) -> Result:
    infos = [Response.CredentialInfo(mechanism=each, iterations=count) for each, count in user.iterations.items()]
    return Result(user=user.name, credential_infos=infos)


def _refused(name: str, error: errors.KafkaError) -> Result:
    return Result(user=name, error_code=error.code, error_message=str(error))
