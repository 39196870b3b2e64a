"""Produce, frame by frame: semantics 4–13, cases 31–33 and 53–57 of bad records."""

from __future__ import annotations

import pytest

from conformance.conftest import NewTopic
from conformance.data import batches
from conformance.data.batches import Record, batch
from harness.protocol import error_codes
from harness.protocol.error_codes import (
    CORRUPT_MESSAGE,
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    RECORD_LIST_TOO_LARGE,
)
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

LAST_SEQUENCE = 2**31 - 1


def refused(wire: Wire, topic: str, data: bytes, version: int = 9) -> int:
    """Returns the error code of a produce that must leave nothing behind."""
    before = wire.end_offset(topic)
    row = wire.produce(topic, data, version=version)
    assert row.error_code != 0
    assert row.base_offset == -1
    assert wire.end_offset(topic) == before
    return int(row.error_code)


def test_semantic_04_a_partition_gets_exactly_one_batch_of_format_v2(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch([b"a"]) + batch([b"b"])) == INVALID_RECORD
    assert refused(wire, topic, batches.message(b"old", magic=1)) == INVALID_RECORD
    assert refused(wire, topic, batch([b"a"]) + batches.message(b"old", magic=1)) == INVALID_RECORD


def test_semantic_04_zstd_needs_produce_7(wire: Wire, topic: str) -> None:
    data = batch([b"a"], codec=batches.ZSTD)
    assert refused(wire, topic, data, version=6) == 76
    assert wire.produce(topic, data, version=7).error_code == 0


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_of_produce_appends(wire: Wire, topic: str, version: int) -> None:
    row = wire.produce(topic, batch([b"a", b"b"]), version=version)
    assert (row.error_code, row.base_offset) == (0, 0)
    assert batches.values(wire.fetch(topic, 0).records) == [b"a", b"b"]


def test_produce_13_names_its_topic_by_id(wire: Wire, topic: str) -> None:
    data = {"topic_id": wire.topic_id(topic), "partition_data": [{"index": 0, "records": batch([b"a"])}]}
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000}
    reply = wire.ask("Produce", 13, topic_data=[data], **fields)
    assert reply.responses[0].partition_responses[0].base_offset == 0


def test_semantic_05_a_request_with_acks_0_gets_no_response(wire: Wire, topic: str) -> None:
    data = {"name": topic, "partition_data": [{"index": 0, "records": batch([b"x"])}]}
    fields = {"transactional_id": None, "timeout_ms": 30_000, "topic_data": [data]}
    wire.post("Produce", 9, acks=0, **fields)
    assert wire.end_offset(topic) == 1


def test_semantic_05_an_error_under_acks_0_closes_the_connection(wire: Wire, topic: str) -> None:
    data = {"name": topic, "partition_data": [{"index": 0, "records": batch([b"x"], crc=1)}]}
    fields = {"transactional_id": None, "timeout_ms": 30_000, "topic_data": [data]}
    wire.post("Produce", 9, acks=0, **fields)
    assert wire.closed_by_peer()


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_case_53_acks_other_than_0_1_and_all_are_refused(wire: Wire, topic: str, acks: int) -> None:
    row = wire.produce(topic, batch([b"x"]), acks=acks)
    assert row.error_code == error_codes.INVALID_REQUIRED_ACKS
    assert wire.end_offset(topic) == 0


def test_semantic_06_min_insync_replicas_is_capped_by_the_number_of_replicas(
    wire: Wire, new_topic: NewTopic
) -> None:
    """With one replica, two in-sync ones are impossible, and Kafka then requires one."""
    topic = new_topic(min_insync_replicas=2)
    assert wire.produce(topic, batch([b"x"])).error_code == 0
    assert wire.produce(topic, batch([b"x"]), acks=1).error_code == 0


