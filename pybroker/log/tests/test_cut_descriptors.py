"""All files that a truncation needs are open before it begins, and stay open: see ``test_descriptors``."""

from __future__ import annotations

import pytest

from cy.batch import assign
from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log import truncation
from pybroker.log.appending import Origin
from pybroker.log.files.index_file import IndexFile
from pybroker.log.log import Log
from pybroker.log.tests.helpers import NOW, idempotent, marker, open_log

CONFIG = LogConfig(segment_bytes=600)


def make(root, storage) -> Log:
    """Makes a log of twenty offsets in several segments, with producers and an aborted transaction."""
    log = open_log(root, CONFIG, storage=storage)
    log.append_as_leader(idempotent(0, b"x" * 90, producer=9, transactional=True), 0, NOW)
    log.append_as_leader(marker(0, producer=9), 0, NOW, origin=Origin.COORDINATOR)
    for number in range(16):
        log.append_as_leader(idempotent(number, b"%d" % number * 40), number // 5, NOW)
    log.append_as_leader(idempotent(0, b"y", producer=8, transactional=True), 4, NOW)
    log.append_as_leader(marker(0, producer=8), 4, NOW, origin=Origin.COORDINATOR)
    log.flush()
    log.files.save_lagging()
    return log


def told(log: Log) -> tuple[object, ...]:
    """Returns the state of the log: its ends, producers and transactions."""
    producers = sorted((each.producer_id, each.next_sequence, each.epoch) for each in log.producers.active())
    aborted = [each for segment in log.segments for each in segment.txn_index]
    return log.log_start_offset, log.log_end_offset, log.size, len(log.segments), producers, aborted


def idle(log: Log) -> None:
    for segment in log.segments:
        segment.files.forget()


def cut_with_the_last_descriptors(log: Log, storage: FaultyStorage, offset: int) -> None:
    """Truncates the log. Just before the change, other files are opened until the cache has closed all that it may
    close. From then on, no file can be opened.
    """
    lower = truncation._lower

    def lower_and_take_all(log: Log, end: int) -> None:
        lower(log, end)
        cache = log.log_dir.cache
        for _ in range(2 * cache._limit + 1):
            cache.admit(IndexFile(storage, cache, log.folder, 0))
        storage.descriptors_left = 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(truncation, "_lower", lower_and_take_all)
        log.truncate_to(offset, NOW)
    storage.heal()
    assert not log.log_dir.offline


@pytest.mark.parametrize("is_deep", [False, True])
@pytest.mark.parametrize("offset", [19, 17, 11, 7, 1])
def test_the_files_that_a_truncation_needs_stay_open_until_it_ends(tmp_path, offset, is_deep):
    """The defect: the cache closed the segment's file before the truncation, when no descriptor was left."""
    storage = FaultyStorage()
    log, expected = make(tmp_path / "a", storage), make(tmp_path / "b", FaultyStorage())
    if is_deep:
        for each in (log, expected):
            each.producers._journal.begin_at(each.log_end_offset)
    idle(log)
    cut_with_the_last_descriptors(log, storage, offset)
    expected.truncate_to(offset, NOW)
    assert told(log) == told(expected)
    assert log.active_segment.files in log.log_dir.cache._holders


def test_a_truncation_in_a_compaction_gap_opens_no_file_once_it_has_begun(tmp_path):
    """The defect: the end was below the reach of the producers' journal, so the truncation read the log halfway."""
    storage = FaultyStorage()
    log = open_log(tmp_path, CONFIG, storage=storage)
    log.append_as_follower(idempotent(0, b"x"), 0, NOW)
    log.roll(NOW)
    after_a_gap = idempotent(1, b"y")
    assign(after_a_gap, 5, 0)
    log.append_as_follower(after_a_gap, 0, NOW)
    log.producers.take_snapshot(3)
    log.producers._journal.begin_at(5)
    idle(log)
    cut_with_the_last_descriptors(log, storage, 5)
    assert log.log_end_offset == log.producers.end_offset == 1
    assert log.producers._snapshots == [1]
