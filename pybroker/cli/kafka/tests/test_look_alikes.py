"""Commands as Kafka's documents have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.cli.kafka.common.throttles import moves, topic_settings
from pybroker.cli.kafka.reassign_partitions import status
from pybroker.cli.tests.running import Shell
from pyclient import TopicPartition


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
    places = "\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    assert rows == [f"\tTopic: quickstart-events\tPartition: {number}{places}" for number in range(2)]
    assert len(shell.done(*topics, "--describe", "--at-min-isr-partitions").out.splitlines()) == 2
    assert shell.done(*topics, "--describe", "--under-replicated-partitions", "--unavailable-partitions").out == ""
    id_ = head.split("\t")[1].removeprefix("TopicId: ")
    by_id = ("kafka-topics", *where, "--describe", "--topic-id", id_, "--topics-with-overrides")
    assert shell.done(*by_id).out == head + "\n"
    shell.done(*topics, "--alter", "--partitions", 3)
    assert len(shell.done(*topics, "--describe").out.splitlines()) == 4
    assert shell.done("kafka-topics", *where, "--list").out == "quickstart-events\n"
    shell.done(*topics, "--delete")
    assert "does not exist" in shell.refused(*topics, "--describe")
    shell.done(*topics, "--delete", "--if-exists")


def test_kafka_consumer_groups_answers_as_the_script_does(at: tuple[Shell, str, str], tmp_path: Path) -> None:
    shell, *where = at
    shell.done("topic", "create", "read", "-b", where[1])
    shell.done("produce", "read", "-b", where[1], stdin="a\nb\nc\n")
    groups = ("kafka-consumer-groups", *where)
    reset = (*groups, "--group", "g", "--reset-offsets", "--topic", "read")
    assert shell.done(*reset, "--to-offset", 1).out.splitlines()[-1].split() == ["g", "read", "0", "1"]
    assert shell.done(*groups, "--list").out == ""
    shell.done(*reset, "--to-offset", 1, "--execute")
    assert shell.done(*reset, "--shift-by", 1, "--execute").out.splitlines()[-1].split()[-1] == "2"
    assert shell.done(*groups, "--list", "--state").out.split() == ["GROUP", "STATE", "g", "Empty"]
    assert shell.done(*groups, "--list", "--state", "Stable").out.split() == ["GROUP", "STATE"]
    assert shell.done(*groups, "--list", "--type", "classic").out.split() == ["GROUP", "TYPE", "g", "Classic"]
    plan = tmp_path / "plan.csv"
    plan.write_text(shell.done(*reset, "--to-latest", "--export").out)
    assert plan.read_text() == "read,0,3\n"
    assert shell.done(*groups, "--group", "g", "--reset-offsets", "--from-file", plan).out.split()[-1] == "3"
    assert shell.done(*reset, "--by-duration", "P1DT1H").out.split()[-1] == "0"
    described = shell.done(*groups, "--describe", "--all-groups").out.splitlines()
    assert described[1].split()[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert described[2].split() == ["g", "read", "0", "2", "3", "1", "-", "-", "-"]
    assert "Empty" in shell.done(*groups, "--describe", "--group", "g", "--state").out
    deleted = shell.done(*groups, "--delete", "--group", "g").out
    assert deleted == "Deletion of requested consumer groups ('g') was successful.\n"


def test_a_client_is_set_up_by_a_file_and_by_single_properties(at: tuple[Shell, str, str], tmp_path: Path) -> None:
    shell, _, address = at
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={address}\nclient.id=from-file\n")
    assert shell.done("kafka-topics", "--list", "--command-config", file).code == 0
    assert shell.done("topic", "list", "--command-config", file).code == 0
    assert shell.done("--command-config", file, "topic", "list").code == 0
    file.write_text("bootstrap.servers=127.0.0.1:1\n")
    assert shell.done("topic", "list", "--command-config", file, "-b", address).code == 0
    file.write_text("lingr.ms=5\n")
    for words in (("kafka-topics", "--list"), ("topic", "list")):
        assert "lingr.ms" in shell.refused(*words, "--command-config", file, code=2)


def test_configurations_of_topics_and_brokers_are_altered_and_described(at: tuple[Shell, str, str]) -> None:
    shell, *where = at
    configs = ("kafka-configs", *where)
    shell.done("topic", "create", "configured", "-b", where[1])
    entity = ("--entity-type", "topics", "--entity-name", "configured")
    shell.done(*configs, "--alter", *entity, "--add-config", "cleanup.policy=[compact,delete],retention.ms=7")
    shell.done(*configs, "--alter", *entity, "--delete-config", "retention.ms")
    assert shell.done(*configs, "--describe", "--topic", "configured").out.splitlines()[1].startswith(
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
    )
    changed = shell.done(*configs, "--alter", "--broker-defaults", "--add-config", "log.cleaner.threads=2").out
    assert changed == "Completed updating default config for brokers in the cluster.\n"
    both = shell.done(*configs, "--describe", "--entity-type", "brokers").out
    assert "Dynamic configs for broker 1 are:\nDefault configs for brokers in the cluster are:\n  log.cleaner" in both
    shell.done(*configs, "--alter", "--broker-defaults", "--delete-config", "log.cleaner.threads")
    absent = shell.done(*configs, "--describe", "--topic", "absent").out
    assert absent == "The topic 'absent' doesn't exist and doesn't have dynamic config.\n"


def test_records_are_deleted_before_the_offsets_of_a_file(at: tuple[Shell, str, str], tmp_path: Path) -> None:
    shell, *where = at
    shell.done("topic", "create", "trimmed", "-b", where[1])
    shell.done("produce", "trimmed", "-b", where[1], stdin="a\nb\nc\n")
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "trimmed", "partition": 0, "offset": 2}], "version": 1}')
    deleted = shell.done("kafka-delete-records", *where, "--offset-json-file", file).out
    assert deleted.endswith("partition: trimmed-0\tlow_watermark: 2\n")
    earliest = shell.done("kafka-get-offsets", *where, "--topic", "trimmed", "--time", "earliest").out
    assert earliest == "trimmed:0:2\n"
    for text, words in (("[]", "not a JSON object"), ("{", "not readable as JSON"), ("{}", '"partitions" is missing')):
        file.write_text(text)
        assert words in shell.refused("kafka-delete-records", *where, "--offset-json-file", file)


def test_a_reassignment_is_proposed_started_and_verified(at: tuple[Shell, str, str], tmp_path: Path) -> None:
    shell, *where = at
    shell.done("topic", "create", "moving", "-p", 2, "-b", where[1])
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text('{"topics": [{"topic": "moving"}], "version": 1}')
    tool = ("kafka-reassign-partitions", *where)
    proposed = shell.done(*tool, "--generate", "--topics-to-move-json-file", topics, "--broker-list", 1).out
    now, then = (line for line in proposed.splitlines() if line.startswith("{"))
    assert now == then
    plan.write_text(then)
    begun = shell.done(*tool, "--execute", "--reassignment-json-file", plan, "--throttle", 5_000_000).out
    assert "moving-0,moving-1" in begun
    assert "The inter-broker throttle limit was set to 5000000 B/s\n" in begun
    configs = ("kafka-configs", *where, "--describe", "--topic", "moving")
    assert "leader.replication.throttled.replicas=0:1,1:1" in shell.done(*configs).out
    told = shell.done(*tool, "--verify", "--reassignment-json-file", plan, "--preserve-throttles").out
    assert "moving-1 is completed" in told
    assert "throttled.replicas" in shell.done(*configs).out
    told = shell.done(*tool, "--verify", "--reassignment-json-file", plan).out
    cleared = "Clearing broker-level throttles on broker 1\nClearing topic-level throttles on topic moving\n"
    assert told.endswith(f".\n\n{cleared}")
    assert "throttled.replicas" not in shell.done(*configs).out
    plan.write_text('{"partitions": [{"topic": "moving", "partition": 0, "replicas": [1, 9]}]}')
    told = shell.done(*tool, "--verify", "--reassignment-json-file", plan).out
    assert "Warning: not cleared on broker 9, away now: run --verify again when back.\n" in told
    plan.write_text('{"partitions": [{"topic": "moving"}]}')
    assert "replicas" in shell.refused(*tool, "--execute", "--reassignment-json-file", plan)


def test_a_throttle_applies_to_sources_and_new_replicas() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 10)
    now = {first: (1, 2), second: (1, 2, 3)}
    planned = moves(now, {second: (3,)}, {first: [2, 4], second: [3, 5]})
    assert planned == {first: ((1, 2), (4,)), second: ((1, 2), (3, 5))}
    assert topic_settings(planned) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2,10:1,10:2",
            "follower.replication.throttled.replicas": "0:4,10:3,10:5",
        }
    }


@pytest.mark.parametrize(
    ("now", "goes_on", "text"),
    [
        ([1, 2], False, "Reassignment of partition t-0 is completed.\n"),
        ([1, 2], True, "Reassignment of partition t-0 is still in progress.\n"),
        (
            [3],
            False,
            "There is no active reassignment of partition t-0, but replica set is 3 rather than 1,2.\n",
        ),
    ],
)
def test_the_state_of_a_reassignment_is_shown_in_kafkas_words(now: list[int], goes_on: bool, text: str) -> None:
    assert status("t-0", [1, 2], now, goes_on) == text


def test_leaders_that_lead_already_do_not_fail_the_election(at: tuple[Shell, str, str]) -> None:
    shell, *where = at
    shell.done("topic", "create", "led", "-b", where[1])
    elect = ("kafka-leader-election", *where, "--election-type", "preferred")
    assert shell.done(*elect, "--topic", "led", "--partition", 0).out == (
        "Valid replica already elected for partitions led-0\n"
    )
    assert "1 replica(s) could not be elected" in shell.refused(*elect, "--topic", "led", "--partition", 9)


@pytest.mark.nightly
def test_group_offsets_are_read_from_consumer_offsets(at: tuple[Shell, str, str]) -> None:
    shell, *where = at
    shell.done("topic", "create", "source", "-b", where[1])
    shell.done("produce", "source", "-b", where[1], "--value", "x")
    reset = ("--group", "seen", "--topic", "source", "--reset-offsets", "--to-latest", "--execute")
    shell.done("kafka-consumer-groups", *where, *reset)
    formatter = ("--formatter", "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter")
    ended = shell.done(
        *("kafka-console-consumer", *where, "--topic", "__consumer_offsets", "--from-beginning"),
        *("--timeout-ms", 3000, *formatter),
    )
    found = [each for each in ended.documents if each["key"]["data"]["group"] == "seen"]
    assert found[0]["key"] == {"type": 1, "data": {"group": "seen", "topic": "source", "partition": 0}}
    assert found[0]["value"]["data"]["offset"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("kafka-topics",),
        ("kafka-topics", "--list", "--create"),
        ("kafka-topics", "--create"),
        ("kafka-topics", "--delete", "--topic", "("),
        ("kafka-topics", "--list", "--zookeeper", "x:2181"),
        ("kafka-topics", "--alter", "--topic", "t", "--config", "a=b"),
        ("kafka-topics", "--create", "--topic", "t", "--replica-assignment", "1:1"),
        ("kafka-topics", "--list", "--command-config", "not-there.properties"),
        ("kafka-console-producer",),
        ("kafka-console-producer", "--topic", "t", "--line-reader", "com.example.Reader"),
        ("kafka-console-producer", "--topic", "t", "--property", "headers.separator=:"),
        ("kafka-console-consumer",),
        ("kafka-console-consumer", "--topic", "t", "--offset", "5"),
        ("kafka-console-consumer", "--topic", "t", "--partition", "0", "--group", "g"),
        ("kafka-console-consumer", "--topic", "t", "--formatter", "com.example.Formatter"),
        ("kafka-console-consumer", "--topic", "t", "--property", "key.deserializer=com.example.Avro"),
        ("kafka-configs", "--describe"),
        ("kafka-configs", "--alter", "--topic", "t"),
        ("kafka-configs", "--describe", "--broker", "one"),
        ("kafka-get-offsets", "--time", "yesterday"),
        ("kafka-get-offsets", "--time", "-6"),
        ("kafka-get-offsets", "--topic", "t", "--topic-partitions", "t:0"),
        ("kafka-get-offsets", "--topic-partitions", "t:0:1"),
        ("kafka-log-dirs",),
        ("kafka-log-dirs", "--describe", "--broker-list", "x"),
        ("kafka-leader-election", "--election-type", "preferred"),
        ("kafka-reassign-partitions", "--generate"),
        ("kafka-reassign-partitions", "--execute"),
        ("kafka-reassign-partitions", "--list", "--throttle", "5"),
        ("kafka-producer-perf-test", "--topic", "t", "--num-records", "5"),
        ("kafka-consumer-groups", "--describe"),
        ("kafka-consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t", "--by-duration", "1h"),
        ("kafka-consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t"),
        ("kafka-consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", "x"),
    ],
)
def test_misuse_exits_2(words: tuple[str, ...]) -> None:
    Shell("127.0.0.1:1").refused(*words, code=2)
