"""A log is cut whole or, where a descriptor is missing, not at all."""

from __future__ import annotations

import errno

import pytest

from cy.batch import assign
from pybroker.log import truncation
from pybroker.log.appending import Origin
from pybroker.log.config import LogConfig
from pybroker.log.files.index_file import IndexFile
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
    log.files.save_lagging()
    return log


def told(log: Log) -> tuple[object, ...]:
    """What the log says of itself."""
    producers = sorted((each.producer_id, each.next_sequence, each.epoch) for each in log.producers.active())
    aborted = [each for segment in log.segments for each in segment.txn_index]
    return log.log_start_offset, log.log_end_offset, log.size, len(log.segments), producers, aborted


def idle(log: Log) -> None:
    for segment in log.segments:
        segment.files.forget()


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


class LastDescriptor(FaultyStorage):
    """From some moment on nothing can be opened."""

    is_exhausted = False

    def open(self, path, *, create=False):
        if self.is_exhausted:
            raise OSError(errno.EMFILE, "too many open files", path)
        return super().open(path, create=create)

    def read(self, path):
        return self.open(path).read(1 << 20, 0)

    def map(self, path):
        return self.read(path)


def cut_with_the_last_descriptors(log: Log, storage: LastDescriptor, offset: int) -> None:
    """When all is ready for the cut, other files are opened until the cache has closed what it may; then none can be
    opened any more.
    """
    lower = truncation._lower

    def lower_and_take_all(log: Log, end: int) -> None:
        lower(log, end)
        cache = log.log_dir.cache
        for _ in range(2 * cache._limit + 1):
            cache.admit(IndexFile(storage, cache, log.folder, 0))
        storage.is_exhausted = True

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(truncation, "_lower", lower_and_take_all)
        log.truncate_to(offset, NOW)
    storage.is_exhausted = False
    assert not log.log_dir.offline


@pytest.mark.parametrize("is_deep", [False, True])
@pytest.mark.parametrize("offset", [19, 17, 11, 7, 1])
def test_what_a_cut_needs_stays_open_until_it_is_over(tmp_path, offset, is_deep):
    """The cache of open files closed the segment's between its opening and the cut, when no descriptor was left."""
    storage = LastDescriptor()
    log, expected = make(tmp_path / "a", storage), make(tmp_path / "b", FaultyStorage())
    if is_deep:
        for each in (log, expected):
            each.producers._journal.begin_at(each.log_end_offset)
    idle(log)
    cut_with_the_last_descriptors(log, storage, offset)
    expected.truncate_to(offset, NOW)
    assert told(log) == told(expected)
    assert log.active_segment.files in log.log_dir.cache._holders


def test_a_cut_where_compaction_has_left_nothing_reads_no_log_when_it_has_begun(tmp_path):
    """The end fell below what the journal of producers knows: the log was read in the middle of the cut."""
    storage = LastDescriptor()
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
