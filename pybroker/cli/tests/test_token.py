"""``pybroker token``."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pybroker.cli.tests.running import Ended, Shell
from pybroker.cli.tests.scripted import serving
from pybroker.cli.tests.secured import HOUR_MS, NOW_MS, Tokens

HMAC = base64.b64encode(b"hmac-1").decode()


class World(NamedTuple):
    """Runs commands against a scripted broker with delegation tokens."""

    shell: Shell
    tokens: Tokens

    def done(self, *words: object) -> Ended:
        return self.shell.done("token", *words)


@pytest.fixture
def world() -> Iterator[World]:
    made: list[Tokens] = []
    with serving(lambda broker: made.append(Tokens(broker))) as address:
        yield World(Shell(address), made[0])


def test_a_token_is_created_listed_renewed_and_ended(world: World) -> None:
    assert world.done("list").err == "no tokens\n"
    words = ("--owner", "alice", "--renewer", "User:bob", "--renewer", "eve", "--lifetime", "2h")
    (made,) = world.done("create", *words, "-o", "jsonl").documents
    assert made == {
        "token": "token-1",
        "owner": "User:alice",
        "requester": "User:admin",
        "renewers": ["User:bob", "User:eve"],
        "issued_ms": NOW_MS,
        "expires_ms": NOW_MS + HOUR_MS,
        "lasts_until_ms": NOW_MS + 2 * HOUR_MS,
        "hmac": HMAC,
    }
    world.done("create")
    assert [each["owner"] for each in world.done("list", "-o", "jsonl").documents] == ["User:admin", "User:alice"]
    (found,) = world.done("list", "--owner", "alice", "-o", "jsonl").documents
    assert found == {key: value for key, value in made.items() if key != "hmac"}
    assert HMAC not in world.done("list").out
    assert HMAC in world.done("list", "--hmac").out
    told = world.done("renew", "token-1", "--period", "30min", "-o", "jsonl").documents
    assert told == [{"token": "token-1", "expires_ms": NOW_MS + HOUR_MS // 2}]
    world.done("expire", "token-1", "--in", "1h")
    assert world.tokens.there[b"hmac-1"]["expiry"] == NOW_MS + HOUR_MS
    world.done("expire", "token-1", "--dry-run")
    assert b"hmac-1" in world.tokens.there
    world.done("expire", "token-1")
    assert set(world.tokens.there) == {b"hmac-2"}
    assert "there is no token token-1" in world.shell.refused("token", "renew", "token-1")


def test_a_value_that_is_not_a_time_is_an_error(world: World) -> None:
    assert "is not a time" in world.shell.refused("token", "create", "--lifetime", "soon", code=2)
    assert "not a unit of time" in world.shell.refused("token", "create", "--lifetime", "1m", code=2)
    assert world.tokens.there == {}
