"""ApiVersions, topics and configuration, frame by frame: semantics 1–3 and 38–40, case 52."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from conformance.conftest import NewTopic
from conformance.data import batches
from harness.protocol import error_codes, kinds
from harness.protocol.error_codes import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
)
from harness.protocol.wire_client import Wire, framed, request_header
from harness.servers.brokers import Broker
from harness.waiting import until


def test_semantic_01_an_unsupported_version_of_api_versions_is_answered_in_v0_form(wire: Wire) -> None:
    """The broker does not read the body; its answer names only key 18."""
    wire.send(framed(request_header(18, 99, 7) + b"\0whatever this is"))
    reply = wire.receive()
    correlation_id, error, count, key, lowest, highest = struct.unpack(">ihihhh", reply)
    assert (correlation_id, error, count, key, lowest) == (7, 35, 1, 18, 0)
    assert highest >= 4
    assert wire.versions()


@pytest.mark.parametrize("version", [3, 4])
def test_semantic_02_the_header_of_an_api_versions_reply_has_no_tags(wire: Wire, version: int) -> None:
    wire.post("ApiVersions", version, client_software_name="raw", client_software_version="1")
    reply = wire.receive()
    correlation_id, error, count = struct.unpack_from(">ihB", reply)
    assert (correlation_id, error) == (1, 0)
    assert count > 30
    assert struct.unpack_from(">h", reply, 7) in [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize("name", ["", "-x", "a b", "näme"])
def test_semantic_03_client_software_names_with_invalid_characters_are_refused(wire: Wire, name: str) -> None:
    fields = {"client_software_name": name, "client_software_version": "1.0"}
    wire.post("ApiVersions", 3, **fields)
    reply = wire.receive()
    assert struct.unpack_from(">ih", reply)[1] == INVALID_REQUEST


def test_the_advertised_api_versions_satisfy_every_known_client(wire: Wire) -> None:
    """The ranges that librdkafka, Java, kafka-go, sarama, aiokafka and kafka-python need, by API key."""
    needed = {0: (0, 11), 1: (4, 12), 2: (1, 7), 3: (0, 9), 8: (2, 8), 9: (1, 8), 10: (0, 4), 11: (0, 7)}
    needed |= {12: (0, 4), 13: (0, 4), 14: (0, 5), 15: (0, 5), 16: (0, 4), 18: (0, 4), 19: (2, 7)}
    needed |= {20: (1, 6), 21: (0, 2), 22: (0, 4), 23: (2, 3), 32: (1, 4), 33: (0, 2), 37: (0, 3), 42: (0, 2)}
    found = wire.versions()
    short = {key: found.get(key) for key, row in needed.items() if not _covers(found.get(key), row)}
    assert not short


def _covers(found: tuple[int, int] | None, needed: tuple[int, int]) -> bool:
    return found is not None and found[0] <= needed[0] and found[1] >= needed[1]


def config_rows(*rows: tuple[str, int, str | None]) -> list[dict[str, Any]]:
    return [{"name": name, "config_operation": kind, "value": value} for name, kind, value in rows]


def alter(wire: Wire, topic: str, *rows: tuple[str, int, str | None], validate_only: bool = False) -> int:
    """Sends an incremental change and returns its error code."""
    resource = {"resource_type": kinds.Resource.TOPIC, "resource_name": topic, "configs": config_rows(*rows)}
    reply = wire.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=validate_only)
    return int(reply.responses[0].error_code)


def configs(wire: Wire, topic: str) -> dict[str, str]:
    resource = {"resource_type": kinds.Resource.TOPIC, "resource_name": topic, "configuration_keys": None}
    fields = {"include_synonyms": True, "include_documentation": False}
    reply = wire.ask("DescribeConfigs", 4, resources=[resource], **fields)
    return {row.name: row.value for row in reply.results[0].configs}


def test_semantic_38_configs_are_set_deleted_appended_to_and_subtracted_from(wire: Wire, topic: str) -> None:
    assert alter(wire, topic, ("cleanup.policy", 2, "compact"), ("retention.ms", 0, "77")) == 0
    found = configs(wire, topic)
    assert set(found["cleanup.policy"].split(",")) == {"delete", "compact"}
    assert found["retention.ms"] == "77"
    assert alter(wire, topic, ("cleanup.policy", 3, "delete"), ("retention.ms", 1, None)) == 0
    found = configs(wire, topic)
    assert found["cleanup.policy"] == "compact"
    assert found["retention.ms"] != "77"


def test_semantic_38_only_lists_are_appended_to(wire: Wire, topic: str) -> None:
    assert alter(wire, topic, ("retention.ms", 2, "1")) == INVALID_CONFIG
    assert alter(wire, topic, ("retention.ms", 3, "1")) == INVALID_CONFIG


@pytest.mark.parametrize(
    ("key", "value"),
    [("retention.ms", "soon"), ("no.such.key", "1"), ("segment.bytes", "13"), ("cleanup.policy", "burn")],
)
def test_semantic_38_bad_values_are_refused_and_change_nothing(
    wire: Wire, topic: str, key: str, value: str
) -> None:
    before = configs(wire, topic)
    assert alter(wire, topic, (key, 0, value)) == INVALID_CONFIG
    assert configs(wire, topic) == before


def test_semantic_38_validate_only_changes_nothing(wire: Wire, topic: str) -> None:
    before = configs(wire, topic)
    assert alter(wire, topic, ("retention.ms", 0, "77"), validate_only=True) == 0
    assert configs(wire, topic) == before


def delete_records(wire: Wire, topic: str, offset: int) -> Any:
    rows = [{"partition_index": 0, "offset": offset}]
    reply = wire.ask("DeleteRecords", 2, topics=[{"name": topic, "partitions": rows}], timeout_ms=30_000)
    return reply.topics[0].partitions[0]


def test_semantic_39_records_are_deleted_up_to_the_high_watermark_with_minus_one(
    wire: Wire, topic: str
) -> None:
    wire.produce(topic, batches.batch([b"a", b"b", b"c"]))
    assert delete_records(wire, topic, 4).error_code == error_codes.OFFSET_OUT_OF_RANGE
    assert delete_records(wire, topic, 1).low_watermark == 1
    assert wire.offset(topic, -2).offset == 1
    assert delete_records(wire, topic, -1).low_watermark == 3
    assert wire.offset(topic, -2).offset == 3
    assert wire.fetch(topic, 3).error_code == 0


def test_semantic_39_records_of_a_compacted_topic_are_not_deleted(wire: Wire, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    wire.produce(topic, batches.batch([batches.Record(b"v", b"k")]))
    assert delete_records(wire, topic, 1).error_code == POLICY_VIOLATION


def create(wire: Wire, name: str, partitions: int = 1, replicas: int = 1, **changes: Any) -> int:
    """Creates one topic and returns the error code."""
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas}
    topic |= {"assignments": [], "configs": []}
    options = {"timeout_ms": 30_000, "validate_only": False}
    reply = wire.ask("CreateTopics", 7, topics=[{**topic, **changes}], **options)
    return int(reply.topics[0].error_code)


def test_semantic_40_minus_one_partitions_and_replicas_are_the_defaults(wire: Wire) -> None:
    assert create(wire, "by-default", -1, -1) == 0
    assert len(wire.metadata("by-default").partitions) == 1


def test_semantic_40_names_that_differ_by_dot_and_underscore_collide(wire: Wire) -> None:
    assert create(wire, "col.lide") == 0
    assert create(wire, "col_lide") == INVALID_TOPIC_EXCEPTION


def test_invalid_topics_are_refused(wire: Wire, topic: str) -> None:
    assert create(wire, topic) == TOPIC_ALREADY_EXISTS
    assert create(wire, "none", partitions=0) == INVALID_PARTITIONS
    assert create(wire, "many", replicas=2) == INVALID_REPLICATION_FACTOR
    assert create(wire, "zero", replicas=0) == INVALID_REPLICATION_FACTOR
    assert create(wire, "wrong", configs=[{"name": "retention.ms", "value": "x"}]) == INVALID_CONFIG
    missing = wire.ask("Metadata", 5, topics=None).topics
    assert {"none", "many", "zero", "wrong"}.isdisjoint(row.name for row in missing)


def test_validate_only_creates_nothing(wire: Wire) -> None:
    topic = {"name": "dry", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    reply = wire.ask("CreateTopics", 5, topics=[topic], timeout_ms=30_000, validate_only=True)
    assert reply.topics[0].error_code == 0
    assert "dry" not in {row.name for row in wire.ask("Metadata", 5, topics=None).topics}


BAD_NAMES = ["", ".", "..", "../x", "a/b", "a b", "ä", "x" * 250, "a\0b", "a:b", "a\nb"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_case_52_bad_topic_names_are_refused_and_make_no_folder(
    broker: Broker, wire: Wire, name: str
) -> None:
    before = {path.name for path in broker.log_dir.iterdir()}
    assert create(wire, name) == INVALID_TOPIC_EXCEPTION
    refused = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION)
    fields = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    assert wire.ask("Metadata", 5, **fields).topics[0].error_code in refused
    assert wire.produce(name, batches.batch([b"x"])).error_code in refused
    assert {path.name for path in broker.log_dir.iterdir()} - before == set()
    assert not (broker.log_dir.parent / "x-0").exists()


def test_case_52_the_longest_name_is_fine(broker: Broker, wire: Wire) -> None:
    assert create(wire, "y" * 249) == 0
    assert broker.partition_dir("y" * 249).is_dir()


@pytest.mark.ours
def test_a_deleted_topic_is_gone_when_the_response_arrives(broker: Broker, wire: Wire) -> None:
    for round_number in range(3):
        wire.create_topic("again", 3)
        assert wire.end_offset("again", 1) == 0
        wire.produce("again", batches.batch([b"%d" % round_number]), 1)
        reply = wire.ask("DeleteTopics", 5, topic_names=["again"], timeout_ms=30_000)
        assert reply.responses[0].error_code == 0
        assert "again" not in {row.name for row in wire.ask("Metadata", 5, topics=None).topics}
    until(lambda: not list(broker.log_dir.glob("again-*")), "its files are removed")


def test_partitions_are_added_and_never_removed(wire: Wire, topic: str) -> None:
    def change(count: int) -> int:
        rows = [{"name": topic, "count": count, "assignments": None}]
        reply = wire.ask("CreatePartitions", 3, topics=rows, timeout_ms=30_000, validate_only=False)
        return int(reply.results[0].error_code)

    assert change(3) == 0
    assert [wire.end_offset(topic, partition) for partition in range(3)] == [0, 0, 0]
    assert change(2) == INVALID_PARTITIONS
    assert change(3) == INVALID_PARTITIONS


def test_the_cluster_is_described(broker: Broker, wire: Wire) -> None:
    reply = wire.ask("DescribeCluster", 0, include_cluster_authorized_operations=False)
    assert [(row.broker_id, row.host, row.port) for row in reply.brokers] == [(1, *broker.address)]
    assert reply.controller_id == 1
    assert len(reply.cluster_id) == 22


def test_producers_of_a_partition_are_described(wire: Wire, topic: str) -> None:
    producer_id = wire.new_producer_id()
    data = batches.batch([b"a", b"b"], producer_id=producer_id, producer_epoch=4, base_sequence=0)
    wire.produce(topic, data)
    rows = [{"name": topic, "partition_indexes": [0]}]
    row = wire.ask("DescribeProducers", 0, topics=rows).topics[0].partitions[0]
    (found,) = row.active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (producer_id, 4, 1)
    assert found.current_txn_start_offset == -1


def test_topic_partitions_are_described_page_by_page(wire: Wire, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=5)
    fields = {"topics": [{"name": topic}], "response_partition_limit": 3}
    first = wire.ask("DescribeTopicPartitions", 0, cursor=None, **fields)
    assert [row.partition_index for row in first.topics[0].partitions] == [0, 1, 2]
    following = {"topic_name": first.next_cursor.topic_name}
    following["partition_index"] = first.next_cursor.partition_index
    second = wire.ask("DescribeTopicPartitions", 0, cursor=following, **fields)
    assert [row.partition_index for row in second.topics[0].partitions] == [3, 4]


def test_producer_ids_are_never_assigned_twice(broker: Broker) -> None:
    ids = []
    for _ in range(3):
        with Wire(broker.address) as wire:
            ids += [wire.new_producer_id() for _ in range(20)]
    assert len(set(ids)) == 60
