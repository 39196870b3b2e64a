"""S110: topics, groups, console producer and consumer from the command line; the options of Kafka's scripts.

Lines of Kafka's documents run unchanged. The tests compare our scripts' output with that of Kafka's own about the same
cluster.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.conftest import NewTopic
from conformance.data import batches
from conformance.drivers import java
from harness.clients import command_line
from harness.clients.command_line import COMMAND, Scripts, complaint
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

pytestmark = pytest.mark.nightly
TOOLS = "org.apache.kafka.tools"
ANSI = "\x1b["
Kafkas = Callable[..., str]
Run = Callable[..., str]


@pytest.fixture
def scripts(tmp_path: Path, broker: Broker) -> Scripts:
    """Returns the folder in which a reader of the documents works."""
    return Scripts(tmp_path / "kafka", broker.bootstrap)


@pytest.fixture
def run(broker: Broker) -> Run:
    """Runs a verb on the shared broker: ``run("topic", "list")`` is its stdout."""

    def call(*words: object, **options: object) -> str:
        return command_line.run(*words, "-b", broker.bootstrap, **options)  # type: ignore[arg-type]

    return call


@pytest.fixture
def kafkas(broker: Broker) -> Kafkas:
    """Returns what Kafka's own tool prints about the shared broker."""
    driver = java.opened()

    def call(main_class: str, *words: str) -> str:
        printed = driver.jvm.tool(f"{TOOLS}.{main_class}", "--bootstrap-server", broker.bootstrap, *words)
        # TopicCommand catches even its own exit.
        assert printed.code == 0 or "Ended: exit 0" in printed.errors, printed
        return printed.output

    return call


def rows(text: str) -> list[list[str]]:
    """Splits lines into words, because the width of a column does not matter."""
    return [line.split() for line in text.splitlines() if line.strip()]


def fill(broker: Broker, topic: str, count: int, partition: int = 0) -> None:
    with Wire(broker.address) as wire:
        wire.produce(topic, batches.batch([b"value %d" % number for number in range(count)]), partition)


# -- the documents' lines -----------------------------------------------------------------------------


def test_s110_the_quick_start_runs_as_it_is_written(scripts: Scripts) -> None:
    made = scripts("bin/kafka-topics.sh --create --topic quickstart-events --bootstrap-server localhost:9092")
    assert made == "Created topic quickstart-events.\n"
    described = scripts("bin/kafka-topics.sh --describe --topic quickstart-events --bootstrap-server localhost:9092")
    assert re.match(r"Topic: quickstart-events\s+TopicId: \S+\s+PartitionCount: 1\s+ReplicationFactor: 1", described)
    scripts(
        r'echo -e "This is my first event\nThis is my second event"'
        " | bin/kafka-console-producer.sh --topic quickstart-events --bootstrap-server localhost:9092"
    )
    read = scripts(
        "bin/kafka-console-consumer.sh --topic quickstart-events --from-beginning"
        " --bootstrap-server localhost:9092 --max-messages 2"
    )
    assert read == "This is my first event\nThis is my second event\n"


def test_s110_topics_are_created_altered_listed_and_deleted(scripts: Scripts) -> None:
    topics = "bin/kafka-topics.sh --bootstrap-server localhost:9092"
    scripts(f"{topics} --create --partitions 1 --replication-factor 1 --topic first")
    assert "first" in scripts(f"{topics} --list").split()
    scripts(f"{topics} --alter --topic first --partitions 3")
    assert "PartitionCount: 3" in scripts(f"{topics} --describe --topic first")
    scripts(f"{topics} --delete --topic first")
    assert "first" not in scripts(f"{topics} --list").split()


def test_s110_replicas_beyond_the_brokers_are_refused_with_the_reason(scripts: Scripts) -> None:
    line = "bin/kafka-topics.sh --bootstrap-server localhost:9092 --create --topic wide --replication-factor 4 2>&1"
    assert "INVALID_REPLICATION_FACTOR" in scripts(line, code=1)


