"""Kafka's own command line tools do their work without an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.clients.streams import kcat
from conformance.conftest import NewTopic
from harness.peers import Java
from harness.servers.brokers import Broker
from harness.waiting import until

TOOLS = "org.apache.kafka.tools"
Tool = Callable[..., str]


@pytest.fixture
def tool(java: Java, broker: Broker) -> Tool:
    """Runs a tool of Kafka's against the shared broker: ``tool("TopicCommand", "--list")``."""

    def run(name: str, *arguments: str, **options: object) -> str:
        return java(f"{TOOLS}.{name}", "--bootstrap-server", broker.bootstrap, *arguments, **options)  # type: ignore[arg-type]

    return run


def write_lines(broker: Broker, topic: str, count: int, tmp_path: Path, partition: int = 0) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {number}\n" for number in range(count)))
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-p", str(partition), "-X", "acks=all", stdin=path)


def consume_in_group(broker: Broker, topic: str, group: str, count: int) -> None:
    kcat(
        *("-b", broker.bootstrap, "-X", "auto.offset.reset=earliest", "-q", "-c", str(count)),
        *("-G", group, topic),
    )


def test_topic_command_creates_lists_describes_alters_and_deletes(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=7")
    assert "orders" in tool("TopicCommand", "--list").split()
    described = tool("TopicCommand", "--describe", "--topic", "orders")
    assert "PartitionCount: 3" in described
    assert "retention.ms=7" in described
    assert len(re.findall(r"Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3
    tool("TopicCommand", "--alter", "--topic", "orders", "--partitions", "5")
    assert "PartitionCount: 5" in tool("TopicCommand", "--describe", "--topic", "orders")
    tool("TopicCommand", "--delete", "--topic", "orders")
    assert "orders" not in tool("TopicCommand", "--list").split()


@pytest.mark.parametrize("option", ["--under-replicated-partitions", "--unavailable-partitions"])
def test_topic_command_finds_no_unhealthy_partition(tool: Tool, topic: str, option: str) -> None:
    assert topic not in tool("TopicCommand", "--describe", option)


def test_topic_command_says_why_a_name_is_refused(java: Java, broker: Broker) -> None:
    output = java(
        f"{TOOLS}.TopicCommand",
        *("--bootstrap-server", broker.bootstrap, "--create", "--topic", "a/b"),
        check=False,
    )
    assert "Error while executing topic command" in output


def test_config_command_alters_and_describes_a_topic(tool: Tool, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool("ConfigCommand", "--alter", *entity, "--add-config", "retention.ms=60000")
    described = tool("ConfigCommand", "--describe", *entity)
    assert "retention.ms=60000" in described
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=60000" in described
    every = tool("ConfigCommand", "--describe", *entity, "--all")
    assert "segment.bytes=1073741824" in every
    tool("ConfigCommand", "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms=60000" not in tool("ConfigCommand", "--describe", *entity)


@pytest.mark.parametrize("entity", [("--entity-name", "1"), ("--entity-default",)])
def test_config_command_alters_and_describes_brokers(tool: Tool, entity: tuple[str, ...]) -> None:
    brokers = ("--entity-type", "brokers", *entity)
    tool("ConfigCommand", "--alter", *brokers, "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tool("ConfigCommand", "--describe", *brokers)
    tool("ConfigCommand", "--alter", *brokers, "--delete-config", "log.cleaner.threads")
    assert "log.cleaner.threads=2" not in tool("ConfigCommand", "--describe", *brokers)


def test_config_command_describes_every_key_of_a_broker(tool: Tool) -> None:
    brokers = ("--entity-type", "brokers", "--entity-name", "1")
    described = tool("ConfigCommand", "--describe", *brokers, "--all")
    assert "log.segment.bytes=1073741824 sensitive=false" in described


def test_consumer_group_command_lists_describes_resets_and_deletes(
    tool: Tool, broker: Broker, topic: str, group: str, tmp_path: Path
) -> None:
    write_lines(broker, topic, 100, tmp_path)
    consume_in_group(broker, topic, group, 40)
    command = "consumer.group.ConsumerGroupCommand"
    assert group in tool(command, "--list").split()
    state = tool(command, "--describe", "--group", group, "--state")
    assert "Empty" in state
    described = tool(command, "--describe", "--group", group)
    line = next(line.split() for line in described.splitlines() if line.startswith(group))
    assert line[1:6] == [topic, "0", "40", "100", "60"]
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--execute")
    assert re.search(rf"{topic}\s+0\s+7", tool(command, *reset, "--to-offset", "7"))
    assert re.search(rf"{topic}\s+0\s+0", tool(command, *reset, "--to-earliest"))
    assert re.search(rf"{topic}\s+0\s+100", tool(command, *reset, "--to-latest"))
    assert "was successful" in tool(command, "--delete", "--group", group)
    assert group not in tool(command, "--list").split()


def test_consumer_group_command_deletes_the_offsets_of_one_topic(
    tool: Tool, broker: Broker, new_topic: NewTopic, group: str, tmp_path: Path
) -> None:
    kept, dropped = new_topic(), new_topic()
    for name in (kept, dropped):
        write_lines(broker, name, 5, tmp_path)
        consume_in_group(broker, name, group, 5)
    command = "consumer.group.ConsumerGroupCommand"
    deleted = tool(command, "--delete-offsets", "--group", group, "--topic", dropped)
    assert "Request succeeded for deleting offsets" in deleted
    described = tool(command, "--describe", "--group", group)
    assert kept in described
    assert dropped not in described


def test_consumer_group_command_describes_the_members_of_a_group(
    tool: Tool, java: Java, broker: Broker, topic: str, group: str
) -> None:
    consumer = java.start(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group),
    )
    row = re.compile(rf"{group}\s+console-consumer\S*\s+/127.0.0.1\s+console-consumer\s+1\s")
    arguments = ("--describe", "--group", group, "--members")
    try:
        until(
            lambda: row.search(tool("consumer.group.ConsumerGroupCommand", *arguments, check=False)),
            "a member with one partition",
        )
    finally:
        consumer.kill()
        consumer.communicate()


def test_get_offset_shell_shows_the_ends_of_every_partition(
    tool: Tool, broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    write_lines(broker, topic, 10, tmp_path, partition=1)
    assert tool("GetOffsetShell", "--topic", topic).split() == [f"{topic}:0:0", f"{topic}:1:10"]
    assert f"{topic}:1:0" in tool("GetOffsetShell", "--topic", topic, "--time", "earliest")
    newest = tool("GetOffsetShell", "--topic", topic, "--time", "max-timestamp")
    assert re.search(rf"^{topic}:1:\d$", newest, re.MULTILINE)


def test_console_producer_and_consumer_pass_keys_and_headers(tool: Tool, topic: str) -> None:
    properties = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    tool("ConsoleProducer", "--topic", topic, *properties, stdin="h:1\tk1\tv1\nh:2\tk2\tv2\n")
    shown = tool(
        *("consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "2"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--timeout-ms", "20000"),
    )
    assert shown == "h:1\tk1\tv1\nh:2\tk2\tv2\n"


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_producer_and_consumer_performance_run(tool: Tool, topic: str, acks: str, broker: Broker) -> None:
    produced = tool(
        *("ProducerPerformance", "--topic", topic, "--num-records", "20000", "--record-size", "1000"),
        *("--throughput", "-1", "--command-property", f"acks={acks}"),
    )
    assert "20000 records sent" in produced
    consumed = tool(
        *("ConsumerPerformance", "--topic", topic, "--num-records", "20000", "--timeout", "20000"),
    )
    assert consumed.splitlines()[-1].split(", ")[4] == "20000"


def test_verifiable_producer_and_consumer_agree(tool: Tool, java: Java, broker: Broker, topic: str) -> None:
    sent = _events(tool("VerifiableProducer", "--topic", topic, "--max-messages", "2000", "--acks", "-1"))
    acked = [event["value"] for event in sent if event["name"] == "producer_send_success"]
    assert len(acked) == 2000
    consumed = _events(
        tool(
            *("VerifiableConsumer", "--topic", topic, "--group-id", f"verifies-{topic}"),
            *("--max-messages", "2000", "--reset-policy", "earliest", "--verbose"),
        )
    )
    read = [event["value"] for event in consumed if event["name"] == "record_data"]
    assert read == acked
    assert not [event for event in consumed if event.get("success") is False]


def _events(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_delete_records_command_raises_the_log_start(
    tool: Tool, broker: Broker, topic: str, tmp_path: Path
) -> None:
    write_lines(broker, topic, 50, tmp_path)
    request = tmp_path / "delete.json"
    row = {"topic": topic, "partition": 0, "offset": 20}
    request.write_text(json.dumps({"partitions": [row], "version": 1}))
    deleted = tool("DeleteRecordsCommand", "--offset-json-file", str(request))
    assert f"partition: {topic}-0\tlow_watermark: 20" in deleted
    assert f"{topic}:0:20" in tool("GetOffsetShell", "--topic", topic, "--time", "earliest")


def test_log_dirs_command_shows_the_size_of_every_partition(
    tool: Tool, broker: Broker, topic: str, tmp_path: Path
) -> None:
    write_lines(broker, topic, 50, tmp_path)
    shown = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    report = json.loads(shown.splitlines()[-1])
    (directory,) = report["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(broker.log_dir)
    (row,) = directory["partitions"]
    assert row["partition"] == f"{topic}-0"
    assert row["size"] == (broker.partition_dir(topic) / f"{0:020}.log").stat().st_size
    assert row["offsetLag"] == 0


def test_broker_api_versions_command_knows_what_is_served(tool: Tool, broker: Broker) -> None:
    shown = tool("BrokerApiVersionsCommand")
    assert f"{broker.bootstrap} (id: 1 rack: " in shown
    assert re.search(r"Produce\(0\): 0 to 1\d \[usable: 1\d\]", shown)


def test_cluster_tool_shows_the_cluster_id(java: Java, broker: Broker) -> None:
    shown = java(f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", broker.bootstrap)
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", shown)


def test_cluster_tool_lists_the_broker(java: Java, broker: Broker) -> None:
    shown = java(f"{TOOLS}.ClusterTool", "list-endpoints", "--bootstrap-server", broker.bootstrap)
    assert re.search(rf"1\s+{broker.host}\s+{broker.port}", shown)


def test_leader_election_command_finds_the_preferred_leader_leading(tool: Tool, topic: str) -> None:
    shown = tool(
        *("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0"),
    )
    assert "already elected" in shown or "Successfully completed" in shown or "Valid replica" in shown


def test_java_consumer_leaves_its_group_at_its_end(
    tool: Tool, broker: Broker, topic: str, group: str, tmp_path: Path
) -> None:
    write_lines(broker, topic, 10, tmp_path)
    arguments = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "10")
    shown = tool("consumer.ConsoleConsumer", *arguments, "--timeout-ms", "20000")
    assert shown.count("line ") == 10
    assert "Empty" in tool("consumer.group.ConsumerGroupCommand", "--describe", "--group", group, "--state")


def test_console_producer_creates_the_topic_it_writes_to(tool: Tool, broker: Broker) -> None:
    tool("ConsoleProducer", "--topic", "made-by-writing", stdin="hello\n")
    assert "PartitionCount: 1\t" in tool("TopicCommand", "--describe", "--topic", "made-by-writing")


def test_tools_run_as_long_as_their_process(java: Java, broker: Broker, topic: str) -> None:
    """A tool that is stopped by SIGTERM ends its session with the broker, which forgets the connection."""
    producer = java.start(
        f"{TOOLS}.VerifiableProducer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--throughput", "100"),
    )
    assert producer.stdout is not None
    started = [producer.stdout.readline() for _ in range(5)]
    assert any("producer_send_success" in line for line in started)
    producer.terminate()
    assert producer.wait(20) == 143
    output, _ = producer.communicate()
    assert '"name":"shutdown_complete"' in output
