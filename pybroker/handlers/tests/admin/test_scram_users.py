"""AlterUserScramCredentials (KIP-554) with more users than one write to the store has."""

from __future__ import annotations

import pytest

from pybroker.cluster.decisions.scram_changes import users
from pybroker.handlers import alter_user_scram_credentials
from pybroker.handlers.alter_user_scram_credentials import MOST_OF_A_USER
from pybroker.handlers.common.writes import ITEMS_AT_ONCE
from pybroker.handlers.tests.admin.administration import Administration, run
from pybroker.handlers.tests.harness import Node, OneItemTurns
from pyclient.protocol import AlterUserScramCredentials, DescribeUserScramCredentials, errors

Request = AlterUserScramCredentials.Request
MANY = 2 * ITEMS_AT_ONCE + 50
NAMES = [f"u{number:03}" for number in range(MANY)]


def upsertion(name: str, mechanism: int = 1) -> Request.ScramCredentialUpsertion:
    return Request.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=b"salted"
    )


def deletion(name: str, mechanism: int = 1) -> Request.ScramCredentialDeletion:
    return Request.ScramCredentialDeletion(name=name, mechanism=mechanism)


async def asked(ask: Administration, request: Request) -> dict[str, int]:
    """Returns the error code of each user."""
    response = await ask(AlterUserScramCredentials, 0, request)
    found = {each.user: each.error_code for each in response.results}
    assert len(found) == len(response.results)
    return found


def test_credentials_of_many_users_are_written_in_pieces_that_keep_a_user_together(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(ask: Administration) -> None:
        sizes = []
        alter = ask.node.controller.alter_scram

        async def counted(changes: list[object]) -> object:
            sizes.append(len(changes))
            return await alter(changes)  # type: ignore[arg-type]

        monkeypatch.setattr(ask.node.controller, "alter_scram", counted)
        ask.broker.turns = turns = OneItemTurns()
        twice = [upsertion(name, mechanism) for mechanism in (1, 2) for name in NAMES]
        assert await asked(ask, Request(upsertions=twice)) == dict.fromkeys(NAMES, 0)
        assert (sum(sizes), max(sizes)) == (2 * MANY, ITEMS_AT_ONCE)
        assert turns.count >= MANY
        found = {user.name: set(user.iterations) for user in users(ask.broker.metadata.image)}
        assert found == {name: {1, 2} for name in NAMES}

    run(scenario)


def test_a_long_request_that_names_a_credential_twice_does_not_change_its_user() -> None:
    async def scenario(ask: Administration) -> None:
        first = Request(
            deletions=[deletion(NAMES[0]), deletion(NAMES[1]), deletion("none", 2)],
            upsertions=[*map(upsertion, NAMES[1:]), upsertion(NAMES[2], 2), upsertion(NAMES[3])],
        )
        expected = dict.fromkeys(NAMES, 0) | {
            NAMES[0]: errors.ResourceNotFound.code,
            "none": errors.ResourceNotFound.code,
            NAMES[1]: errors.DuplicateResource.code,
            NAMES[3]: errors.DuplicateResource.code,
        }
        assert await asked(ask, first) == expected
        found = {user.name for user in users(ask.broker.metadata.image)}
        assert found == {name for name, code in expected.items() if not code}

    run(scenario)


def test_the_changes_of_one_user_are_limited_by_the_number_of_scram_mechanisms() -> None:
    sizes = [
        len(piece.deletions) + len(piece.upsertions)
        for piece in alter_user_scram_credentials._pieces(
            _walked(Request(deletions=[deletion("alice")] * 1000, upsertions=[upsertion("alice")] * 1000))
        )
    ]
    assert sizes == [MOST_OF_A_USER]


def _walked(request: Request) -> list[Request]:
    work = alter_user_scram_credentials._by_user(request)
    try:
        while True:
            next(work)
    except StopIteration as done:
        return list(done.value.values())


def test_many_users_are_described_in_several_turns_and_a_user_named_twice_is_refused() -> None:
    async def scenario(ask: Administration) -> None:
        await asked(ask, Request(upsertions=[*map(upsertion, NAMES)]))

        async def told(*names: str) -> dict[str, int]:
            users = [DescribeUserScramCredentials.Request.UserName(name=name) for name in names]
            ask.broker.turns = turns = OneItemTurns()
            response = await ask(DescribeUserScramCredentials, 0, DescribeUserScramCredentials.Request(users=users))
            assert turns.count >= len(response.results) - 1
            return {each.user: each.error_code for each in response.results}

        assert await told() == dict.fromkeys(NAMES, 0)
        first, second, third = NAMES[:3]
        codes = {first: 0, "none": errors.ResourceNotFound.code, second: errors.DuplicateResource.code, third: 0}
        assert await told(first, "none", second, third, second) == codes

    run(scenario)


def test_a_request_for_many_users_is_refused_in_several_turns(node: Node) -> None:
    node.turns = turns = OneItemTurns()
    request = Request(deletions=[deletion(name) for name in NAMES], upsertions=[upsertion(name) for name in NAMES])
    error = errors.ClusterAuthorizationFailed()
    response = node.run(alter_user_scram_credentials.refused(request, node.call(0), error))  # type: ignore[arg-type]
    assert {each.user: each.error_code for each in response.results} == dict.fromkeys(NAMES, error.code)
    assert turns.count >= 2 * MANY - 1