def idempotent(producer_id: int, sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    rows = [b"%d" % (sequence + place) for place in range(count)]
    return batch(rows, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_case_31_a_resent_batch_among_the_last_five_returns_its_first_offset(wire: Wire, topic: str) -> None:
    producer_id = wire.new_producer_id()
    sent = [idempotent(producer_id, sequence) for sequence in range(6)]
    assert [wire.produce(topic, data).base_offset for data in sent] == list(range(6))
    for offset in (5, 1, 3, 2, 4):
        row = wire.produce(topic, sent[offset])
        assert (row.error_code, row.base_offset) == (0, offset)
    assert refused(wire, topic, sent[0]) in (OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER)
    assert wire.produce(topic, idempotent(producer_id, 6)).base_offset == 6


def test_case_31_a_gap_is_refused(wire: Wire, topic: str) -> None:
    producer_id = wire.new_producer_id()
    assert wire.produce(topic, idempotent(producer_id, 0, count=3)).error_code == 0
    assert refused(wire, topic, idempotent(producer_id, 4)) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert wire.produce(topic, idempotent(producer_id, 3)).base_offset == 3


def test_semantic_08_a_new_epoch_starts_at_sequence_0(wire: Wire, topic: str) -> None:
    producer_id = wire.new_producer_id()
    assert wire.produce(topic, idempotent(producer_id, 0)).error_code == 0
    assert refused(wire, topic, idempotent(producer_id, 1, epoch=1)) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert wire.produce(topic, idempotent(producer_id, 0, epoch=1)).base_offset == 1


def test_semantic_08_without_state_any_sequence_is_accepted(wire: Wire, topic: str) -> None:
    producer_id = wire.new_producer_id()
    assert wire.produce(topic, idempotent(producer_id, 500)).error_code == 0
    assert wire.produce(topic, idempotent(producer_id, 501)).error_code == 0


def test_semantic_08_sequences_wrap_to_0(wire: Wire, topic: str) -> None:
    producer_id = wire.new_producer_id()
    assert wire.produce(topic, idempotent(producer_id, LAST_SEQUENCE - 1, count=3)).error_code == 0
    assert wire.produce(topic, idempotent(producer_id, 1)).base_offset == 3


def test_semantic_09_case_33_a_stale_epoch_is_refused(wire: Wire, topic: str) -> None:
    producer_id = wire.new_producer_id()
    assert wire.produce(topic, idempotent(producer_id, 0, epoch=3)).error_code == 0
    assert refused(wire, topic, idempotent(producer_id, 1, epoch=2)) == INVALID_PRODUCER_EPOCH


def test_semantic_10_case_55_the_error_about_a_null_key_in_a_compacted_topic_has_its_index(
    wire: Wire, new_topic: NewTopic
) -> None:
    topic = new_topic(cleanup_policy="compact")
    rows = [Record(b"v", b"k"), Record(b"v"), Record(b"v", b"k"), Record(b"v")]
    row = wire.produce(topic, batch(rows), version=8)
    assert row.error_code == INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [1, 3]
    assert wire.produce(topic, batch([Record(b"v", b"k")])).error_code == 0


@pytest.mark.parametrize("codec", range(5))
def test_case_55_a_null_key_is_found_in_every_codec(wire: Wire, new_topic: NewTopic, codec: int) -> None:
    topic = new_topic(cleanup_policy="compact")
    data = batch([Record(b"v", b"k"), Record(b"v")], codec=codec)
    row = wire.produce(topic, data)
    assert row.error_code == INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [1]


@pytest.mark.parametrize(
    "age_ms", [pytest.param(-7_200_000, id="future"), pytest.param(86_400_000, id="past")]
)
def test_case_55_a_timestamp_out_of_range_is_refused(
    wire: Wire, new_topic: NewTopic, age_ms: int
) -> None:
    limits = {"message_timestamp_before_max_ms": 3_600_000, "message_timestamp_after_max_ms": 3_600_000}
    topic = new_topic(**limits)
    data = batch([b"x"], base_timestamp=batches.now_ms() - age_ms)
    assert refused(wire, topic, data) == 32
    assert wire.produce(topic, batch([b"x"])).error_code == 0


def test_semantic_11_case_54_control_batches_of_clients_are_refused(wire: Wire, topic: str) -> None:
    marker = Record(b"\0\0\0\0\0\0", b"\0\0\0\1")
    producer_id = wire.new_producer_id()
    data = batch([marker], attributes=batches.CONTROL, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    assert refused(wire, topic, data) == INVALID_RECORD


@pytest.mark.parametrize(
    "lie",
    [
        {"count": 0},
        {"count": -1},
        {"count": 1},
        {"count": 3},
        {"last_offset_delta": 0},
        {"last_offset_delta": 5},
        {"last_offset_delta": -1},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1},
    ],
    ids=str,
)
@pytest.mark.parametrize("codec", [batches.NONE, batches.LZ4])
def test_semantic_11_case_54_headers_that_contradict_the_records_are_refused(
    wire: Wire, topic: str, lie: batches.Fields, codec: int
) -> None:
    assert refused(wire, topic, batch([b"a", b"b"], codec=codec, **lie)) == INVALID_RECORD


@pytest.mark.ours
def test_case_54_a_producer_id_without_an_epoch_is_refused(wire: Wire, topic: str) -> None:
    data = batch([b"a"], producer_id=7, producer_epoch=-1, base_sequence=0)
    assert refused(wire, topic, data) == INVALID_RECORD


@pytest.mark.ours
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([Record(b"a", offset_delta=1), Record(b"b", offset_delta=0)], id="reversed"),
        pytest.param([Record(b"a", offset_delta=0), Record(b"b", offset_delta=0)], id="twice"),
        pytest.param([Record(b"a", offset_delta=0), Record(b"b", offset_delta=7)], id="gap"),
    ],
)
def test_case_54_offset_deltas_that_do_not_ascend_are_refused(
    wire: Wire, topic: str, rows: list[Record]
) -> None:
    data = batch(rows, last_offset_delta=1)
    assert refused(wire, topic, data) == INVALID_RECORD


