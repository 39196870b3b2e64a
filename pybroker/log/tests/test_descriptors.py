"""A process without descriptors refuses requests; its disks have not failed."""

from __future__ import annotations

import contextlib
import errno

import pytest

from cy.batch import assign
from pybroker.log.appending import Origin
from pybroker.log.config import LogConfig
from pybroker.log.expiry import apply_retention
from pybroker.log.files import checkpoints, partition_metadata
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, batch, contents, idempotent, manager, marker, open_log
from pybroker.log.tests.test_compaction import Compacted, records
from pybroker.testing.faulty_storage import FaultyStorage
from pyclient.protocol import errors


def fill_up(log):
    """Appends until a segment is full."""
    for _ in range(20):
        log.append_as_leader(batch(b"y" * 100), 0, NOW)


def with_a_record(root) -> tuple[FaultyStorage, LogManager, Log]:
    """A log that has one, and what it lies on."""
    storage = FaultyStorage()
    logs = manager(root, storage=storage)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, LogConfig())
    log.append_as_leader(batch(b"a"), 0, NOW)
    return storage, logs, log


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("failing", [".log", "index", "snapshot"])
def test_a_roll_without_descriptors_refuses_the_append_and_the_next_one_is_good(tmp_path, failing, number):
    storage = FaultyStorage()
    log = open_log(tmp_path, LogConfig(segment_bytes=1024), storage=storage)
    for index in range(5):
        log.append_as_leader(batch(b"%d" % index * 100), 0, NOW)
    log.files.release()
    storage.fail("open", number, lambda path: failing in path)
    with pytest.raises(errors.KafkaStorageError):
        fill_up(log)
    assert not log.log_dir.offline
    end = log.log_end_offset
    storage.heal()
    for _ in range(20):
        log.append_as_leader(batch(b"x" * 100), 0, NOW)
    assert [offset for offset, _ in contents(log)] == list(range(end + 20))
    log.close()
    assert len(contents(open_log(tmp_path))) == end + 20


