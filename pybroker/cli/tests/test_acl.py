"""``pybroker acl``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pybroker.cli.tests.running import Ended, Shell
from pybroker.cli.tests.scripted import serving
from pybroker.cli.tests.secured import Acls


class World(NamedTuple):
    """Runs commands against a scripted broker with ACLs."""

    shell: Shell
    acls: Acls

    def done(self, *words: object) -> Ended:
        return self.shell.done("acl", *words)

    def listed(self, *words: object) -> list[str]:
        """The rows of a list, each as a line."""
        return lines(self.done("list", *words, "-o", "jsonl"))


@pytest.fixture
def world() -> Iterator[World]:
    made: list[Acls] = []
    with serving(lambda broker: made.append(Acls(broker))) as address:
        yield World(Shell(address), made[0])


def lines(ended: Ended) -> list[str]:
    return [" ".join(each.values()) for each in ended.documents]


def test_an_acl_is_created_listed_and_deleted_by_the_same_words(world: World) -> None:
    words = ("--allow", "User:alice", "--operation", "read", "--topic", "flights", "--group", "app")
    assert world.done("list").err == "no ACLs\n"
    told = world.done("create", *words).out.splitlines()
    assert told[0].split() == ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"]
    assert max(map(len, told)) <= 80
    both = ["User:alice allow read group app literal *", "User:alice allow read topic flights literal *"]
    assert world.listed() == both
    world.done("create", *words)
    assert world.listed() == both
    assert lines(world.done("delete", *words, "--dry-run", "-o", "jsonl")) == both
    assert world.listed() == both
    assert lines(world.done("delete", *words, "-o", "jsonl")) == both
    assert world.listed() == []


def test_each_user_host_operation_and_resource_is_combined(world: World) -> None:
    world.done("create", "--allow", "a", "--deny", "User:b", "--host", "10.0.0.1", "--host", "10.0.0.2",
               "--operation", "DescribeConfigs", "--operation", "ALL", "--topic", "*", "--cluster")  # fmt: skip
    assert len(world.listed()) == 16
    assert "User:b deny all cluster kafka-cluster literal 10.0.0.2" in world.listed()
    assert "User:a allow describe-configs topic * literal 10.0.0.1" in world.listed()


@pytest.mark.parametrize(
    ("words", "rights"),
    [
        (("--producer", "--topic", "t"), {"create topic t", "describe topic t", "write topic t"}),
        (
            ("--producer", "--idempotent", "--topic", "t", "--transactional-id", "x"),
            {
                *("create topic t", "describe topic t", "write topic t"),
                *("describe transactional-id x", "write transactional-id x", "idempotent-write cluster kafka-cluster"),
            },
        ),
        (("--consumer", "--topic", "t", "--group", "g"), {"describe topic t", "read topic t", "read group g"}),
        (
            ("--producer", "--consumer", "--topic", "t", "--group", "g"),
            {"create topic t", "describe topic t", "write topic t", "read topic t", "read group g"},
        ),
    ],
)
def test_a_role_has_the_rights_that_kafkas_script_gives_it(
    world: World, words: tuple[str, ...], rights: set[str]
) -> None:
    world.done("create", "--allow", "alice", *words)
    assert {line.removeprefix("User:alice allow ").removesuffix(" literal *") for line in world.listed()} == rights
    world.done("delete", "--allow", "alice", *words)
    assert world.listed() == []


def test_a_name_finds_each_acl_that_covers_it(world: World) -> None:
    world.done("create", "--allow", "a", "--operation", "read", "--topic", "fl", "--prefixed")
    world.done("create", "--allow", "a", "--operation", "read", "--topic", "*", "--topic", "flights", "--topic", "x")
    covering = ["* literal *", "fl prefixed *", "flights literal *"]
    assert [line.partition(" topic ")[2] for line in world.listed("--topic", "flights")] == covering
    assert len(world.listed("--topic", "flights", "--pattern", "literal")) == 1
    assert len(world.listed("--topic", "fl", "--prefixed")) == 1
    assert len(world.listed("--principal", "a")) == 4
    assert len(world.listed("--deny", "a")) == len(world.listed("--operation", "write")) == 0
    world.done("delete", "--topic", "flights")
    assert len(world.listed()) == 3
    world.done("delete", "--all")
    assert world.listed() == []


def test_a_dry_run_creates_nothing_and_shows_only_new_acls(world: World) -> None:
    world.done("create", "--allow", "a", "--operation", "read", "--topic", "t")
    words = ("create", "--allow", "a", "--operation", "read", "--operation", "write", "--topic", "t", "--dry-run")
    assert lines(world.done(*words, "-o", "jsonl")) == ["User:a allow write topic t literal *"]
    assert len(world.listed()) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create", "--operation", "read", "--topic", "t"), "--allow USER or --deny USER is missing"),
        (("create", "--allow", "a", "--operation", "read"), "--topic, --group"),
        (("create", "--allow", "a", "--topic", "t"), "--operation is missing"),
        (("create", "--allow", "a", "--operation", "reed", "--topic", "t"), "'reed' is not an operation"),
        (
            ("create", "--allow", "a", "--operation", "write", "--topic", "t", "--group", "g"),
            "--operation write does not apply to --group, which has read",
        ),
        (("create", "--allow", "a", "--producer"), "--producer needs --topic"),
        (("create", "--allow", "a", "--consumer", "--topic", "t"), "--consumer needs --topic and --group"),
        (("create", "--deny", "a", "--producer", "--topic", "t"), "cannot be used with --deny"),
        (("create", "--allow", "a", "--operation", "read", "--topic", "t", "--idempotent"), "needs --producer"),
        (("delete",), "Name a user or a resource, or say --all"),
        (("delete", "--topic", "t", "--prefixed", "--pattern", "any"), "use either --prefixed or --pattern"),
    ],
)
def test_missing_and_contradicting_options_are_errors(world: World, words: tuple[str, ...], told: str) -> None:
    assert told in world.shell.refused("acl", *words, code=2)
    assert world.acls.there == []


def test_a_refusal_of_the_broker_is_reported_with_its_acl(world: World) -> None:
    words = ("--allow", "a", "--host", "nowhere", "--host", "*", "--operation", "read", "--topic", "t")
    told = world.shell.refused("acl", "create", *words, "-o", "name")
    assert "ACL allow User:a read topic t" in told
    assert "the host is none (INVALID_REQUEST)" in told
    assert len(world.listed()) == 1
    world.acls.enabled = False
    assert "authorizer.class.name" in world.shell.refused("acl", "list")


def test_operations_are_offered_behind_tab(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PYBROKER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "pybroker acl create --operation describe")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert world.shell.done().out.split() == ["plain,describe", "plain,describe-configs", "plain,describe-tokens"]
