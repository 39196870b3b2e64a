"""kafka-acls, kafka-delegation-tokens and the quotas of kafka-configs beside Kafka's own scripts, on a real Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.peers import Java
from harness.servers.guarded import PASSWORD, GuardedKafka, jaas
from pybroker.cli.tests.running import Shell
from pyclient import Admin
from pyclient.tests.security.guarded import by_name
from pyclient.tests.support import answered

TOOLS = "org.apache.kafka.tools"
LOGIN = jaas("PLAIN", username="admin", password=PASSWORD)
SECRET = re.compile(r"[A-Za-z0-9+/_-]{22,}={0,2}")
PAIR = ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default")
RATES = "producer_byte_rate=1048576,consumer_byte_rate=20000000"


@pytest.fixture(scope="module")
def java_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    with GuardedKafka(tmp_path_factory.mktemp("guarded") / "data") as broker:
        yield broker


def blocks(text: str) -> list[list[str]]:
    """Returns the blocks of a text, sorted: Kafka shows resources, and the ACLs of each, in any order."""
    return sorted(sorted(block.split("\n")) for block in text.replace(": \n ", ":\n").split("\n\n"))


def test_kafkas_script_and_ours_agree_about_acls(java_broker: GuardedKafka) -> None:
    shell, where = Shell(java_broker.bootstrap), ("--bootstrap-server", java_broker.bootstrap)

    def ours(*words: str) -> str:
        return shell.done("kafka-acls", *words).out

    def theirs(*words: str) -> str:
        return Java()(f"{TOOLS}.AclCommand", *where, *words)

    role = ("--producer", "--idempotent", "--topic", "t", "--transactional-id", "x")
    told = [script("--add", "--allow-principal", f"User:{name}", *role) for name, script in
            (("alice", ours), ("eve", theirs))]  # fmt: skip
    assert blocks(told[0].replace("alice", "eve")) == blocks(told[1])
    again = ("--add", "--allow-principal", "User:alice", "--topic", "t", "--operation", "Write")
    listing = ("--list", "--topic", "t")
    answered(lambda: ours(*listing), lambda text: text.count("User:") == 6)
    assert ours(*again) == theirs(*again)
    assert blocks(ours(*listing)) == blocks(theirs(*listing))
    told = [script("--list", "--principal", "User:alice") for script in (ours, theirs)]
    head = "ACLs for principal `User:alice`\n"
    assert all(text.startswith(head) for text in told)
    assert blocks(told[0].removeprefix(head)) == blocks(told[1].removeprefix(head))
    assert ours("--remove", "--allow-principal", "User:eve", *role, "--force") == ""
    answered(lambda: ours("--list"), lambda text: "eve" not in text)
    assert theirs("--remove", "--allow-principal", "User:alice", *role, "--force") == ""
    answered(lambda: ours("--list"), lambda text: text == "")


def test_kafkas_script_and_ours_agree_about_quotas(java_broker: GuardedKafka) -> None:
    shell, where = Shell(java_broker.bootstrap), ("--bootstrap-server", java_broker.bootstrap)
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")

    def ours(*words: str) -> str:
        return shell.done("kafka-configs", *words).out

    def theirs(*words: str) -> str:
        return Java()(f"{TOOLS}.ConfigCommand", *where, *words)

    assert ours(*PAIR, "--alter", "--add-config", RATES) == theirs(*PAIR, "--alter", "--add-config", RATES)
    told = answered(lambda: ours(*PAIR, "--describe"), lambda text: text != "")
    assert told == theirs(*PAIR, "--describe")
    added = ("--alter", "--add-config", "connection_creation_rate=5")
    assert ours(*address, *added) == theirs(*address, *added)
    answered(lambda: ours(*address, "--describe"), lambda text: text != "")
    assert ours(*address, "--describe") == theirs(*address, "--describe")


def test_kafkas_script_and_ours_agree_about_tokens(java_broker: GuardedKafka, tmp_path: Path) -> None:
    file = tmp_path / "admin.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN}\n")
    shell, where = Shell(), ("--bootstrap-server", java_broker.guarded, "--command-config", str(file))

    def ours(*words: str) -> str:
        return shell.done("kafka-delegation-tokens", *where, *words).out

    def theirs(*words: str) -> str:
        return Java()(f"{TOOLS}.DelegationTokenCommand", *where, *words)

    def shape(text: str) -> str:
        """Returns the text without ids, secrets and minutes, which differ."""
        return re.sub(r"T\d\d:\d\d", "T", SECRET.sub("…", text)).rstrip("\n")

    made = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    assert shape(ours(*made)) == shape(theirs(*made))
    described = ("--describe", "--owner-principal", "User:admin")
    told = answered(lambda: ours(*described), lambda text: "tokens : 2" in text)
    assert sorted(told.splitlines()) == sorted(theirs(*described).splitlines())
    with Admin(java_broker.guarded, **by_name("admin")) as admin:
        hmac = ("--hmac", admin.describe_delegation_tokens()[0].password)
    renewed = ("--renew", *hmac, "--renew-time-period", "-1")
    ended = ("--expire", *hmac, "--expiry-time-period", "99999")
    assert shape(ours(*renewed)) == shape(theirs(*renewed))
    assert shape(ours(*ended)) == shape(theirs(*ended))
