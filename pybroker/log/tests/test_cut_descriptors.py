"""A log is cut whole or, where a descriptor is missing, not at all."""

from __future__ import annotations

import errno

import pytest

from pybroker.log.appending import Origin
from pybroker.log.config import LogConfig
from pybroker.log.log import Log
from pybroker.log.tests.helpers import NOW, batch, contents, idempotent, marker, open_log
from pybroker.testing.faulty_storage import FaultyStorage
from pyclient.protocol import errors

CONFIG = LogConfig(segment_bytes=600)
SUFFIXES = [".log", ".index", ".timeindex", ".txnindex", ".snapshot", "checkpoint.tmp", ".log.tmp", ""]


class Exhausted(FaultyStorage):
    """Files with that suffix cannot be opened, mapped or read."""

    suffix: str | None = None

    def check(self, kind: str, path: str) -> None:
        if kind in ("open", "read", "map", "sync_folder") and self.suffix is not None and path.endswith(self.suffix):
            raise OSError(errno.EMFILE, "too many open files", path)
        super().check(kind, path)

    def map(self, path):
        self.check("map", path)
        return super().map(path)


def make(root, storage) -> Log:
    """Twenty offsets in several segments, with producers, and a transaction that was aborted."""
    log = open_log(root, CONFIG, storage=storage)
    log.append_as_leader(idempotent(0, b"x" * 90, producer=9, transactional=True), 0, NOW)
    log.append_as_leader(marker(0, producer=9), 0, NOW, origin=Origin.COORDINATOR)
    for number in range(16):
        log.append_as_leader(idempotent(number, b"%d" % number * 40), number // 5, NOW)
    log.append_as_leader(idempotent(0, b"y", producer=8, transactional=True), 4, NOW)
    log.append_as_leader(marker(0, producer=8), 4, NOW, origin=Origin.COORDINATOR)
    log.flush()
    log.save_lagging_files()
    return log


def told(log: Log) -> tuple[object, ...]:
    """What the log says of itself."""
    producers = sorted((each.producer_id, each.next_sequence, each.epoch) for each in log.producers.active())
    aborted = [each for segment in log.segments for each in segment.txn_index]
    return log.log_start_offset, log.log_end_offset, log.size, len(log.segments), producers, aborted


def idle(log: Log) -> None:
    for segment in log.segments:
        segment.forget()


@pytest.mark.parametrize("is_deep", [False, True])
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("offset", [19, 17, 11, 7, 1])
def test_a_cut_without_descriptors_is_whole_or_is_refused(tmp_path, offset, suffix, is_deep):
    storage = Exhausted()
    log, expected = make(tmp_path / "a", storage), make(tmp_path / "b", FaultyStorage())
    log.clean_offset = expected.clean_offset = 12
    if is_deep:  # the journal does not reach back
        for each in (log, expected):
            each.producers._journal.begin_at(each.log_end_offset)
    before = told(log)
    idle(log)
    storage.suffix = suffix
    refused = False
    try:
        log.truncate_to(offset, NOW)
    except errors.KafkaStorageError:
        refused = True
    assert not log.log_dir.offline
    storage.suffix = None
    if refused:
        assert told(log) == before
        assert len(contents(log)) == 20
        log.truncate_to(offset, NOW)
    expected.truncate_to(offset, NOW)
    assert told(log) == told(expected)
    log.append_as_leader(batch(b"next"), 7, NOW)
    log.close()
    again = open_log(tmp_path / "a", CONFIG)
    assert [found for found, _ in contents(again)] == list(range(log.log_end_offset))
    assert told(again)[5] == told(expected)[5]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("offset", [0, 7, 40])
def test_a_log_starts_over_without_descriptors_or_stays_as_it_is(tmp_path, offset, suffix):
    storage = Exhausted()
    log = make(tmp_path, storage)
    log.clean_offset = 12
    before = told(log)
    idle(log)
    storage.suffix = suffix
    refused = False
    try:
        log.truncate_fully_and_start_at(offset, NOW)
    except errors.KafkaStorageError:
        refused = True
    assert not log.log_dir.offline
    storage.suffix = None
    if refused:
        assert told(log) == before
        assert len(contents(log)) == 20
        log.truncate_fully_and_start_at(offset, NOW)
    assert told(log)[:4] == (offset, offset, 0, 1)
    log.append_as_leader(batch(b"next"), 7, NOW)
    log.update_high_watermark(offset + 1)
    log.close()
    assert contents(open_log(tmp_path, CONFIG)) == [(offset, b"next")]
