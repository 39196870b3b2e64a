from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from pybroker.config.log_config import LogConfig
from pybroker.log.expiry import apply_retention
from pybroker.log.retention import Candidate, expired_count
from pybroker.log.tests.helpers import NOW, batch, contents, fill, numbered, open_log
from pyclient.protocol import errors


class View(NamedTuple):
    size: int
    largest_timestamp: int


def candidate(end_offset: int, size: int, largest_timestamp: int) -> Candidate:
    return Candidate(end_offset, View(size, largest_timestamp))


SEGMENTS = [
    candidate(10, 100, NOW - 3000),
    candidate(20, 100, NOW - 2000),
    candidate(30, 50, NOW),
]


@pytest.mark.parametrize(
    ("config", "log_start", "high_watermark", "count"),
    [
        ({"retention_ms": -1}, 0, 30, 0),
        ({"retention_ms": 2500}, 0, 30, 1),
        ({"retention_ms": 1999}, 0, 30, 2),
        ({"retention_ms": 2000}, 0, 30, 1),
        ({"retention_ms": 1}, 0, 30, 2),
        ({"retention_ms": 1}, 0, 19, 1),
        ({"retention_ms": 1}, 0, 5, 0),
        ({"retention_ms": -1, "retention_bytes": 150}, 0, 30, 1),
        ({"retention_ms": -1, "retention_bytes": 151}, 0, 30, 0),
        ({"retention_ms": -1, "retention_bytes": 0}, 0, 30, 3),
        ({"retention_ms": -1}, 20, 30, 2),
        ({"retention_ms": -1}, 19, 30, 1),
        ({"retention_ms": 1, "cleanup_policy": frozenset({"compact"})}, 0, 30, 0),
        ({"retention_ms": 1, "cleanup_policy": frozenset({"compact"})}, 10, 30, 1),
        ({"retention_ms": 1, "cleanup_policy": frozenset({"compact", "delete"})}, 0, 30, 2),
    ],
)
def test_the_oldest_segments_are_deleted_by_time_size_and_log_start(config, log_start, high_watermark, count):
    assert expired_count(SEGMENTS, LogConfig(**config), log_start, high_watermark, 250, NOW) == count


def test_case_29_a_future_timestamp_keeps_its_segment_and_deletes_no_other():
    future = [SEGMENTS[0], candidate(20, 100, NOW + 10**12), SEGMENTS[1]]
    assert expired_count(future, LogConfig(retention_ms=1000), 0, 30, 300, NOW) == 1


def test_case_29_one_future_timestamp_does_not_wipe_a_segment(tmp_path):
    config = LogConfig(message_timestamp_after_max_ms=10**15, retention_ms=1000)
    log = open_log(tmp_path, config)
    fill(log, numbered(10))
    log.append_as_leader(batch(b"future", timestamp=NOW + 10**12), 0, NOW)
    fill(log, numbered(10))
    log.update_high_watermark(log.log_end_offset)
    assert apply_retention(log, NOW + 500) == 0
    assert len(contents(log)) == 21


@pytest.fixture
def log(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_bytes=1000))
    fill(log, numbered(50))
    log.update_high_watermark(50)
    return log


def test_retention_removes_the_files_of_a_segment_and_raises_the_log_start(tmp_path, log):
    log.config = replace(log.config, retention_bytes=2500)
    assert apply_retention(log, NOW) > 3
    assert 2500 <= log.size <= 3500
    assert log.log_start_offset == log.first_segment_offset > 0
    names = {path.name.partition(".")[0] for path in (tmp_path / "t-0").glob("0*")}
    assert {int(name) for name in names} == {segment.base_offset for segment in log.segments}
    assert contents(log)[0][0] == log.log_start_offset
    with pytest.raises(errors.OffsetOutOfRange):
        log.read(0, 1000)


def test_if_retention_deletes_every_segment_a_new_one_begins(log):
    log.config = replace(log.config, retention_ms=1000)
    apply_retention(log, NOW + 10_000)
    assert (log.log_start_offset, log.log_end_offset, log.size, len(log.segments)) == (50, 50, 0, 1)
    assert apply_retention(log, NOW + 20_000) == 0
    fill(log, [b"again"])
    assert contents(log) == [(50, b"again")]


def test_nothing_beyond_the_high_watermark_is_deleted(log):
    log.config = replace(log.config, retention_ms=1000)
    log.update_high_watermark(12)
    apply_retention(log, NOW + 10_000)
    assert log.log_start_offset <= 12
    assert contents(log)[-1][0] == 49


def test_segments_without_timestamps_are_deleted_by_the_age_of_the_file(tmp_path):
    log = open_log(tmp_path, LogConfig(retention_ms=1000))
    log.append_as_leader(batch(b"a", timestamp=-1), 0, NOW)
    log.update_high_watermark(1)
    modified_ms = int((tmp_path / "t-0/00000000000000000000.log").stat().st_mtime * 1000)
    assert apply_retention(log, modified_ms + 900) == 0
    assert apply_retention(log, modified_ms + 1100) == 1


def test_records_below_a_raised_log_start_are_out_of_range_and_deleted(log):
    log.raise_log_start_offset(25)
    with pytest.raises(errors.OffsetOutOfRange):
        log.read(24, 1000)
    assert contents(log)[0][0] == 25
    assert apply_retention(log, NOW) > 0
    assert log.first_segment_offset <= 25 < log.segments[1].base_offset
    assert log.log_start_offset == 25
    assert log.leader_epochs.entries == [(0, 25)]


def test_log_start_does_not_pass_the_high_watermark(log):
    with pytest.raises(errors.OffsetOutOfRange):
        log.raise_log_start_offset(51)
    log.raise_log_start_offset(50)
    assert log.log_start_offset == 50


# Truncation


@pytest.mark.parametrize("offset", [49, 30, 26, 7, 1])
def test_truncation_removes_every_record_from_an_offset_on(tmp_path, log, offset):
    before = contents(log)
    assert log.truncate_to(offset, NOW)
    assert log.log_end_offset == offset
    assert log.high_watermark == offset
    assert contents(log) == before[:offset]
    fill(log, [b"new"], epoch=1)
    assert contents(log) == [*before[:offset], (offset, b"new")]
    log.close()
    assert contents(open_log(tmp_path)) == [*before[:offset], (offset, b"new")]


def test_a_batch_that_spans_the_offset_is_removed_completely(tmp_path):
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"a", b"b"), 0, NOW)
    log.append_as_leader(batch(b"c", b"d"), 0, NOW)
    log.truncate_to(3, NOW)
    assert log.log_end_offset == 2


def test_truncating_at_the_end_changes_nothing(log):
    assert not log.truncate_to(50, NOW)
    assert len(contents(log)) == 50


def test_truncation_forgets_epochs_and_lowers_the_recovery_point(log):
    fill(log, numbered(10), epoch=4)
    log.flush()
    log.truncate_to(45, NOW)
    assert log.leader_epochs.entries == [(0, 0)]
    assert log.recovery_point == 45


def test_an_empty_log_may_start_at_any_offset(tmp_path, log):
    log.truncate_fully_and_start_at(1000, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1000, 1000, 1000)
    fill(log, [b"a"])
    log.close()
    assert contents(open_log(tmp_path)) == [(1000, b"a")]


def test_truncating_before_the_start_resets_the_log_there(log):
    log.raise_log_start_offset(40)
    apply_retention(log, NOW)
    assert log.first_segment_offset > 20
    log.truncate_to(10, NOW)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
