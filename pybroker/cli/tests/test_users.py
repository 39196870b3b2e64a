"""``pybroker user``, and ``kafka-configs --entity-type users``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.cli.tests.running import Shell
from pybroker.cli.tests.scripted import Users, serving
from pybroker.cli.tests.secured import Quotas
from pyclient.core.tests.scripted import ScriptedBroker

SECRET = "pen, cil=ä"


@pytest.fixture
def users() -> list[Users]:
    return []


@pytest.fixture
def shell(users: list[Users]) -> Iterator[Shell]:
    def prepare(broker: ScriptedBroker) -> None:
        users.append(Users(broker))
        Quotas(broker)

    with serving(prepare) as address:
        yield Shell(address)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\r\nmore\n", encoding="utf-8")
    return file


def test_a_user_is_created_listed_changed_and_deleted(shell: Shell, users: list[Users], secret: Path) -> None:
    assert shell.done("user", "list").err == "no users\n"
    told = shell.done("user", "create", "alice", "--password-file", secret).out
    assert [line.split() for line in told.splitlines()][1:] == [
        ["alice", "SCRAM-SHA-256", "4096"],
        ["alice", "SCRAM-SHA-512", "4096"],
    ]
    shell.done("user", "create", "bob", "--mechanism", "scram-sha-512", "--iterations", 8192, "--password-file", "-",
               stdin=SECRET.encode())  # fmt: skip
    rows = [tuple(each.values()) for each in shell.done("user", "list", "-o", "jsonl").documents]
    assert rows == [("alice", "SCRAM-SHA-256", 4096), ("alice", "SCRAM-SHA-512", 4096), ("bob", "SCRAM-SHA-512", 8192)]
    before = dict(users[0].keys)
    (changed,) = shell.done("user", "password", "bob", "--password-file", secret, "-o", "jsonl").documents
    assert changed == {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4096}
    assert users[0].there["bob"] == {2: 4096}
    assert users[0].keys["bob", 2] != before["bob", 2]
    assert "there is no user eve" in shell.refused("user", "password", "eve", "--password-file", secret)
    assert "alice is there already" in shell.refused("user", "create", "alice", "--password-file", secret)
    shell.done("user", "delete", "alice", "--dry-run")
    assert set(users[0].there) == {"alice", "bob"}
    shell.done("user", "delete", "alice")
    assert set(users[0].there) == {"bob"}
    missing = shell("user", "delete", "alice").err
    assert "RESOURCE_NOT_FOUND" in missing
    assert "no users" not in missing


def test_a_password_comes_from_a_file_or_a_terminal_only(shell: Shell, tmp_path: Path) -> None:
    told = shell.refused("user", "create", "alice", code=2)
    assert "give --password-file FILE (- for stdin): there is no terminal to ask at" in told
    assert "first line is empty" in shell.refused("user", "create", "a", "--password-file", "-", code=2)
    assert "No such file" in shell.refused("user", "create", "a", "--password-file", tmp_path / "none", code=2)


def test_kafkas_script_sets_shows_and_deletes_passwords_in_its_words(shell: Shell, users: list[Users]) -> None:
    alter = ("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice")
    both = "SCRAM-SHA-256=[iterations=8192,password=alice-secret],SCRAM-SHA-512=[password=alice,secret]"
    assert shell.done(*alter, "--add-config", both).out == "Completed updating config for user alice.\n"
    assert users[0].there == {"alice": {1: 8192, 2: 4096}}
    told = "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    line = f"SCRAM credential configs for user-principal 'alice' are {told}\n"
    assert shell.done("kafka-configs", "--describe", "--entity-type", "users").out == line
    assert shell.done("kafka-configs", "--describe", "--user", "alice").out == line
    assert shell.done("kafka-configs", "--describe", "--user", "nobody").out == ""
    shell.done(*alter, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    assert users[0].there == {}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("SCRAM-SHA-256=hush", "it is 'SCRAM-SHA-256=[iterations=8192,password=…]'"),
        ("SCRAM-SHA-256=[iterations=4095,password=hush]", "Iterations 4095 is less than the minimum 4096"),
        ("retention.ms=1", "can be added for 'users' using --bootstrap-server. Unexpected config names: retention.ms"),
        ("SCRAM-SHA-256=[password=hush],producer_byte_rate=1", "Cannot alter both quota and SCRAM credential"),
    ],
)
def test_an_unsuitable_password_is_refused_without_showing_it(shell: Shell, config: str, told: str) -> None:
    text = shell.refused("kafka-configs", "--alter", "--user", "alice", "--add-config", config, code=2)
    assert told in text
    assert "hush" not in text