def test_s110_the_console_writes_and_prints_keys_and_values(scripts: Scripts) -> None:
    scripts("bin/kafka-topics.sh --bootstrap-server localhost:9092 --create --topic keyed")
    scripts(
        r"printf 'h:1,g:2|k1:v1\n|k2:NULL\n' | bin/kafka-console-producer.sh --bootstrap-server localhost:9092"
        " --topic keyed --property parse.key=true --property key.separator=:"
        " --property parse.headers=true --property 'headers.delimiter=|' --property headers.key.separator==",
        code=1,
    )
    scripts(
        r"printf 'h=1,g=2|k1:v1\nNULL|k2:NULL\n' | bin/kafka-console-producer.sh --bootstrap-server localhost:9092"
        " --topic keyed --property parse.key=true --property key.separator=: --property null.marker=NULL"
        " --property parse.headers=true --property 'headers.delimiter=|' --property headers.key.separator=="
    )
    read = scripts(
        "bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic keyed --from-beginning"
        " --max-messages 2 --property print.key=true --property print.headers=true --property print.offset=true"
        " --property key.separator=';'"
    )
    assert read == "Offset:0;h:1,g:2;k1;v1\nOffset:1;NO_HEADERS;k2;null\n"


def test_s110_a_group_is_read_described_reset_and_deleted(
    scripts: Scripts, broker: Broker, topic: str, group: str
) -> None:
    fill(broker, topic, 10)
    read = scripts(
        f"bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic {topic} --group {group}"
        " --from-beginning --max-messages 4"
    )
    assert read.split("\n")[:-1] == [f"value {number}" for number in range(4)]
    groups = "bin/kafka-consumer-groups.sh --bootstrap-server localhost:9092"
    assert group in scripts(f"{groups} --list").split()
    assert rows(scripts(f"{groups} --describe --group {group}"))[1][:6] == [group, topic, "0", "4", "10", "6"]
    reset = f"{groups} --group {group} --topic {topic} --reset-offsets"
    assert rows(scripts(f"{reset} --to-earliest --dry-run"))[1] == [group, topic, "0", "0"]
    assert rows(scripts(f"{reset} --to-earliest --execute"))[1] == [group, topic, "0", "0"]
    assert rows(scripts(f"{groups} --describe --group {group}"))[1][3] == "0"
    assert rows(scripts(f"{reset} --shift-by 7 --execute"))[1][3] == "7"
    assert "successful" in scripts(f"{groups} --delete --group {group}")
    assert group not in scripts(f"{groups} --list").split()


def test_s110_the_documented_commands_measure_performance(scripts: Scripts, topic: str) -> None:
    sent = scripts(
        f"bin/kafka-producer-perf-test.sh --topic {topic} --record-size 100 --num-records 5000 --throughput -1"
        " --producer-props bootstrap.servers=localhost:9092 acks=1"
    )
    assert re.match(r"5000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg .* ms 99\.9th\.\n", sent)
    read = scripts(
        f"bin/kafka-consumer-perf-test.sh --bootstrap-server localhost:9092 --topic {topic}"
        " --messages 5000 --timeout 60000"
    )
    header, row = (line.split(", ") for line in read.splitlines())
    assert len(header) == len(row) == 10
    assert row[4] == "5000"


@pytest.mark.ours
def test_s110_the_documented_command_starts_a_broker(scripts: Scripts) -> None:
    folder = scripts.folder
    (folder / "config").mkdir()
    settings = f"process.roles=broker,controller\nnode.id=1\nlog.dirs={folder}/logs\nlisteners=PLAINTEXT://:9092\n"
    (folder / "config" / "server.properties").write_text(settings)
    line = "bin/kafka-server-start.sh config/server.properties --override listeners=PLAINTEXT://127.0.0.1:0"
    with subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=folder, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            ready = broker.stdout.readline()
            assert (found := re.match(r"pybroker ready: bootstrap=(\S+)", ready)), ready
            assert command_line.run("topic", "list", "-b", found[1]) == ""
        finally:
            broker.terminate()
        assert broker.wait(60) == 0
    assert (folder / "logs" / "meta.properties").exists()


def test_s110_errors_about_removed_kafka_options_name_the_replacement(scripts: Scripts) -> None:
    line = "bin/kafka-topics.sh --zookeeper localhost:2181 --list 2>&1"
    assert "say --bootstrap-server" in scripts(line, code=2)


# -- beside Kafka's own -------------------------------------------------------------------------------