@pytest.mark.parametrize("length", [0, -1, 48, 49, 10_000, 2**31 - 1])
def test_case_54_a_batch_with_a_wrong_length_is_refused(wire: Wire, topic: str, length: int) -> None:
    assert refused(wire, topic, batch([b"x"], length=length)) in (CORRUPT_MESSAGE, INVALID_RECORD, -1)


@pytest.mark.parametrize("end", [0, 1, 12, 60, 61, -1])
def test_case_54_a_torn_batch_is_refused(wire: Wire, topic: str, end: int) -> None:
    assert refused(wire, topic, batch([b"some", b"values"])[:end]) in (CORRUPT_MESSAGE, INVALID_RECORD, 42)


@pytest.mark.parametrize("codec", range(1, 5))
@pytest.mark.parametrize("payload", [b"", b"\0", b"not a stream", b"\xff" * 300])
def test_case_54_records_that_do_not_decompress_are_refused(
    wire: Wire, topic: str, codec: int, payload: bytes
) -> None:
    data = batch([b"x"], codec=codec, payload=payload)
    assert refused(wire, topic, data) in (CORRUPT_MESSAGE, INVALID_RECORD, -1)


@pytest.mark.parametrize("codec", range(5))
def test_case_54_records_that_end_too_early_or_too_late_are_refused(
    wire: Wire, topic: str, codec: int
) -> None:
    rows = Record(b"first").encode(0) + Record(b"second").encode(1)
    for records in (rows[:-3], rows + b"more", rows[:9]):
        payload = batches.COMPRESS[codec](records)
        data = batch([b"x", b"x"], codec=codec, payload=payload)
        assert refused(wire, topic, data) in (CORRUPT_MESSAGE, INVALID_RECORD)


def test_semantic_12_base_offset_and_leader_epoch_are_rewritten_without_a_new_crc(
    wire: Wire, topic: str
) -> None:
    wire.produce(topic, batch([b"first"]))
    data = batch([b"a", b"b"], leader_epoch=99)
    assert wire.produce(topic, data).base_offset == 1
    (found,) = batches.headers(wire.fetch(topic, 1).records)
    assert (found.base_offset, found.last_offset_delta) == (1, 1)
    assert 0 <= found.leader_epoch < 99
    assert found.crc == batches.headers(data)[0].crc
    assert found.crc_is_right


