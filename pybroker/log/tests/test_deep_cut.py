"""A truncation below the undo journal runs in pieces. Until its end, the log is unchanged."""

from __future__ import annotations

import pytest

from pybroker.config.log_config import LogConfig
from pybroker.log import replay
from pybroker.log.appending import Origin
from pybroker.log.deep_cut import DeepCut
from pybroker.log.expiry import apply_retention
from pybroker.log.log import Log
from pybroker.log.tests.helpers import NOW, contents, idempotent, marker, open_log
from pyclient.protocol import errors

PIECE = 10


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    monkeypatch.setattr(replay, "PIECE_BATCHES", PIECE)


def make(root, config: LogConfig | None = None) -> Log:
    """Makes a log of a hundred batches of four producers, some transactional, with too short a journal."""
    log = open_log(root, config)
    for number in range(100):
        log.append_as_leader(idempotent(number // 3, b"%d" % number, producer=number % 3), number // 25, NOW)
        if number % 10 == 4:
            log.append_as_leader(idempotent(number // 10, b"x", producer=9, transactional=True), number // 25, NOW)
        elif number % 10 == 8:
            log.append_as_leader(marker(0, producer=9), number // 25, NOW, origin=Origin.COORDINATOR)
    log.producers._journal.begin_at(log.log_end_offset)
    return log


def told(log: Log) -> tuple[object, ...]:
    """Returns the state of the log: its ends, producers and transactions."""
    producers = sorted((each.producer_id, each.next_sequence, each.epoch) for each in log.producers.active())
    aborted = [each for segment in log.segments for each in segment.txn_index]
    return log.log_end_offset, log.size, len(log.segments), producers, aborted, log.producers.first_unstable_offset


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1000])
@pytest.mark.parametrize("offset", [119, 97, 60, 6, 0, 120])
def test_a_truncation_in_steps_has_the_same_result_as_one_at_once(tmp_path, offset, segment_bytes):
    config = LogConfig(segment_bytes=segment_bytes)
    log, expected = make(tmp_path / "a", config), make(tmp_path / "b", config)
    before = told(log)
    cut = DeepCut(log, offset)
    assert cut.takes_long == (log.first_segment_offset < offset < log.log_end_offset)
    pieces = 0
    while not cut.go_on(NOW):
        assert told(log) == before
        pieces += 1
    if segment_bytes > 1000 and cut.takes_long:
        assert pieces >= offset // PIECE
    expected.truncate_to(offset, NOW)
    assert told(log) == told(expected)
    assert [found for found, _ in contents(open_log(tmp_path / "a", config))] == list(range(offset))


def test_a_truncation_within_the_producer_journal_needs_one_step(tmp_path):
    log = make(tmp_path)
    log.producers._journal.begin_at(50)
    cut = DeepCut(log, 60)
    assert not cut.takes_long
    assert cut.go_on(NOW)
    assert log.log_end_offset == 60


@pytest.mark.parametrize("change", ["append", "cut", "retention"])
def test_a_log_that_changes_during_a_deep_truncation_is_read_again(tmp_path, change):
    config = LogConfig(segment_bytes=1000)
    log, expected = make(tmp_path / "a", config), make(tmp_path / "b", config)
    for each in (log, expected):
        each.update_high_watermark(40)
    cut = DeepCut(log, 90)
    assert not cut.go_on(NOW)
    for each in (log, expected):
        if change == "append":
            each.append_as_leader(idempotent(34, b"new", producer=0), 9, NOW)
        elif change == "cut":
            each.truncate_to(95, NOW)
            each.truncate_to(70, NOW)
            for number in range(25):
                each.append_as_leader(idempotent(number, b"other", producer=5), 9, NOW)
            each.producers._journal.begin_at(each.log_end_offset)
        else:
            each.raise_log_start_offset(30)
            assert apply_retention(each, NOW)
    while not cut.go_on(NOW):
        pass
    expected.truncate_to(90, NOW)
    assert told(log) == told(expected)


def test_a_log_dir_failure_ends_a_deep_truncation(tmp_path):
    log = make(tmp_path)
    cut = DeepCut(log, 100)
    assert not cut.go_on(NOW)
    log.log_dir.fail(OSError(5, "broken"), "testing")
    with pytest.raises(errors.KafkaStorageError):
        cut.go_on(NOW)
    assert log.log_end_offset == 120
