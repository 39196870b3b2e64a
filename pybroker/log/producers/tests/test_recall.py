"""Batches before a producer's last one. No snapshot has them, so they are found in the log, with bounded work."""

from __future__ import annotations

import pytest

from pybroker.config.log_config import LogConfig
from pybroker.log.segment.segment import Segment
from pybroker.log.tests.helpers import NOW, idempotent, open_log
from pyclient.protocol import errors

OTHER = 8
LARGE, SMALL = (bytes(9_000),), (b"",) * 1_000
LAST = 0x7FFF_FFFF


class Others:
    """Fills a log with another producer's batches."""

    def __init__(self, log):
        self.log = log
        self.sequence = 0

    def send(self, values, count):
        for _ in range(count):
            self.log.append_as_leader(idempotent(self.sequence, *values, producer=OTHER), 0, NOW)
            self.sequence += len(values)


@pytest.fixture
def walked(monkeypatch):
    """Returns the positions of the batches that were read."""
    inner, seen = Segment.batches, []

    def batches(self, position=0):
        for located in inner(self, position):
            seen.append(located.position)
            yield located

    monkeypatch.setattr(Segment, "batches", batches)
    return seen


def send(log, sequence):
    return log.append_as_leader(idempotent(sequence), 0, NOW)


def reopened(tmp_path, log, config=None):
    log.close()
    return open_log(tmp_path, config, recovery_point=log.log_end_offset)


def test_the_search_for_a_batch_reads_little_if_small_batches_come_before_large_ones(tmp_path, walked):
    log = open_log(tmp_path)
    others = Others(log)
    others.send(SMALL, 20)
    others.send(LARGE, 400)
    offsets = [send(log, sequence).first_offset for sequence in range(5)]
    again = reopened(tmp_path, log)
    walked.clear()
    assert [send(again, sequence).first_offset for sequence in range(5)] == offsets
    assert 0 < len(walked) < 30


def test_batches_are_found_if_large_batches_come_before_small_ones(tmp_path):
    log = open_log(tmp_path)
    others = Others(log)
    others.send(LARGE, 400)
    offsets = []
    for sequence in range(5):
        offsets.append(send(log, sequence).first_offset)
        others.send(SMALL, 2)
    again = reopened(tmp_path, log)
    assert [send(again, sequence).first_offset for sequence in range(5)] == offsets


@pytest.mark.parametrize(
    ("segment_bytes", "values"), [(1 << 30, LARGE), (100, (b"",))], ids=["one segment", "a segment for each batch"]
)
def test_batches_too_far_back_are_searched_for_only_once(tmp_path, walked, segment_bytes, values):
    config = LogConfig(segment_bytes=segment_bytes)
    log = open_log(tmp_path, config)
    send(log, 0)
    Others(log).send(values, 250)
    send(log, 1)
    again = reopened(tmp_path, log, config)
    for is_first in (True, False):
        walked.clear()
        with pytest.raises(errors.DuplicateSequenceNumber):
            send(again, 0)
        assert bool(walked) is is_first
        assert len(walked) < 150
    assert send(again, 1).duplicate
    assert not send(again, 2).duplicate


def test_the_log_is_not_searched_for_a_producer_known_from_its_first_batch(tmp_path, walked):
    log = open_log(tmp_path)
    log.append_as_leader(idempotent(0, b"a", b"b"), 0, NOW)
    for each in (log, reopened(tmp_path, log)):
        walked.clear()
        with pytest.raises(errors.DuplicateSequenceNumber):
            send(each, 0)
        assert walked == []


def test_a_sequence_gap_is_no_duplicate_after_older_batches_are_read_back(tmp_path):
    log = open_log(tmp_path)
    for sequence in range(8):
        send(log, sequence)
    again = reopened(tmp_path, log)
    assert send(again, 5).duplicate
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        send(again, LAST)
    with pytest.raises(errors.DuplicateSequenceNumber):
        send(again, 0)


def test_case_11_a_read_error_in_the_search_for_a_duplicate_takes_the_log_dir_offline(tmp_path, monkeypatch):
    log = open_log(tmp_path)
    for sequence in range(5):
        send(log, sequence)
    again = reopened(tmp_path, log)

    def batches(self, position=0):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Segment, "batches", batches)
    with pytest.raises(errors.KafkaStorageError):
        send(again, 0)
    assert again.log_dir.offline
