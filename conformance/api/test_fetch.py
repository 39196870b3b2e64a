"""Fetch, ListOffsets and epochs, frame by frame: semantics 16–24."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from conformance.conftest import NewBroker, NewTopic
from conformance.data import batches
from conformance.data.batches import batch
from harness.protocol.error_codes import (
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker


def filled(wire: Wire, topic: str, count: int = 5, size: int = 10, partition: int = 0) -> None:
    """Produces ``count`` batches of one record each, with the timestamps 1000, 1010, 1020, …"""
    for number in range(count):
        data = batch([b"%d" % number + b"." * size], base_timestamp=1_000 + 10 * number)
        assert wire.produce(topic, data, partition).error_code == 0


def fetch_all(wire: Wire, rows: list[dict[str, Any]], version: int = 11, **options: Any) -> Any:
    defaults = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 50 << 20}
    return wire.ask("Fetch", version, topics=rows, **{**defaults, **options})


def partition_row(index: int, offset: int = 0, limit: int = 1 << 20) -> dict[str, Any]:
    row = {"partition": index, "fetch_offset": offset, "partition_max_bytes": limit}
    return row | {"current_leader_epoch": -1}


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_of_fetch_returns_the_records(wire: Wire, topic: str, version: int) -> None:
    filled(wire, topic)
    row = wire.fetch(topic, 2, version=version)
    assert [offset for offset, _, _ in batches.rows(row.records)] == [2, 3, 4]
    assert row.high_watermark == 5
    assert row.last_stable_offset == 5


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_of_fetch_by_topic_id_returns_the_records(
    wire: Wire, topic: str, version: int
) -> None:
    filled(wire, topic)
    rows = [{"topic_id": wire.topic_id(topic), "partitions": [partition_row(0, 3)]}]
    reply = fetch_all(wire, rows, version)
    assert reply.responses[0].topic_id == wire.topic_id(topic)
    row = reply.responses[0].partitions[0]
    assert [offset for offset, _, _ in batches.rows(row.records)] == [3, 4]


def test_semantic_16_the_first_partition_with_data_returns_a_whole_batch_past_the_limits(
    wire: Wire, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=3)
    for partition in (1, 2):
        filled(wire, topic, 2, size=5_000, partition=partition)
    rows = [{"topic": topic, "partitions": [partition_row(index, limit=10) for index in range(3)]}]
    found = fetch_all(wire, rows, max_bytes=10).responses[0].partitions
    sizes = {row.partition_index: len(row.records or b"") for row in found}
    assert sizes[0] == 0
    assert sizes[1] > 5_000
    assert sizes[2] == 0
    assert len(batches.values(found[1].records)) == 1


def test_semantic_16_partitions_are_served_in_the_order_of_the_request(
    wire: Wire, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    for partition in range(2):
        filled(wire, topic, 2, size=5_000, partition=partition)
    rows = [{"topic": topic, "partitions": [partition_row(1), partition_row(0)]}]
    found = fetch_all(wire, rows, max_bytes=6_000).responses[0].partitions
    assert [row.partition_index for row in found] == [1, 0]
    assert len(found[0].records) >= 5_000
    assert len(batches.headers(found[1].records or b"")) < 2


def test_semantic_16_a_later_batch_may_be_cut_by_the_limit(wire: Wire, topic: str) -> None:
    filled(wire, topic, 3, size=5_000)
    row = wire.fetch(topic, 0, partition_max_bytes=7_000)
    assert 5_000 < len(row.records) <= 7_000
    assert len(batches.headers(row.records)) == 1


@pytest.mark.parametrize(("offset", "error"), [(-1, 1), (6, 1), (10**15, 1), (5, 0), (4, 0), (0, 0)])
def test_semantic_17_only_offsets_outside_the_log_are_out_of_range(
    wire: Wire, topic: str, offset: int, error: int
) -> None:
    filled(wire, topic)
    row = wire.fetch(topic, offset)
    assert row.error_code == error
    assert bool(row.records) == (0 <= offset < 5)


def test_semantic_17_below_the_log_start_is_out_of_range(wire: Wire, topic: str) -> None:
    filled(wire, topic)
    rows = [{"partition_index": 0, "offset": 3}]
    reply = wire.ask("DeleteRecords", 2, topics=[{"name": topic, "partitions": rows}], timeout_ms=30_000)
    assert reply.topics[0].partitions[0].low_watermark == 3
    assert wire.fetch(topic, 2).error_code == OFFSET_OUT_OF_RANGE
    row = wire.fetch(topic, 3)
    assert (row.error_code, row.log_start_offset) == (0, 3)


def test_semantic_18_the_batch_that_holds_the_offset_comes_whole(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch([b"a", b"b", b"c"]))
    wire.produce(topic, batch([b"d", b"e"]))
    assert batches.values(wire.fetch(topic, 2).records) == [b"a", b"b", b"c", b"d", b"e"]
    assert batches.values(wire.fetch(topic, 4).records) == [b"d", b"e"]


def test_semantic_19_read_committed_reads_up_to_the_last_stable_offset(wire: Wire, topic: str) -> None:
    filled(wire, topic)
    row = wire.fetch(topic, 0, isolation_level=1)
    assert row.last_stable_offset == row.high_watermark == 5
    assert not row.aborted_transactions
    assert len(batches.values(row.records)) == 5
    assert wire.offset(topic, -1, isolation_level=1).offset == 5


def test_semantic_20_an_incremental_fetch_returns_only_partitions_that_changed(
    wire: Wire, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=3)
    rows = [{"topic": topic, "partitions": [partition_row(index) for index in range(3)]}]
    first = fetch_all(wire, rows, session_id=0, session_epoch=0)
    assert first.error_code == 0
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 3
    session = {"session_id": first.session_id}
    assert fetch_all(wire, [], session_epoch=1, **session).responses == []
    filled(wire, topic, 1, partition=2)
    second = fetch_all(wire, [], session_epoch=2, **session)
    assert [row.partition_index for row in second.responses[0].partitions] == [2]
    forgotten = [{"topic": topic, "partitions": [2]}]
    third = fetch_all(wire, [], session_epoch=3, forgotten_topics_data=forgotten, **session)
    assert third.responses == []


def test_semantic_20_wrong_sessions_and_epochs_are_refused(wire: Wire, topic: str) -> None:
    rows = [{"topic": topic, "partitions": [partition_row(0)]}]
    session_id = fetch_all(wire, rows, session_id=0, session_epoch=0).session_id
    assert fetch_all(wire, [], session_id=session_id, session_epoch=7).error_code == INVALID_FETCH_SESSION_EPOCH
    assert fetch_all(wire, [], session_id=123_456, session_epoch=1).error_code == FETCH_SESSION_ID_NOT_FOUND
    assert fetch_all(wire, rows, session_id=session_id, session_epoch=-1).error_code == 0
    assert fetch_all(wire, [], session_id=session_id, session_epoch=1).error_code == FETCH_SESSION_ID_NOT_FOUND


def test_semantic_20_a_sessionless_fetch_opens_none(wire: Wire, topic: str) -> None:
    rows = [{"topic": topic, "partitions": [partition_row(0)]}]
    assert fetch_all(wire, rows, session_id=0, session_epoch=-1).session_id == 0


def test_semantic_21_leader_epochs_of_requests_are_checked(new_broker: NewBroker) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        filled(wire, "t")
    broker.restart()
    with Wire(broker.address) as wire:
        wire.end_offset("t")
        epoch = wire.metadata("t").partitions[0].leader_epoch
        assert wire.fetch("t", 0, current_leader_epoch=-1).error_code == 0
        assert wire.fetch("t", 0, current_leader_epoch=epoch).error_code == 0
        assert wire.fetch("t", 0, current_leader_epoch=epoch + 1).error_code == UNKNOWN_LEADER_EPOCH
        if epoch > 0:
            assert wire.fetch("t", 0, current_leader_epoch=epoch - 1).error_code == FENCED_LEADER_EPOCH


def test_semantic_21_a_fetch_past_its_epochs_end_diverges(wire: Wire, topic: str) -> None:
    filled(wire, topic)
    row = wire.fetch(topic, 9, last_fetched_epoch=0)
    assert row.error_code == 0
    assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 5)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_semantic_21_offset_for_leader_epoch_returns_the_end_of_an_epoch(
    wire: Wire, topic: str, version: int
) -> None:
    filled(wire, topic)

    def ask(epoch: int, current: int = -1) -> Any:
        row = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        rows = [{"topic": topic, "partitions": [row]}]
        fields: dict[str, Any] = {"replica_id": -1} if version >= 3 else {}
        reply = wire.ask("OffsetForLeaderEpoch", version, topics=rows, **fields)
        return reply.topics[0].partitions[0]

    assert (ask(0).leader_epoch, ask(0).end_offset) == (0, 5)
    assert (ask(7).leader_epoch, ask(7).end_offset) == (-1, -1)
    assert ask(0, current=8).error_code == UNKNOWN_LEADER_EPOCH


def test_semantic_22_an_unknown_topic_id_returns_its_own_error(wire: Wire, topic: str) -> None:
    stranger = uuid.uuid4()
    rows = [{"topic_id": stranger, "partitions": [partition_row(0)]}]
    reply = fetch_all(wire, rows, 13)
    assert reply.error_code == 0
    assert reply.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID
    answer = wire.ask("Metadata", 12, topics=[{"topic_id": stranger, "name": None}])
    assert answer.topics[0].error_code == UNKNOWN_TOPIC_ID


def test_semantic_22_a_topic_created_again_has_a_new_id(wire: Wire, topic: str) -> None:
    old = wire.topic_id(topic)
    filled(wire, topic)
    wire.ask("DeleteTopics", 5, topic_names=[topic], timeout_ms=30_000)
    wire.create_topic(topic)
    assert wire.topic_id(topic) != old
    assert wire.end_offset(topic) == 0
    rows = [{"topic_id": old, "partitions": [partition_row(0)]}]
    assert fetch_all(wire, rows, 13).responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID


def names(reply: Any) -> set[str]:
    return {topic.name for topic in reply.topics}


def test_semantic_23_metadata_of_all_topics_and_of_none(wire: Wire, topic: str) -> None:
    assert topic in names(wire.ask("Metadata", 0, topics=[]))
    for version in range(1, 14):
        assert topic in names(wire.ask("Metadata", version, topics=None))
        assert names(wire.ask("Metadata", version, topics=[])) == set()


def test_semantic_23_topics_are_auto_created_only_if_the_flag_allows(wire: Wire) -> None:
    def ask(name: str, allowed: bool) -> int:
        fields = {"topics": [{"name": name}], "allow_auto_topic_creation": allowed}
        return int(wire.ask("Metadata", 5, **fields).topics[0].error_code)

    assert ask("not-made", allowed=False) == UNKNOWN_TOPIC_OR_PARTITION
    assert ask("not-made", allowed=False) == UNKNOWN_TOPIC_OR_PARTITION
    assert ask("made", allowed=True) in (0, 3, 5)
    assert wire.metadata("made").error_code == 0
    assert "not-made" not in names(wire.ask("Metadata", 5, topics=None))


@pytest.mark.ours
def test_semantic_23_an_auto_created_topic_exists_when_the_response_arrives(wire: Wire) -> None:
    reply = wire.ask("Metadata", 5, topics=[{"name": "at-once"}], allow_auto_topic_creation=True)
    assert reply.topics[0].error_code == 0
    assert wire.produce("at-once", batch([b"x"])).error_code == 0


@pytest.mark.parametrize("version", range(1, 12))
def test_semantic_24_list_offsets_returns_both_ends_and_offsets_by_time(wire: Wire, topic: str, version: int) -> None:
    filled(wire, topic)

    def ask(timestamp: int) -> tuple[int, int]:
        row = wire.offset(topic, timestamp, version=version)
        assert row.error_code == 0
        return row.offset, row.timestamp

    assert ask(-1) == (5, -1)
    assert ask(-2) == (0, -1)
    assert ask(1_000) == (0, 1_000)
    assert ask(1_011) == (2, 1_020)
    assert ask(1_040) == (4, 1_040)
    assert ask(1_041) == (-1, -1)
    if version >= 7:
        assert ask(-3) == (4, 1_040)
    if version >= 8:
        assert ask(-4)[0] == 0


def test_semantic_24_the_largest_timestamp_need_not_be_the_last(wire: Wire, topic: str) -> None:
    for timestamp in (1_000, 9_000, 5_000):
        wire.produce(topic, batch([b"x"], base_timestamp=timestamp))
    row = wire.offset(topic, -3)
    assert (row.offset, row.timestamp) == (1, 9_000)
    assert wire.offset(topic, 4_000).offset == 1


def test_semantic_24_an_empty_partition_has_no_offset_for_a_time(wire: Wire, topic: str) -> None:
    for timestamp in (1_000, -3):
        row = wire.offset(topic, timestamp)
        assert (row.error_code, row.offset, row.timestamp) == (0, -1, -1)


def test_semantic_24_times_are_found_inside_a_batch(wire: Wire, topic: str) -> None:
    records = [batches.Record(b"x", timestamp_delta=10 * place) for place in range(10)]
    for codec in range(5):
        start = 1_000 + 100 * codec
        wire.produce(topic, batch(records, base_timestamp=start, codec=codec))
        assert wire.offset(topic, start + 35).offset == 10 * codec + 4


def test_unknown_topics_and_partitions_return_their_own_error(wire: Wire, topic: str) -> None:
    assert wire.fetch("nowhere", 0).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert wire.fetch(topic, 0, partition=5).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert wire.offset(topic, -1, partition=5).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert wire.produce("nowhere", batch([b"x"])).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_waiting_fetch_does_not_block_other_connections(broker: Broker, topic: str) -> None:
    with Wire(broker.address) as waiting, Wire(broker.address) as other:
        limits = {"max_wait_ms": 250_000, "min_bytes": 1, "max_bytes": 1 << 20}
        rows = [{"topic": topic, "partitions": [partition_row(0)]}]
        waiting.post("Fetch", 11, topics=rows, **limits)
        filled(other, topic, 1)
        reply = waiting.reply("Fetch", 11)
        assert batches.values(reply.responses[0].partitions[0].records)