def test_a_read_without_descriptors_is_refused_and_the_next_one_is_good(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.update_high_watermark(1)
    log.files.release()
    storage.fail("open", errno.EMFILE)
    with pytest.raises(errors.KafkaStorageError):
        log.read(0, 1000)
    storage.heal()
    assert log.read(0, 1000).size
    assert not log.log_dir.offline


def test_a_disk_that_fails_is_offline_as_ever(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.files.release()
    storage.fail("open", errno.EIO)
    with pytest.raises(errors.KafkaStorageError):
        log.append_as_leader(batch(b"b"), 0, NOW)
    assert log.log_dir.offline


def synced(storage, since):
    """Which files and folders were synced since that call."""
    return {path.rpartition("/")[2] for kind, path in storage.calls[since:] if kind in ("sync", "sync_folder")}


@pytest.mark.parametrize("failing", [".log", ".txnindex", "partition.metadata", "leader-epoch", "t-0"])
def test_what_a_sync_without_descriptors_has_left_out_is_synced_by_the_next_one(tmp_path, failing):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(idempotent(0, transactional=True), 3, NOW)
    log.append_as_leader(marker(0), 3, NOW, origin=Origin.COORDINATOR)
    log.set_topic_id(b"\2" * 16)
    log.files.release()
    for kind in ("open", "sync_folder"):
        storage.fail(kind, errno.EMFILE, lambda path: failing in path.rpartition("/")[2])
    with pytest.raises(errors.KafkaStorageError):
        log.flush()
    assert not log.log_dir.offline
    assert log.recovery_point == 0
    storage.heal()
    before = len(storage.calls)
    log.flush()
    assert log.recovery_point == log.log_end_offset
    assert any(failing in name for name in synced(storage, before))


def test_a_cut_that_was_refused_before_its_checkpoint_was_written_writes_it_the_next_time(tmp_path):
    """Else a crash would find what is appended after the cut below a recovery point that is too high."""
    storage = FaultyStorage()
    logs = manager(tmp_path, storage=storage)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, LogConfig())
    for _ in range(10):
        log.append_as_leader(batch(b"x"), 0, NOW)
    log.flush()
    log.log_dir.checkpoint_recovery_points()
    storage.fail("open", errno.EMFILE, lambda path: "recovery-point" in path)
    with pytest.raises(errors.KafkaStorageError):
        log.truncate_to(4, NOW)
    assert not log.log_dir.offline
    assert log.log_end_offset == 10
    storage.heal()
    assert log.truncate_to(4, NOW)
    assert log.log_dir.read_checkpoint(checkpoints.RECOVERY_POINT) == {TP: 4}


def test_a_log_that_could_not_be_closed_without_descriptors_is_whole(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.files.release()
    storage.fail("open", errno.EMFILE)
    with pytest.raises(errors.KafkaStorageError):
        log.close()
    assert not log.log_dir.offline
    storage.heal()
    log.close()
    assert [value for _, value in contents(open_log(tmp_path))] == [b"a"]


def test_retention_without_descriptors_waits(tmp_path):
    storage = FaultyStorage()
    config = LogConfig(segment_bytes=300, retention_ms=1000)
    log = open_log(tmp_path, config, storage=storage)
    for _ in range(10):
        log.append_as_leader(batch(b"x" * 100), 0, NOW)
    log.close()
    log = open_log(tmp_path, config, storage=storage)
    log.update_high_watermark(10)
    storage.fail("open", errno.EMFILE)
    with pytest.raises(errors.KafkaStorageError):
        apply_retention(log, NOW + 10_000)
    assert not log.log_dir.offline
    storage.heal()
    assert apply_retention(log, NOW + 10_000)


@pytest.mark.parametrize("kind", ["open", "sync_folder"])
@pytest.mark.parametrize("failing", [".log", "stray.json", "root"])
def test_a_log_that_cannot_be_set_aside_without_descriptors_is_set_aside_later(tmp_path, failing, kind):
    storage, logs, log = with_a_record(tmp_path / "root")
    log.files.release()
    storage.fail(kind, errno.EMFILE, lambda path: failing in path.rpartition("/")[2] or kind == "sync_folder")
    with contextlib.suppress(errors.KafkaStorageError):
        logs.set_aside(*logs.take_out([TP]), "it is nobody's")
    logs.forget_deleted()
    assert not log.log_dir.offline
    storage.heal()
    logs.checkpoint_recovery_points()
    assert [stray.note.why for stray in logs.strays] == ["it is nobody's"]
    assert [value for _, value in contents(logs.get_or_create(TP, TOPIC_ID, LogConfig()))] == [b"a"]


def test_a_topic_of_the_name_waits_until_the_log_that_has_its_folder_is_set_aside(tmp_path):
    storage, logs, log = with_a_record(tmp_path)
    log.files.release()
    storage.fail("open", errno.EMFILE)
    with pytest.raises(errors.KafkaStorageError):
        logs.set_aside(*logs.take_out([TP]), "of another topic")
    with pytest.raises(errors.KafkaStorageError):
        logs.get_or_create(TP, b"\2" * 16, LogConfig())
    storage.heal()
    assert logs.get_or_create(TP, b"\2" * 16, LogConfig()).log_end_offset == 0
    assert [stray.topic_id for stray in logs.strays] == [TOPIC_ID]


@pytest.mark.parametrize("kind", ["sync_folder", "open"])
def test_a_stray_that_cannot_be_taken_back_without_descriptors_is_taken_back_later(tmp_path, kind):
    storage = FaultyStorage()
    logs = manager(tmp_path, storage=storage)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, LogConfig())
    for value in (b"deleted", b"a"):
        log.append_as_leader(batch(value), 0, NOW)
    log.update_high_watermark(2)
    log.raise_log_start_offset(1)
    logs.set_aside(*logs.take_out([TP]), "")
    logs.forget_deleted()
    storage.fail(kind, errno.EMFILE)
    with pytest.raises(errors.KafkaStorageError):
        logs.get_or_create(TP, TOPIC_ID, LogConfig())
    assert logs.online_dirs
    storage.heal()
    assert [value for _, value in contents(logs.get_or_create(TP, TOPIC_ID, LogConfig()))] == [b"a"]


@pytest.mark.parametrize("kind", ["open", "sync_folder"])
def test_a_log_that_is_deleted_without_descriptors_is_gone_and_its_files_go_when_that_is_durable(tmp_path, kind):
    storage, logs, log = with_a_record(tmp_path)
    storage.fail(kind, errno.EMFILE)
    logs.delete(TP)
    assert not log.log_dir.offline
    assert not (tmp_path / "t-0").exists()
    assert (tmp_path / log.folder.rpartition("/")[2]).exists() == (kind == "sync_folder")
    storage.heal()
    logs.get_or_create(TP, b"\2" * 16, LogConfig())
    logs.delete(TP)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_topic_id_that_could_not_be_written_without_descriptors_is_written_later(tmp_path):
    storage = FaultyStorage()
    logs = manager(tmp_path, storage=storage)
    logs.load()
    storage.fail("open", errno.EMFILE, lambda path: partition_metadata.FILE_NAME in path)
    with pytest.raises(errors.KafkaStorageError):
        logs.get_or_create(TP, TOPIC_ID, LogConfig())
    assert logs.online_dirs
    storage.heal()
    log = logs.get_or_create(TP, TOPIC_ID, LogConfig())
    assert partition_metadata.read(storage, log.folder) == TOPIC_ID


def test_an_abort_without_descriptors_for_its_index_is_appended_and_indexed_later(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.append_as_leader(idempotent(0, transactional=True), 0, NOW)
    storage.fail("open", errno.EMFILE, lambda path: ".txnindex" in path)
    log.append_as_leader(marker(0), 0, NOW, origin=Origin.COORDINATOR)
    assert not log.log_dir.offline
    assert log.log_end_offset == 2
    storage.heal()
    log.close()
    assert len(open_log(tmp_path).active_segment.txn_index) == 1


def test_an_index_that_cannot_be_written_without_descriptors_is_written_later(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.active_segment.index_interval_bytes = 0
    log.append_as_leader(batch(b"a"), 0, NOW)
    storage.fail("open", errno.EMFILE, lambda path: path.endswith("index"))
    for number in range(200):
        log.append_as_leader(batch(b"%d" % number), 0, NOW + number)
    assert not log.log_dir.offline
    storage.heal()
    log.close()
    assert len(open_log(tmp_path).active_segment.offset_index) == 200


@pytest.mark.parametrize("as_follower", [False, True])
@pytest.mark.parametrize("missing", [".index", ".timeindex", ".txnindex", ".log"])
def test_an_append_that_cannot_read_what_it_needs_is_refused_whole(tmp_path, monkeypatch, missing, as_follower):
    """Nothing is in the file that the log does not know of."""
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    log.active_segment.index_interval_bytes = 0
    for number in range(3):
        log.append_as_leader(idempotent(number, transactional=True), 0, NOW)
    log.flush()
    log.files.save_lagging()
    log.active_segment.files.forget()
    reading = storage.map

    def read(path):
        if path.endswith(missing):
            raise OSError(errno.EMFILE, "too many open files", path)
        return reading(path)

    monkeypatch.setattr(storage, "map", read)
    storage.fail("open", errno.EMFILE, lambda path: path.endswith(missing))
    ended = marker(0)
    if as_follower:
        assign(ended, 3, 0)

    def append():
        if as_follower:
            log.append_as_follower(ended, 0, NOW)
        else:
            log.append_as_leader(ended, 0, NOW, origin=Origin.COORDINATOR)

    size = log.active_segment.size
    with pytest.raises(errors.KafkaStorageError):
        append()
    assert not log.log_dir.offline
    assert (log.active_segment.size, log.log_end_offset) == (size, 3)
    storage.heal()
    monkeypatch.undo()
    append()
    assert log.log_end_offset == 4
    log.close()
    assert len(open_log(tmp_path).active_segment.txn_index) == 1


@pytest.mark.parametrize("kind", ["open", "read", "sync_folder"])
def test_a_compacted_segment_is_swapped_in_without_descriptors(tmp_path, kind):
    """From the first rename on it needs none; what needs one after the last puts off the end of the round."""
    storage = FaultyStorage()
    made = Compacted(tmp_path, storage=storage)
    for number in range(4):
        made.append((b"a", b"%d" % number))
    made.roll()
    renaming = storage.rename

    def rename(source, target):
        if target.endswith(".swap"):
            storage.fail(kind, errno.EMFILE)
        renaming(source, target)

    storage.rename = rename
    made.clean(roll=False)
    storage.rename = renaming
    assert not made.log.log_dir.offline
    assert not made.cleaner.uncleanable
    storage.heal()
    made.clean(roll=False)
    assert [value for _, _, value in records(made.log)] == [b"3"]
    made.logs.close()
    assert [value for _, _, value in records(Compacted(tmp_path).log)] == [b"3"]


def test_an_index_that_lags_for_a_lack_of_descriptors_is_whole_where_the_log_moves(tmp_path):
    storage = FaultyStorage()
    logs = manager(tmp_path / "a", tmp_path / "b", storage=storage)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, LogConfig(), f"{tmp_path}/a")
    log.append_as_leader(idempotent(0, transactional=True), 0, NOW)
    storage.fail("open", errno.EMFILE, lambda path: ".txnindex" in path)
    log.append_as_leader(marker(0), 0, NOW, origin=Origin.COORDINATOR)
    log.roll(NOW)
    storage.heal()
    move = logs.move(TP, f"{tmp_path}/b")
    move.copy()
    log.flush()
    assert move.switch()
    move.settle()
    logs.close()
    again = manager(tmp_path / "a", tmp_path / "b")
    again.load()
    assert len(again.get(TP).segments[0].txn_index) == 1
