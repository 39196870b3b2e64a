"""Commands as Kafka's documents have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pybroker
from pybroker.cli.tests.running import Shell


@pytest.fixture(scope="module")
def at() -> Iterator[tuple[Shell, str, str]]:
    with pybroker.run() as broker:
        yield Shell(), "--bootstrap-server", broker.bootstrap_servers


def test_kafka_topics_answers_as_the_script_does(at: tuple[Shell, str, str]) -> None:
    shell, *where = at
    topics = ("kafka-topics", *where, "--topic", "quickstart-events")
    made = shell.done(*topics, "--create", "--partitions", 2, "--config", "retention.ms=5")
    assert made.out == "Created topic quickstart-events.\n"
    assert "TOPIC_ALREADY_EXISTS" in shell.refused(*topics, "--create")
    assert shell.done(*topics, "--create", "--if-not-exists").out == ""
    head, *rows = shell.done(*topics, "--describe").out.splitlines()
    assert head.startswith("Topic: quickstart-events\tTopicId: ")
    assert head.endswith("\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=5")
    assert rows[1] == "\tTopic: quickstart-events\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1"
    shell.done(*topics, "--alter", "--partitions", 3)
    assert len(shell.done(*topics, "--describe").out.splitlines()) == 4
    assert shell.done("kafka-topics", *where, "--list").out == "quickstart-events\n"
    shell.done(*topics, "--delete")
    assert "does not exist" in shell.refused(*topics, "--describe")
    shell.done(*topics, "--delete", "--if-exists")


def test_kafka_consumer_groups_answers_as_the_script_does(at: tuple[Shell, str, str]) -> None:
    shell, *where = at
    shell.done("topic", "create", "read", "-b", where[1])
    shell.done("produce", "read", "-b", where[1], stdin="a\nb\nc\n")
    groups = ("kafka-consumer-groups", *where)
    reset = (*groups, "--group", "g", "--reset-offsets", "--topic", "read")
    assert shell.done(*reset, "--to-offset", 1).out.splitlines()[-1].split() == ["g", "read", "0", "1"]
    assert shell.done(*groups, "--list").out == ""
    shell.done(*reset, "--to-offset", 1, "--execute")
    assert shell.done(*reset, "--shift-by", 1, "--execute").out.splitlines()[-1].split()[-1] == "2"
    described = shell.done(*groups, "--describe", "--all-groups").out.splitlines()
    assert described[1].split()[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert described[2].split() == ["g", "read", "0", "2", "3", "1", "-", "-", "-"]
    assert "Empty" in shell.done(*groups, "--describe", "--group", "g", "--state").out
    deleted = shell.done(*groups, "--delete", "--group", "g").out
    assert deleted == "Deletion of requested consumer groups ('g') was successful.\n"


@pytest.mark.parametrize(
    "words",
    [
        ("kafka-topics",),
        ("kafka-topics", "--list", "--create"),
        ("kafka-topics", "--create"),
        ("kafka-topics", "--delete", "--topic", "("),
        ("kafka-consumer-groups", "--describe"),
        ("kafka-consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t"),
        ("kafka-consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", "x"),
    ],
)
def test_misuse_exits_2(words: tuple[str, ...]) -> None:
    Shell("127.0.0.1:1").refused(*words, code=2)
