"""A batch that grows: the same bytes as the builder's, and what reports say."""

from __future__ import annotations

import asyncio
import gc
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cy.batch import Builder, iterate, read_header, validate
from cy.batch.compression import Codec
from cy.produce.deliveries import Deliveries
from cy.produce.producer_batch import begin
from cy.produce.record_metadata import RecordMetadata

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**45),
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=2),
    ),
    min_size=1,
    max_size=40,
)


@given(RECORDS)
def test_a_producer_batch_has_the_bytes_of_the_builder(records):
    batch = begin("t", 3, capacity=100)
    builder = Builder(producer_id=7, producer_epoch=2, base_sequence=9, transactional=True)
    for record in records:
        batch.append(*record)
        builder.append(*record)
    batch.seal(0, None, True)
    batch.assign(7, 2, 9)
    assert batch.records == builder.build()
    assert batch.size == len(batch.records)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_broker_accepts_every_codec(codec):
    batch = begin("t", 0)
    for index in range(100):
        batch.append(1000 + index, b"key", b"value" * 10)
    batch.seal(codec)
    batch.assign(1, 0, 5)
    validate(batch.records)
    assert [record.timestamp for record in iterate(batch.records)] == list(range(1000, 1100))


def test_a_second_assign_does_not_change_the_sent_bytes():
    batch = begin("t", 0)
    batch.append(1, None, b"a")
    batch.seal()
    batch.assign(1, 0, 0)
    sent, before = batch.records, bytes(bytearray(batch.records))
    batch.attempts = 1
    batch.assign(1, 1, 0)
    assert sent == before
    assert read_header(batch.records).producer_epoch == 1
    validate(batch.records)


def test_a_report_has_offset_and_timestamp_of_its_record():
    batch = begin("t", 4)
    reports = [batch.append(100 + index, None, b"") for index in range(3)]
    assert [report.metadata for report in reports] == [None] * 3
    batch.complete(50)
    assert [report.result(0) for report in reports] == [
        RecordMetadata("t", 4, 50 + index, 100 + index) for index in range(3)
    ]


def test_log_append_time_replaces_the_records_time():
    batch = begin("t", 0)
    report = batch.append(1, None, b"")
    batch.complete(0, 77)
    assert report.result().timestamp == 77


def test_a_duplicate_batch_has_no_offset():
    batch = begin("t", 0)
    report = batch.append(1, None, b"")
    batch.complete(-1)
    assert report.result().offset == -1


def test_the_result_of_a_failed_batch_names_the_invalid_record():
    batch = begin("t", 0)
    good, bad = batch.append(1, None, b"a"), batch.append(1, None, b"b")
    batch.fail(ValueError("batch"), {1: ValueError("record")})
    with pytest.raises(ValueError, match="batch"):
        good.result()
    with pytest.raises(ValueError, match="record"):
        bad.result()


def test_a_timed_out_result_names_attempts_and_the_last_error():
    batch = begin("k", 0)
    report = batch.append(0, None, b"v")
    told = []
    for attempts, error in ((0, None), (1, None), (2, KeyError("lost"))):
        batch.attempts, batch.last_error = attempts, error
        with pytest.raises(TimeoutError) as caught:
            report.result(0.01)
        told.append(str(caught.value).removeprefix("k-0: not delivered within 0.01 s: "))
    assert told == ["not sent yet", "sent, and not answered yet", "after 2 attempts, the last: 'lost'"]


def test_result_returns_in_time_or_raises_timeout_error():
    with pytest.raises(TimeoutError):
        begin("t", 0).append(1, None, b"").result(0)


