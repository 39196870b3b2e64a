"""``pybroker quota``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pybroker.cli.tests.running import Ended, Shell
from pybroker.cli.tests.scripted import serving
from pybroker.cli.tests.secured import Quotas

MIB = 1 << 20


class World(NamedTuple):
    """Runs commands against a scripted broker with quotas."""

    shell: Shell
    quotas: Quotas

    def done(self, *words: object) -> Ended:
        return self.shell.done("quota", *words)


@pytest.fixture
def world() -> Iterator[World]:
    made: list[Quotas] = []
    with serving(lambda broker: made.append(Quotas(broker))) as address:
        yield World(Shell(address), made[0])


def test_quotas_are_set_listed_and_unset(world: World) -> None:
    assert world.done("list").err == "no quotas\n"
    world.done("set", "--user", "User:alice", "--client", "app", "--produce", "1MiB", "--fetch", "1500000")
    world.done("set", "--user", "alice", "--request", "12.5%", "--mutation", "0.5")
    (made,) = world.done("set", "--ip", "10.0.0.7", "--connection", "5", "-o", "jsonl").documents
    assert (made["ip"], made["quota"], made["value"]) == ("10.0.0.7", "connection_creation_rate", 5)
    her_app = (("client-id", "app"), ("user", "alice"))
    assert world.quotas.there[her_app] == {"producer_byte_rate": MIB, "consumer_byte_rate": 1_500_000}
    told = world.done("list").out.splitlines()
    assert max(map(len, told)) <= 80
    assert [line.split() for line in told] == [
        ["USER", "CLIENT", "IP", "QUOTA", "VALUE"],
        ["-", "-", "10.0.0.7", "connection_creation_rate", "5/s"],
        ["alice", "-", "-", "controller_mutation_rate", "0.5/s"],
        ["alice", "-", "-", "request_percentage", "12.5%"],
        ["alice", "app", "-", "consumer_byte_rate", "1500000B/s"],
        ["alice", "app", "-", "producer_byte_rate", "1MiB/s"],
    ]
    rows = world.done("list", "--ip", "10.0.0.7", "-o", "jsonl").documents
    assert rows == [{"user": None, "client": None, "ip": "10.0.0.7", "quota": "connection_creation_rate", "value": 5}]
    assert "1MiB/s" in world.done("unset", "produce", "--user", "alice", "--client", "app", "--dry-run").out
    world.done("unset", "produce", "--user", "alice", "--client", "app")
    assert world.quotas.there[her_app] == {"consumer_byte_rate": 1_500_000}
    world.done("unset", "--user", "alice")
    assert her_app in world.quotas.there
    assert (("user", "alice"),) not in world.quotas.there
    assert world.done("unset", "--user", "alice").err == "no quotas\n"


def test_defaults_apply_to_entities_without_a_quota_of_their_own(world: World) -> None:
    world.done("set", "--user-defaults", "--client-defaults", "--fetch", "2MiB/s")
    assert world.quotas.there == {(("client-id", None), ("user", None)): {"consumer_byte_rate": 2 * MIB}}
    assert "(default)  (default)" in world.done("list", "--user-defaults").out
    assert world.done("list", "--user", "alice").out == ""


def test_a_plan_is_only_checked(world: World) -> None:
    told = world.done("set", "--user", "alice", "--fetch", "1", "--dry-run")
    assert (told.out.splitlines()[1].split(), "nothing was changed" in told.err) == (
        ["alice", "-", "-", "consumer_byte_rate", "1B/s"],
        True,
    )
    assert (world.quotas.there, world.quotas.validated) == ({}, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set", "--fetch", "1"), "--user, --client, --ip, or one of the defaults is missing"),
        (("set", "--user", "a"), "which quota? There are --produce, --fetch"),
        (("set", "--user", "a", "--fetch", "0"), "greater than 0"),
        (("set", "--user", "a", "--fetch", "1M"), "give bytes per second, such as 500kB or 1MiB"),
        (("set", "--user", "a", "--request", "much"), "is not a number"),
        (("set", "--user", "a", "--fetch", "9" * 400), "greater than 0"),
        (("set", "--user", "a", "--user-defaults", "--fetch", "1"), "either --user or --user-defaults"),
        (("set", "--user", "", "--fetch", "1"), "use --user-defaults for the default"),
        (("set", "--user", "a", "--ip", "10.0.0.7", "--connection", "1"), "cannot be used with --user"),
        (("set", "--user", "a", "--connection", "1"), "connection is a quota of --ip"),
        (("set", "--ip", "10.0.0.7", "--fetch", "1"), "fetch is a quota of --user and --client"),
        (("unset",), "one of the defaults is missing"),
    ],
)
def test_missing_and_contradicting_options_are_errors(world: World, words: tuple[str, ...], told: str) -> None:
    assert told in world.shell.refused("quota", *words, code=2)
    assert world.quotas.there == {}