def test_semantic_12_a_batch_that_does_not_start_at_offset_0_is_refused(wire: Wire, topic: str) -> None:
    assert refused(wire, topic, batch([b"a"], base_offset=777)) == INVALID_RECORD


@pytest.mark.parametrize("codec", range(5))
def test_semantic_13_log_append_time_is_stamped_and_returned(
    wire: Wire, new_topic: NewTopic, codec: int
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = batches.now_ms()
    row = wire.produce(topic, batch([b"a", b"b"], codec=codec, base_timestamp=1_000))
    assert before <= row.log_append_time_ms <= batches.now_ms()
    (found,) = batches.headers(wire.fetch(topic, 0).records)
    assert found.attributes & batches.LOG_APPEND_TIME
    assert found.max_timestamp == row.log_append_time_ms
    assert found.crc_is_right


def test_semantic_13_create_time_topics_return_no_append_time(wire: Wire, topic: str) -> None:
    assert wire.produce(topic, batch([b"a"])).log_append_time_ms == -1


def test_case_56_a_batch_above_max_message_bytes_is_refused(wire: Wire, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes=10_000)
    assert refused(wire, topic, batch([b"x" * 10_001])) == MESSAGE_TOO_LARGE
    assert wire.produce(topic, batch([b"x" * 9_000])).error_code == 0


def test_case_56_a_batch_above_the_segment_size_is_refused(wire: Wire, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes=5 << 20, segment_bytes=1 << 20)
    assert refused(wire, topic, batch([b"x" * (1 << 20)])) == RECORD_LIST_TOO_LARGE


def test_a_record_that_unpacks_to_more_than_the_topic_allows_is_refused(wire: Wire, new_topic: NewTopic) -> None:
    topic = new_topic(max_decompressed_message_bytes=512)
    assert refused(wire, topic, batch([bytes(4096)], codec=batches.GZIP)) == INVALID_RECORD
    assert wire.produce(topic, batch([bytes(64)], codec=batches.GZIP)).error_code == 0
    assert wire.produce(topic, batch([bytes(4096)])).error_code == 0


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_case_57_an_unknown_codec_is_refused(wire: Wire, topic: str, codec: int) -> None:
    data = batch([b"x"], attributes=codec)
    assert refused(wire, topic, data) in (76, INVALID_RECORD, -1)


def test_errors_of_one_partition_do_not_affect_the_others(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    rows = [{"index": 0, "records": batch([b"a"])}, {"index": 1, "records": batch([b"b"], crc=1)}]
    rows += [{"index": 2, "records": batch([b"c"])}, {"index": 9, "records": batch([b"d"])}]
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000}
    with Wire(broker.address) as wire:
        reply = wire.ask("Produce", 9, topic_data=[{"name": topic, "partition_data": rows}], **fields)
        found = {row.index: row.error_code for row in reply.responses[0].partition_responses}
        assert found == {0: 0, 1: CORRUPT_MESSAGE, 2: 0, 9: 3}
        assert [wire.end_offset(topic, partition) for partition in range(3)] == [1, 0, 1]


def test_requests_of_one_connection_are_answered_in_order(wire: Wire, topic: str) -> None:
    data = {"name": topic, "partition_data": [{"index": 0, "records": batch([b"x"])}]}
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": [data]}
    sent = [wire.post("Produce", 9, **fields) for _ in range(200)]
    offsets = []
    for correlation_id in sent:
        reply = wire.reply("Produce", 9, correlation_id)
        offsets.append(reply.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(200))


@pytest.mark.ours
def test_records_null_is_refused(wire: Wire, topic: str) -> None:
    data = {"name": topic, "partition_data": [{"index": 0, "records": None}]}
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": [data]}
    row = wire.ask("Produce", 9, **fields).responses[0].partition_responses[0]
    assert row.error_code in (CORRUPT_MESSAGE, INVALID_RECORD)
