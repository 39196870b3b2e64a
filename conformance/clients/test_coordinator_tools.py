"""Runs Kafka's tools for what coordinators keep: groups of both protocols, transactions, features, internal topics.

The tools and the Java clients that give them something to show share one JVM.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from conformance import drivers
from conformance.conftest import QUICK_GROUPS
from conformance.data import batches
from conformance.drivers import java
from conformance.drivers.base import Consumer, Place, Record
from conformance.drivers.java import JavaDriver, JavaProducer
from harness.clients.jvm import Printed
from harness.clients.librdkafka import write
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

TOOLS = "org.apache.kafka.tools"
GROUPS = "consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "TransactionsCommand"
FEATURES = "FeatureCommand"
METADATA = "metadata.version"
Tool = Callable[..., Printed]
WAIT_S = 90


@pytest.fixture(scope="module")
def java_clients() -> Iterator[JavaDriver]:
    yield java.opened()
    drivers.close_all()


@pytest.fixture(scope="module")
def own(broker_kind: type[Broker], data_root: Path) -> Iterator[Broker]:
    """Starts a broker for this module. It lets a transaction hang, and its internal topics are read whole."""
    config = {
        "transaction.partition.verification.enable": "false",
        "offsets.topic.num.partitions": "3",
        "group.consumer.min.heartbeat.interval.ms": "300",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    with broker_kind(data_root / "coordinator-tools", **{**QUICK_GROUPS, **config}) as started:
        yield started


@pytest.fixture
def tool(java_clients: JavaDriver, own: Broker) -> Tool:
    """Runs a tool and expects it to succeed: ``tool("FeatureCommand", "describe")``; ``code=1``: to fail."""

    def run(name: str, *arguments: str, code: int = 0) -> Printed:
        printed = java_clients.jvm.tool(f"{TOOLS}.{name}", "--bootstrap-server", own.bootstrap, *arguments)
        assert printed.code == code, printed
        assert "Exception" not in printed.errors, printed
        return printed

    return run


def has_committed(consumer: Consumer, offsets: Mapping[Place, int]) -> bool:
    return consumer.committed(offsets) == offsets


def table(printed: Printed) -> list[dict[str, str]]:
    """Returns the rows of a tool's table by its column names. Cells hold no blanks."""
    lines = [line.split() for line in printed.output.splitlines() if line.strip()]
    head = next((place for place, row in enumerate(lines) if "GROUP" in row or row[0][0].isupper()), 0)
    return [dict(zip(lines[head], row, strict=False)) for row in lines[head + 1 :]] if lines else []


class Members:
    """Two consumers of one group that have read and committed a topic of three partitions."""

    def __init__(self, clients: JavaDriver, broker: Broker, protocol: str) -> None:
        self.protocol = protocol
        self.group = f"{protocol}-{time.monotonic_ns()}"
        self.topic = f"topic-{self.group}"
        with Wire(broker.address) as wire:
            wire.create_topic(self.topic, 3)
        for partition in range(3):
            write(broker, self.topic, [b"%d" % number for number in range(10)], partition=partition)
        settings = {"group_id": self.group, "group_protocol": protocol, "heartbeat_interval_ms": 300}
        self.consumers: list[Consumer] = []
        try:
            for number in range(2):
                made = clients.consumer(broker.bootstrap, client_id=f"client-{number}", **settings)
                self.consumers.append(made)
                made.subscribe([self.topic])
            self._read()
        except BaseException:
            self.leave()
            raise

    def _read(self) -> None:
        """Reads until each has a partition or two, and all records are read and committed."""
        read: set[tuple[Place, int]] = set()

        def settled() -> bool:
            for consumer in self.consumers:
                found: list[Record] = consumer.poll(0.1)
                read.update((record.place, record.offset) for record in found)
            held = [len(consumer.assignment()) for consumer in self.consumers]
            return sorted(held) == [1, 2] and len(read) == 30

        until(settled, "both members at work", WAIT_S)
        self.commit()

    def commit(self) -> None:
        for consumer in self.consumers:
            consumer.commit({place: 10 for place in consumer.assignment()})

    def leave(self) -> None:
        for consumer in self.consumers:
            consumer.close()


@pytest.fixture(scope="module", params=["classic", "consumer"])
def members(request: pytest.FixtureRequest, java_clients: JavaDriver, own: Broker) -> Iterator[Members]:
    made = Members(java_clients, own, request.param)
    yield made
    made.leave()