def test_s110_topics_are_described_as_by_kafkas_own_tool(
    broker: Broker, kafkas: Kafkas, run: Run, new_topic: NewTopic
) -> None:
    topic = new_topic(3, retention_ms=77777, cleanup_policy="compact,delete")
    for words in (("--describe", "--topic", topic), ("--describe", "--topic", topic, "--at-min-isr-partitions")):
        assert run("kafka-topics", *words) == kafkas("TopicCommand", *words)


def test_s110_configurations_are_described_as_by_kafkas_own_tool(kafkas: Kafkas, run: Run, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    added = ("--add-config", "max.message.bytes=7000,cleanup.policy=[compact,delete]")
    assert run("kafka-configs", "--alter", *entity, *added) == f"Completed updating config for topic {topic}.\n"
    expected = kafkas("ConfigCommand", "--describe", *entity)
    assert "cleanup.policy=compact,delete" in expected
    assert run("kafka-configs", "--describe", *entity) == expected
    assert run("kafka-configs", "--describe", "--all", "--topic", topic) == kafkas(
        "ConfigCommand", "--describe", *entity, "--all"
    )


def test_s110_groups_are_described_as_by_kafkas_own_tool(
    broker: Broker, kafkas: Kafkas, run: Run, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(2)
    fill(broker, topic, 10, 1)
    tool = "consumer.group.ConsumerGroupCommand"
    reset = ("--group", group, "--topic", topic, "--reset-offsets", "--to-offset", "3")
    assert sorted(rows(run("kafka-consumer-groups", *reset))) == sorted(rows(kafkas(tool, *reset, "--dry-run")))
    run("kafka-consumer-groups", *reset, "--execute")
    words = ("--describe", "--group", group)
    ours = [row[:9] for row in rows(run("kafka-consumer-groups", *words))]
    theirs = [row[:9] for row in rows(kafkas(tool, *words)) if row[:2] != ["Consumer", "group"]]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize(
    "words",
    [
        ("--time", "earliest"),
        ("--time", "-1"),
        ("--time", "max-timestamp"),
        ("--topic-partitions", "{topic}:1-,{topic}:0"),
    ],
)
def test_s110_offsets_are_shown_as_by_kafkas_own_tool(
    broker: Broker, kafkas: Kafkas, run: Run, new_topic: NewTopic, words: tuple[str, str]
) -> None:
    topic = new_topic(3)
    fill(broker, topic, 5, 1)
    chosen = [word.format(topic=topic) for word in words]
    if words[0] != "--topic-partitions":
        chosen += ["--topic", topic]
    found = run("kafka-get-offsets", *chosen)
    assert found == kafkas("GetOffsetShell", *chosen)
    assert f"{topic}:1:" in found


def test_s110_log_dirs_are_shown_as_by_kafkas_own_tool(broker: Broker, kafkas: Kafkas, run: Run, topic: str) -> None:
    fill(broker, topic, 5)
    words = ("--describe", "--topic-list", topic)
    ours, theirs = run("kafka-log-dirs", *words), kafkas("LogDirsCommand", *words)
    assert json.loads(ours.splitlines()[-1]) == json.loads(theirs.splitlines()[-1])


def test_s110_api_versions_are_shown_as_by_kafkas_own_tool(kafkas: Kafkas, run: Run) -> None:
    theirs = re.findall(r"(?m)^\t\w+\((\d+)\): ([\d to]+) \[usable: ", kafkas("BrokerApiVersionsCommand"))
    ours = re.findall(r"(?m)^\t\w+\((\d+)\): ([\d to]+) \[", run("kafka-broker-api-versions"))
    assert len(theirs) > 40
    assert set(theirs) <= set(ours)


def test_s110_our_console_and_kafkas_own_read_each_others_records(
    broker: Broker, kafkas: Kafkas, run: Run, new_topic: NewTopic, flights: Path
) -> None:
    lines = "".join(flights.read_text().splitlines(keepends=True)[:2000])
    here, there = new_topic(), new_topic()
    run("kafka-console-producer", "--topic", here, "--compression-codec", "zstd", stdin=lines)
    shown = ("--from-beginning", "--max-messages", "2000", "--formatter-property", "print.timestamp=true")
    theirs = kafkas("consumer.ConsoleConsumer", "--topic", here, *shown)
    assert re.sub(r"(?m)^CreateTime:\d+\t", "", theirs) == lines
    assert run("kafka-console-consumer", "--topic", here, *shown) == theirs
    sent = java.opened().jvm.tool(
        f"{TOOLS}.ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", there, stdin=lines
    )
    assert sent.code == 0, sent
    assert run("kafka-console-consumer", "--topic", there, "--from-beginning", "--max-messages", "2000") == lines


def test_s110_log_files_are_shown_as_by_kafkas_own_tool(broker: Broker, topic: str) -> None:
    driver = java.opened()
    for codec in range(5):
        with Wire(broker.address) as wire:
            keyed = [batches.Record(b"v" * 100, b"k%d" % number, headers=(("h", b"1"),)) for number in range(50)]
            wire.produce(topic, batches.batch(keyed, codec=codec))
    files = sorted(broker.partition_dir(topic).glob("0*.log"))
    for words in (("--print-data-log",), ("--deep-iteration",), ("--print-data-log", "--skip-record-metadata"), ()):
        options = (*words, "--files", ",".join(map(str, files)))
        theirs = driver.jvm.tool(f"{TOOLS}.DumpLogSegments", *options).output.splitlines()
        ours = command_line.run("kafka-dump-log", *options).splitlines()
        assert ours == [line.rstrip() for line in theirs]


# -- the verbs ----------------------------------------------------------------------------------------


def test_s110_produce_reads_the_json_lines_that_consume_writes(broker: Broker, run: Run, new_topic: NewTopic) -> None:
    here, there = new_topic(2), new_topic(2)
    for partition, text in ((0, "k1:v1\n:v2\n"), (1, "k3:ü\n")):
        run("produce", here, "-p", partition, "-K", ":", "-Z", "-H", "h=x", stdin=text)
    command, address = " ".join(COMMAND), f"-b {broker.bootstrap}"
    reads = f"{command} consume {here} --from-beginning --to end -o jsonl {address}"
    line = f"{reads} | {command} produce {there} -o jsonl {address}"
    subprocess.run(["bash", "-o", "pipefail", "-c", line], check=True, timeout=120)
    first, second = (run("consume", each, "--from-beginning", "--to", "end", "-o", "jsonl") for each in (here, there))
    assert first.count("\n") == 3
    assert sorted(first.replace(f'"{here}"', f'"{there}"').splitlines()) == sorted(second.splitlines())


def test_s110_a_closed_pipe_ends_a_consumer_without_output(broker: Broker, topic: str) -> None:
    fill(broker, topic, 20_000)
    line = f"{' '.join(COMMAND)} consume {topic} --from-beginning -b {broker.bootstrap} | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=120, check=False)
    assert done.stdout == b"value 0\n"
    assert done.stderr == b""


def test_s110_colours_are_used_only_on_terminals(broker: Broker, run: Run, topic: str) -> None:
    assert ANSI not in run("topic", "list")
    ours, theirs = pty.openpty()
    command = [*COMMAND, "topic", "list", "-b", broker.bootstrap]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "1000"}
    environment.pop("NO_COLOR", None)
    done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text = b"".join(_until_closed(ours)).decode()
    assert done.wait(60) == 0
    assert topic in text
    assert ANSI in text


def _until_closed(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux raises this when the other end is closed.
            break
        if not data:
            break
        yield data
    os.close(terminal)


def test_s110_exit_codes_distinguish_failure_from_wrong_usage(broker: Broker, topic: str) -> None:
    at = ("-b", broker.bootstrap)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in complaint("topic", "describe", "not-there", *at)
    assert "no such verb: did you mean 'list'?" in complaint("topic", "lisst", *at, code=2)
    assert "--from" in complaint("consume", topic, "--from", "yesterday", *at, code=2)


def test_s110_a_terminated_consumer_commits_the_records_that_it_printed(
    broker: Broker, run: Run, topic: str, group: str
) -> None:
    fill(broker, topic, 5)
    command = [*COMMAND, "consume", topic, "-g", group, "--from-beginning", "-b", broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(5)][-1] == "value 4\n"
        fill(broker, topic, 1)  # When it shows this, it has polled again: the five are done.
        assert consumer.stdout.readline() == "value 0\n"
        consumer.terminate()
        assert consumer.wait(60) == 143
    until(
        lambda: json.loads(run("group", "describe", group, "-o", "json"))[0]["offsets"][0]["committed"] in (5, 6),
        "what was shown before the last poll is committed",
    )