def test_a_batch_completes_only_once():
    batch = begin("t", 0)
    calls = []
    batch.add_waiter(lambda: calls.append(1))
    batch.append(1, None, b"")
    batch.fail(ValueError())
    batch.complete(3)
    assert calls == [1]
    assert batch.base_offset == -1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_parts_of_a_split_have_all_records_and_reports(codec):
    batch = begin("t", 1)
    reports = [batch.append(index, b"%d" % index, b"v" * 50, [("h", None)]) for index in range(100)]
    batch.seal(codec)
    parts = batch.split(1000)
    assert len(parts) > 3
    assert sum(part.count for part in parts) == 100
    keys = []
    for offset, part in enumerate(parts):
        part.seal(codec)
        part.assign()
        assert part.plain_size <= 1100
        keys += [bytes(record.key) for record in iterate(part.records)]
        assert not batch.done
        part.complete(1000 * offset)
    assert keys == [b"%d" % index for index in range(100)]
    assert batch.done
    assert reports[0].result(0).offset == 0
    assert reports[99].result(0).offset == 1000 * (len(parts) - 1) + parts[-1].count - 1


def test_a_part_of_a_split_batch_can_be_split_again():
    batch = begin("t", 0)
    reports = [batch.append(1, None, b"v" * 50) for _ in range(20)]
    batch.seal()
    assert batch.leaves == [batch]
    first, second = batch.split(700)
    first.seal()
    parts = first.split(200)
    assert batch.leaves == [*parts, second]
    for part in parts:
        part.complete(10)
    second.fail(KeyError("second"))
    assert reports[0].error is None
    assert isinstance(reports[19].error, KeyError)
    assert batch.done


def test_metadata_is_compared_by_value():
    metadata = RecordMetadata("t", 1, 2, 3)
    assert pickle.loads(pickle.dumps(metadata)) == metadata
    assert tuple(metadata) == ("t", 1, 2, 3)
    assert len({metadata, RecordMetadata("t", 1, 2, 3)}) == 1


def test_a_failing_waiter_is_logged_and_the_others_are_called(caplog):
    batch = begin("t", 0)
    report = batch.append(1, None, b"")
    heard = []
    report.add_done_callback(lambda: 1 // 0)
    report.add_done_callback(lambda: heard.append(report.done))
    batch.complete(0)
    report.add_done_callback(lambda: 1 // 0)
    assert heard == [True]
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError] * 2


def referred(start):
    """Returns the objects that can be reached from an object in three steps."""
    found = [start]
    for _ in range(3):
        found += [each for each in gc.get_referents(*found) if not isinstance(each, type)]
    return {id(each): each for each in found}.values()


def test_a_timed_out_wait_leaves_no_waiter():
    batch = begin("t", 0)
    report = batch.append(1, None, b"")
    report.add_done_callback(print)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            report.result(0)
    found = [each.__name__ for each in referred(batch) if callable(each)]
    assert "print" in found
    assert "release" not in found


def parts_of(headers, limit):
    batch = begin("t", 0)
    for each in headers:
        batch.append(1, None, b"v", each)
    batch.seal()
    return batch.split(limit if limit else batch.plain_size // 2)


@pytest.mark.parametrize("limit", [0, 10**9])
@pytest.mark.parametrize("sizes", [(0, 9000), (9000, 0), (0, 0, 9000), (1, 1)])
def test_a_split_has_at_least_two_parts_with_fewer_records(sizes, limit):
    parts = parts_of([[("h", bytes(size))] for size in sizes], limit)
    assert len(parts) > 1
    assert sum(part.count for part in parts) == len(sizes)


def test_a_split_counts_headers():
    parts = parts_of([[("h", bytes(1000))]] * 64, 0)
    assert max(part.plain_size for part in parts) < 33_500
    assert sum(part.count for part in parts) == 64


def test_repr_of_a_pending_report_says_how_to_wait():
    report = begin("t", 0).append(1, None, b"v")
    assert repr(report) == "DeliveryReport(t-0, pending: result() waits for it)"
    many = Deliveries(1, 0)
    many.keep(report)
    assert repr(many) == "Deliveries(1 record, pending: result() waits for them)"

    async def show():
        return repr(report)

    assert asyncio.run(show()) == "DeliveryReport(t-0, pending: await it, or asyncio.ensure_future(it))"