def test_groups_are_listed_with_type_and_state(tool: Tool, members: Members) -> None:
    assert members.group in tool(GROUPS, "--list").output.split()
    assert members.group in tool(GROUPS, "--list", "--type", members.protocol).output.split()
    rows = {row["GROUP"]: row for row in table(tool(GROUPS, "--list", "--state", "Stable", "--type"))}
    assert rows[members.group]["TYPE"].lower() == members.protocol
    assert rows[members.group]["STATE"] == "Stable"
    other = {"classic": "consumer", "consumer": "classic"}[members.protocol]
    assert members.group not in tool(GROUPS, "--list", "--type", other).output.split()


def test_a_group_is_described_by_its_offsets(tool: Tool, members: Members) -> None:
    rows = table(tool(GROUPS, "--describe", "--group", members.group, "--offsets"))
    assert sorted((row["TOPIC"], row["PARTITION"]) for row in rows) == [(members.topic, str(n)) for n in range(3)]
    assert {(row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in rows} == {("10", "10", "0")}
    assert {row["CLIENT-ID"] for row in rows} == {"client-0", "client-1"}
    assert {row["HOST"] for row in rows} == {"/127.0.0.1"}


def test_a_group_is_described_by_its_members(tool: Tool, members: Members) -> None:
    rows = table(tool(GROUPS, "--describe", "--group", members.group, "--members"))
    assert sorted((row["CLIENT-ID"], row["#PARTITIONS"]) for row in rows) in (
        [("client-0", "1"), ("client-1", "2")],
        [("client-0", "2"), ("client-1", "1")],
    )
    printed = tool(GROUPS, "--describe", "--group", members.group, "--members", "--verbose").output
    assert printed.count(f"{members.topic}:") == (2 if members.protocol == "classic" else 4), printed


def test_a_group_is_described_by_its_state(tool: Tool, members: Members) -> None:
    printed = tool(GROUPS, "--describe", "--group", members.group, "--state").output
    strategy = {"classic": "range", "consumer": "uniform"}[members.protocol]
    assert re.search(rf"{members.group}\s+127.0.0.1:\d+\s+\(1\)\s+{strategy}\s+Stable\s+2\b", printed), printed


def test_offsets_of_an_active_group_cannot_be_reset_or_deleted(tool: Tool, members: Members) -> None:
    asked = ("--group", members.group, "--topic", members.topic)
    refused = tool(GROUPS, "--reset-offsets", *asked, "--to-earliest", "--execute")
    assert "is inactive, but the current state is Stable" in refused.output
    deleted = tool(GROUPS, "--delete-offsets", *asked)
    assert "GroupSubscribedToTopicException" in deleted.output, deleted
    assert "is not empty" in tool(GROUPS, "--delete", "--group", members.group).output


def test_an_empty_group_is_reset_loses_offsets_and_is_deleted(tool: Tool, members: Members) -> None:
    """This must be the last test of a group, because its members leave."""
    members.leave()
    asked = ("--group", members.group, "--topic", members.topic)
    until(lambda: "Empty" in tool(GROUPS, "--describe", "--group", members.group, "--state").output, "empty", WAIT_S)

    def reset(*how: str) -> set[str]:
        return {row["NEW-OFFSET"] for row in table(tool(GROUPS, "--reset-offsets", *asked, *how, "--execute"))}

    assert reset("--to-offset", "7") == {"7"}
    assert reset("--shift-by", "-2") == {"5"}
    assert reset("--by-duration", "P1D") == {"0"}
    assert reset("--to-latest") == {"10"}
    assert reset("--to-earliest") == {"0"}
    rows = table(tool(GROUPS, "--describe", "--group", members.group, "--offsets"))
    assert {row["CURRENT-OFFSET"] for row in rows} == {"0"}
    deleted = tool(GROUPS, "--delete-offsets", "--group", members.group, "--topic", f"{members.topic}:0,1")
    assert "Request succeeded" in deleted.output, deleted
    rows = table(tool(GROUPS, "--describe", "--group", members.group, "--offsets"))
    assert [row["PARTITION"] for row in rows] == ["2"]
    assert "was successful" in tool(GROUPS, "--delete", "--group", members.group).output
    assert members.group not in tool(GROUPS, "--list").output.split()


def begun(clients: JavaDriver, broker: Broker, name: str, topics: Sequence[str]) -> JavaProducer:
    """Returns a producer inside a transaction with one record in each topic."""
    producer = clients.producer(broker.bootstrap, transactional_id=name)
    producer.init_transactions()
    producer.begin()
    for topic in topics:
        producer.send(topic, b"x")
    producer.flush()
    return producer


def state_of(tool: Tool, transactional_id: str) -> dict[str, str]:
    (row,) = table(tool(TRANSACTIONS, "describe", "--transactional-id", transactional_id))
    return row


def test_transactions_are_listed_and_described(tool: Tool, java_clients: JavaDriver, own: Broker) -> None:
    with begun(java_clients, own, "orders-1", ["orders", "payments"]) as producer:
        rows = {row["TransactionalId"]: row for row in table(tool(TRANSACTIONS, "list"))}
        assert rows["orders-1"]["TransactionState"] == "Ongoing"
        row = state_of(tool, "orders-1")
        assert row["ProducerId"] == rows["orders-1"]["ProducerId"]
        assert (row["CoordinatorId"], row["TransactionState"]) == ("1", "Ongoing")
        assert sorted(row["TopicPartitions"].split(",")) == ["orders-0", "payments-0"]
        assert int(row["CurrentTransactionStartTimeMs"]) > 0
        producer.commit()
        until(lambda: state_of(tool, "orders-1")["TransactionState"] == "CompleteCommit", "the end", WAIT_S)
    assert not table(tool(TRANSACTIONS, "list", "--transactional-id-pattern", "payments-.*"))
    found = table(tool(TRANSACTIONS, "list", "--transactional-id-pattern", "orders-[0-9]"))
    assert [row["TransactionalId"] for row in found] == ["orders-1"]
    assert "orders-1" not in tool(TRANSACTIONS, "list", "--duration-filter", "3600000").output


def test_an_unknown_transactional_id_is_not_described(tool: Tool) -> None:
    printed = tool(TRANSACTIONS, "describe", "--transactional-id", "nobody's", code=1)
    assert "the ID could not be found" in printed.errors


def test_a_transaction_is_ended_by_force_and_its_producer_fenced(
    tool: Tool, java_clients: JavaDriver, own: Broker
) -> None:
    with begun(java_clients, own, "forced", ["forced"]):
        tool(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", "forced")
        until(lambda: state_of(tool, "forced")["TransactionState"] != "Ongoing", "the end", WAIT_S)
        with Wire(own.address) as wire:
            until(lambda: wire.offset("forced", -1, isolation_level=1).offset == 2, "the marker", WAIT_S)


def hanging(broker: Broker, topic: str) -> None:
    """Leaves a transactional batch from a year ago whose transaction no coordinator knows."""
    old = batches.now_ms() - 365 * 86_400_000
    with Wire(broker.address) as wire:
        wire.create_topic(topic)
        fields = batches.Fields(producer_id=987_654, producer_epoch=3, base_sequence=0)
        batch = batches.batch([b"x"], attributes=batches.TRANSACTIONAL, base_timestamp=old, **fields)
        data = {"name": topic, "partition_data": [{"index": 0, "records": batch}]}
        reply = wire.ask("Produce", 9, transactional_id="lost", acks=-1, timeout_ms=30_000, topic_data=[data])
        assert reply.responses[0].partition_responses[0].error_code == 0, reply


def test_producers_of_a_partition_are_described(tool: Tool, java_clients: JavaDriver, own: Broker) -> None:
    asked = (TRANSACTIONS, "describe-producers", "--topic", "described", "--partition", "0")
    with begun(java_clients, own, "describing", ["described"]) as producer:
        (row,) = table(tool(*asked))
        assert row["ProducerId"] == state_of(tool, "describing")["ProducerId"]
        assert (row["LastSequence"], row["CurrentTransactionStartOffset"]) == ("0", "0")
        producer.commit()

        def ended() -> bool:
            (row,) = table(tool(*asked))
            return row["CurrentTransactionStartOffset"] == "None"

        until(ended, "the marker", WAIT_S)


def test_a_hanging_transaction_is_found_and_aborted(tool: Tool, own: Broker) -> None:
    hanging(own, "hangs")
    (row,) = table(tool(TRANSACTIONS, "find-hanging", "--broker-id", "1"))
    assert (row["Topic"], row["Partition"], row["ProducerId"], row["ProducerEpoch"]) == ("hangs", "0", "987654", "3")
    assert row["StartOffset"] == "0"
    with Wire(own.address) as wire:
        assert wire.offset("hangs", -1, isolation_level=1).offset == 0
        tool(TRANSACTIONS, "abort", "--topic", "hangs", "--partition", "0", "--start-offset", "0")
        until(lambda: wire.offset("hangs", -1, isolation_level=1).offset == 2, "the marker", WAIT_S)
    assert not table(tool(TRANSACTIONS, "find-hanging", "--topic", "hangs"))


def finalized(tool: Tool) -> dict[str, str]:
    printed = tool(FEATURES, "describe").output
    return dict(re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)", printed))


def test_features_are_described(tool: Tool) -> None:
    levels = finalized(tool)
    assert (levels["transaction.version"], levels["group.version"], levels[METADATA]) == ("2", "1", "4.4-IV2")
    printed = tool(FEATURES, "describe", "--node-id", "1").output
    row = r"transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2\s+"
    assert re.search(row + r"Epoch: \d+", printed), printed


def test_features_are_downgraded_and_upgraded(tool: Tool) -> None:
    tried = tool(FEATURES, "downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert "transaction.version can be downgraded to 1." in tried.output
    assert finalized(tool)["transaction.version"] == "2"
    done = tool(FEATURES, "downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was downgraded to 1." in done.output
    until(lambda: finalized(tool)["transaction.version"] == "1", "the lower level", WAIT_S)
    assert "was upgraded to 2." in tool(FEATURES, "upgrade", "--feature", "transaction.version=2").output
    until(lambda: finalized(tool)["transaction.version"] == "2", "the higher level", WAIT_S)


@pytest.mark.parametrize(
    ("change", "release", "level"), [("downgrade", "4.3", "4.3-IV0"), ("upgrade", "4.4", "4.4-IV2")]
)
def test_a_cluster_follows_a_release(tool: Tool, change: str, release: str, level: str) -> None:
    tool(FEATURES, change, "--release-version", release)
    until(lambda: finalized(tool)[METADATA] == level, f"the level of {release}", WAIT_S)
    assert finalized(tool)["transaction.version"] == "2"


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("beyond the supported", ("upgrade", "--feature", "transaction.version=9")),
        ("down by an upgrade", ("upgrade", "--feature", "transaction.version=1")),
        ("an unknown feature", ("upgrade", "--feature", "no.such.feature=1")),
    ],
)
def test_a_wrong_change_of_features_is_refused(tool: Tool, what: str, arguments: tuple[str, ...]) -> None:
    printed = tool(FEATURES, *arguments, code=1)
    assert "Could not upgrade" in printed.output, (what, printed)
    assert finalized(tool)["transaction.version"] == "2"


def dumped(clients: JavaDriver, broker: Broker, topic: str, decoder: str) -> list[str]:
    """Returns the records of an internal topic as the decoder prints them."""
    files = [str(path) for path in sorted(broker.log_dir.glob(f"{topic}-*/*.log")) if path.stat().st_size]
    assert files
    shown = clients.jvm.tool(f"{TOOLS}.DumpLogSegments", decoder, "--files", ",".join(files))
    assert shown.code == 0, shown
    assert "Exception" not in shown.errors, shown
    assert "isvalid: false" not in shown.output
    return [line for line in shown.output.splitlines() if line.startswith("|")]


def test_the_transaction_log_decodes_to_every_step_of_a_transaction(
    java_clients: JavaDriver, own: Broker, tool: Tool
) -> None:
    with begun(java_clients, own, "dumped", ["dumped"]) as producer:
        producer.commit()
        until(lambda: state_of(tool, "dumped")["TransactionState"] == "CompleteCommit", "the end", WAIT_S)
    lines = dumped(java_clients, own, "__transaction_state", "--transaction-log-decoder")
    rows = [line for line in lines if '"transactionalId":"dumped"' in line]
    states = [found for line in rows for found in re.findall(r'"transactionStatus":"(\w+)"', line)]
    assert states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"], rows
    assert '"topic":"dumped","partitionIds":[0]' in rows[1], rows[1]


def test_kafkas_decoder_reads_the_records_of_the_offsets_topic(
    java_clients: JavaDriver, own: Broker
) -> None:
    for protocol in ("classic", "consumer"):
        made = Members(java_clients, own, protocol)
        try:
            producer = java_clients.producer(own.bootstrap, transactional_id=f"offsets-{protocol}")
            producer.init_transactions()
            producer.begin()
            place = min(made.consumers[0].assignment())
            producer.send_offsets(made.consumers[0], {place: 4})
            producer.commit()
            until(partial(has_committed, made.consumers[0], {place: 4}), "the offset", WAIT_S)
        finally:
            made.leave()
            producer.close()
        lines = dumped(java_clients, own, "__consumer_offsets", "--offsets-decoder")
        mine = [line for line in lines if f'"{made.group}"' in line]
        kinds = {int(kind) for line in mine for kind in re.findall(r'key: \{"type":"(\d+)"', line)}
        assert kinds >= ({1, 2} if protocol == "classic" else {1, 3, 5, 6, 7, 8}), kinds
        assert any('"offset":4' in line for line in mine)
    assert any("endTxnMarker: COMMIT" in line for line in lines)
