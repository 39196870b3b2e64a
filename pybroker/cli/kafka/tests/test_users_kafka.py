"""``kafka-configs --entity-type users`` beside Kafka's own script, on a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.peers import Java
from harness.servers.brokers import RealKafka
from pybroker.cli.tests.running import Shell
from pyclient.tests.support import answered

SCRIPT = "org.apache.kafka.tools.ConfigCommand"
USERS = ("--entity-type", "users")
TOLD = "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"


@pytest.fixture(scope="module")
def java_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    with RealKafka(tmp_path_factory.mktemp("users") / "data") as broker:
        yield broker


def in_order(text: str) -> list[str]:
    """Returns the lines with sorted mechanisms, because Kafka shows these in any order."""
    return sorted(text.strip().replace(" are ", ", ").split(", "))


def test_kafkas_script_and_ours_agree_and_see_each_others_users(java_broker: RealKafka) -> None:
    shell, where = Shell(java_broker.bootstrap), ("--bootstrap-server", java_broker.bootstrap)

    def ours(*words: str) -> str:
        return shell.done("kafka-configs", *words).out

    def theirs(*words: str) -> str:
        return Java()(SCRIPT, *where, *words)

    for name, mine, other in (("alice", ours, theirs), ("bob", theirs, ours)):
        for added in ("SCRAM-SHA-256=[iterations=8192,password=hush]", "SCRAM-SHA-512=[password=hu,sh]"):
            done = mine(*USERS, "--entity-name", name, "--alter", "--add-config", added)
            assert done == f"Completed updating config for user {name}.\n"
        one = (*USERS, "--entity-name", name, "--describe")
        told = answered(lambda: other(*one), lambda text: "512" in text)  # noqa: B023
        assert in_order(mine(*one)) == in_order(f"SCRAM credential configs for user-principal '{name}' are {TOLD}\n")
        assert in_order(told) == in_order(mine(*one))
    every = [sorted(map(in_order, script(*USERS, "--describe").splitlines())) for script in (ours, theirs)]
    assert every[0] == every[1]
    gone = (*USERS, "--entity-name", "alice", "--alter", "--delete-config", "SCRAM-SHA-256")
    assert ours(*gone) == "Completed updating config for user alice.\n"
    answered(lambda: ours("--describe", "--user", "alice"), lambda text: "256" not in text)
    assert ours("--describe", "--user", "nobody") == theirs("--describe", "--user", "nobody") == ""
