"""AlterUserScramCredentials (51), 0: stores and deletes users' passwords for SCRAM (KIP-554).

The request has salted passwords, which are as secret as passwords. Several writes store the changes of many users, and
one write has all changes of a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import Paced, in_turns, one_by_one, settled, walk
from pybroker.handlers.common.writes import ITEMS_AT_ONCE
from pyclient.protocol import AlterUserScramCredentials
from pyclient.protocol.errors import KafkaError

Request = AlterUserScramCredentials.Request
Response = AlterUserScramCredentials.Response

MOST_OF_A_USER: Final = 257
"""How many changes of one user are read. With so many, one of the 256 possible mechanisms occurs twice."""


async def handle(request: Request, call: Call) -> Response:
    """Answers with one result per user, when the passwords are in effect."""

    async def alter(piece: Request) -> Response:
        response: Response = await _at_controller(piece, call)
        return response

    if len(request.deletions) + len(request.upsertions) <= ITEMS_AT_ONCE:
        return await alter(request)
    users: Iterable[Request] = (await settled(walk(_by_user(request), call))).values()
    results = [each.results for each in await one_by_one(_pieces(users), alter, call)]
    return Response(results=list(chain.from_iterable(results)))


@in_turns
def refused(request: Request, call: Call, error: KafkaError) -> Paced[Response]:
    """Returns the response to a client that may not change passwords."""
    results: dict[str, Response.AlterUserScramCredentialsResult] = {}
    for each in _changes(request):
        yield
        if each.name not in results:
            results[each.name] = _result(each.name, error)
    return Response(results=list(results.values()))


def _changes(request: Request) -> Iterator[Any]:
    return chain(request.deletions, request.upsertions)


def _by_user(request: Request) -> Paced[dict[str, Request]]:
    """Returns the changes of each user, in the order of the request."""
    users: dict[str, Request] = {}
    for field in ("deletions", "upsertions"):
        for change in getattr(request, field):
            yield
            user = users.get(change.name)
            if user is None:
                user = users[change.name] = Request()
            if len(user.deletions) + len(user.upsertions) < MOST_OF_A_USER:
                getattr(user, field).append(change)
    return users


def _pieces(users: Iterable[Request]) -> Iterator[Request]:
    """Joins the changes of several users into requests with as many changes as one write should have."""
    piece = Request()
    for user in users:
        piece.deletions += user.deletions
        piece.upsertions += user.upsertions
        if len(piece.deletions) + len(piece.upsertions) >= ITEMS_AT_ONCE:
            yield piece
            piece = Request()
    if piece.deletions or piece.upsertions:
        yield piece


async def _alter(request: Request, call: Call) -> Response:
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
