"""The authorizer and its filters against Kafka's own classes, in one JVM (AuthorizerWitness.java)."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import peers
from pybroker.security.acls import AccessControlEntry, AclBinding, AclFilter, ResourcePattern
from pybroker.security.authorizer import StandardAuthorizer
from pybroker.security.tests.acl_samples import by_pattern
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

WITNESS = Path(__file__).parent / "AuthorizerWitness.java"
ROUNDS = 2_000
QUESTIONS = 100
"""The number of questions in each round. Each is asked about one resource and about any resource of its kind."""
FILTERS = 50_000
SUPER_USERS = "User:root; User:CN=kafka-1,O=x"
NAMES = ["a", "aa", "ab", "aab", "b", "*", "h", "hardcode", "x*", "größe", "a.b", "a:b", "漢", "kafka-cluster"]
PRINCIPALS = ["User:a", "User:b", "User:*", "Group:a", "User:root", "User:CN=kafka-1,O=x", "User:a:b", "User:"]
CLIENTS = [each for each in PRINCIPALS if each != "User:*"]
"""Kafka cannot decide about a client whose name is ``*``: it throws."""
HOSTS = ["10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:7"]
KINDS = [each for each in AclResourceType if each > AclResourceType.ANY]
OPERATIONS = [each for each in AclOperation if each > AclOperation.ANY]
ASKED = [each for each in OPERATIONS if each > AclOperation.ALL]
PERMISSIONS = [AclPermissionType.DENY, AclPermissionType.ALLOW, AclPermissionType.ALLOW]
PATTERNS = [PatternType.LITERAL, PatternType.PREFIXED]

chance = random.Random(36)


def some_binding() -> AclBinding:
    return AclBinding(
        ResourcePattern(chance.choice(KINDS[:3]), chance.choice(NAMES), chance.choice(PATTERNS)),
        AccessControlEntry(
            chance.choice(PRINCIPALS),
            chance.choice([*HOSTS, "*", "*", "*"]),
            chance.choice(OPERATIONS),
            chance.choice(PERMISSIONS),
        ),
    )


def fields(binding: AclBinding) -> tuple[str, ...]:
    (kind, name, pattern), (principal, host, operation, permission) = binding
    return kind.name, pattern.name, name, principal, host, operation.name, permission.name


def ask(lines: list[str]) -> list[str]:
    """Returns Kafka's decision."""
    return subprocess.run(
        [*peers.jvm("512m"), str(WITNESS)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=500,
    ).stdout.splitlines()


def rounds() -> Iterator[tuple[list[str], list[str]]]:
    """Yields the lines for Kafka, and our decisions, of each round."""
    for _ in range(ROUNDS):
        everyone = chance.random() < 0.3
        acls = list(dict.fromkeys(some_binding() for _ in range(chance.choice([0, 1, 3, 10, 40]))))
        ours = StandardAuthorizer(map(str.strip, SUPER_USERS.split(";")), allows_everyone=everyone)
        ours.update(by_pattern(acls))
        lines = [f"begin\t{SUPER_USERS}\t{str(everyone).lower()}"]
        lines += ["\t".join(("acl", *fields(acl))) for acl in acls] + ["ready"]
        said = []
        for _ in range(QUESTIONS):
            who, host, operation, kind, name = map(chance.choice, (CLIENTS, HOSTS, ASKED, KINDS[:4], NAMES))
            lines.append("\t".join(("may", who, host, operation.name, kind.name, name)))
            one = ours.authorize(who, host, operation, kind, name)
            said.append(f"{one:d}{ours.authorize_any(who, host, operation, kind):d}")
        yield lines, said


@pytest.mark.nightly
def test_every_decision_is_kafkas() -> None:
    given, said = zip(*rounds(), strict=True)
    told = ask([line for lines in given for line in lines])
    asked = [line for lines in given for line in lines if line.startswith("may")]
    ours = [each for part in said for each in part]
    assert len(told) == len(ours) == ROUNDS * QUESTIONS
    differences = [each for each in zip(asked, told, ours, strict=True) if each[1] != each[2]]
    assert differences == []
    assert {answer: told.count(answer) > ROUNDS for answer in ("00", "01", "10", "11")} == dict.fromkeys(
        ("00", "01", "10", "11"), True
    )


@pytest.mark.nightly
def test_every_filter_finds_what_kafkas_finds() -> None:
    lines, ours = [], []
    for _ in range(FILTERS):
        binding = some_binding()
        wanted = AclFilter(
            chance.choice([AclResourceType.ANY, AclResourceType.ANY, *KINDS[:3]]),
            chance.choice([None, binding.pattern.name, chance.choice(NAMES)]),
            chance.choice([PatternType.ANY, PatternType.MATCH, *PATTERNS]),
            chance.choice([None, None, binding.entry.principal, chance.choice(PRINCIPALS)]),
            chance.choice([None, None, binding.entry.host, "*"]),
            chance.choice([AclOperation.ANY, binding.entry.operation, chance.choice(OPERATIONS)]),
            chance.choice([AclPermissionType.ANY, AclPermissionType.ANY, binding.entry.permission_type]),
        )
        kind, name, pattern, principal, host, operation, permission = wanted
        texts = (name or "-", principal or "-", host or "-")
        row = (kind.name, pattern.name, *texts, operation.name, permission.name, *fields(binding))
        lines.append("\t".join(("filter", *row)))
        ours.append(f"{wanted.matches_pattern(binding.pattern) and wanted.matches_entry(binding.entry):d}")
    told = ask(lines)
    assert [each for each in zip(lines, told, ours, strict=True) if each[1] != each[2]] == []
    assert 0.05 < told.count("1") / FILTERS < 0.95
