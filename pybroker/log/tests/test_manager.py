"""A broker's log dirs and the logs in them."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.folders import parse_folder
from pybroker.log.dirs.log_dir import CLEAN_SHUTDOWN
from pybroker.log.files import checkpoints, leader_epochs
from pybroker.log.files.meta_properties import WrongOwner
from pybroker.log.files.storage import Bytes, Storage
from pybroker.log.manager import NoLogDir
from pybroker.log.tests.helpers import (
    NOW,
    TOPIC_ID,
    CountedLock,
    UnsyncedStorage,
    batch,
    contents,
    fill,
    numbered,
    open_files,
)  # fmt: skip
from pybroker.log.tests.managers import CONFIG, loaded, tp
from pybroker.log.validation import rules_for
from pybroker.tests.waiting import PATIENCE_S, until
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


def test_s80_restart_keeps_everything(tmp_path):
    logs = loaded(tmp_path)
    for index in range(3):
        log = logs.get_or_create(tp(index), TOPIC_ID, CONFIG)
        fill(log, numbered(40), epoch=index)
        log.update_high_watermark(30)
    logs.get(tp(1)).raise_log_start_offset(25)
    logs.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    logs = loaded(tmp_path)
    assert len(logs) == 3
    log = logs.get(tp(1))
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (
        25,
        30,
        40,
        40,
    )
    assert log.topic_id == TOPIC_ID
    assert [value for _, value in contents(logs.get(tp(2)))] == numbered(40)


def test_s80_a_killed_process_loses_nothing(tmp_path):
    log = loaded(tmp_path).get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(40))
    assert [value for _, value in contents(loaded(tmp_path).get(tp(0)))] == numbered(40)


def test_case_5_the_clean_shutdown_marker_is_gone_before_anything_is_loaded(tmp_path):
    logs = loaded(tmp_path)
    logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    logs.close()

    class Watching(UnsyncedStorage):
        def folders(self, path):
            assert not os.path.exists(f"{path}/{CLEAN_SHUTDOWN}")
            return super().folders(path)

    loaded(tmp_path, storage=Watching())
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_the_clean_shutdown_marker_is_written_last(tmp_path):
    storage = FaultyStorage()
    logs = loaded(tmp_path, storage=storage)
    fill(logs.get_or_create(tp(0), TOPIC_ID, CONFIG), [b"a"])
    storage.calls.clear()
    logs.close()
    synced = [os.path.basename(path) for kind, path in storage.calls if kind == "rename"]
    assert synced == [
        "recovery-point-offset-checkpoint.tmp",
        "log-start-offset-checkpoint.tmp",
        "replication-offset-checkpoint.tmp",
        "cleaner-offset-checkpoint.tmp",
        ".pybroker_closed_logs.tmp",
        ".kafka_cleanshutdown.tmp",
    ]


def test_case_12_no_clean_marker_where_a_sync_failed(tmp_path):
    storage = FaultyStorage()
    logs = loaded(tmp_path, storage=storage)
    fill(logs.get_or_create(tp(0), TOPIC_ID, CONFIG), [b"a"])
    storage.fail("sync", where=lambda path: path.endswith(".log"))
    logs.close()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_s76_checkpoints_name_every_log(tmp_path):
    logs = loaded(tmp_path)
    for index in range(2):
        log = logs.get_or_create(tp(index), TOPIC_ID, CONFIG)
        fill(log, numbered(10))
        log.update_high_watermark(7)
    logs.get(tp(1)).flush()
    logs.checkpoint_recovery_points()
    logs.checkpoint_high_watermarks()
    read = {
        name: checkpoints.read_offsets(Storage(), str(tmp_path / name))
        for name in (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK)
    }
    assert read == {
        checkpoints.RECOVERY_POINT: {tp(0): 0, tp(1): 10},
        checkpoints.HIGH_WATERMARK: {tp(0): 7, tp(1): 7},
    }


def test_new_logs_are_created_in_the_dir_with_the_fewest(tmp_path):
    logs = loaded(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    for index in range(7):
        logs.get_or_create(tp(index), TOPIC_ID, CONFIG)
    assert sorted(len(log_dir.logs) for log_dir in logs.dirs) == [2, 2, 3]
    assert len({log_dir.directory_id for log_dir in logs.dirs}) == 3


def test_a_log_can_be_requested_in_a_given_dir(tmp_path):
    logs = loaded(tmp_path / "a", tmp_path / "b")
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG, str(tmp_path / "b"))
    assert log.folder == str(tmp_path / "b" / "flights-0")
    with pytest.raises(errors.LogDirNotFound):
        logs.get_or_create(tp(1), TOPIC_ID, CONFIG, str(tmp_path / "c"))


def test_log_of_another_topic_of_the_same_name_is_not_taken(tmp_path):
    logs = loaded(tmp_path)
    logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    with pytest.raises(errors.InconsistentTopicId):
        logs.get_or_create(tp(0), b"\1" * 16, CONFIG)


def test_deleted_topic_is_gone_from_the_disk_when_the_call_returns(tmp_path):
    logs = loaded(tmp_path)
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(50))
    held = log.read(0, 1000)
    logs.delete(tp(0))
    assert logs.get(tp(0)) is None
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert len(held.read()) == held.size
    logs.delete(tp(0))
    again = logs.get_or_create(tp(0), b"\1" * 16, CONFIG)
    assert again.log_end_offset == 0


def test_deletion_that_was_cut_off_is_finished_at_the_next_start(tmp_path):
    logs = loaded(tmp_path)
    logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    logs.close()
    name = "flights-0.0123456789abcdef0123456789abcdef-delete"
    (tmp_path / "flights-0").rename(tmp_path / name)
    (tmp_path / "flights-1.0123456789abcdef0123456789abcdef-future").mkdir()
    logs = loaded(tmp_path)
    assert len(logs) == 0
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_topic_with_the_longest_name_can_be_deleted(tmp_path):
    logs = loaded(tmp_path)
    longest = TopicPartition("x" * 249, 10)
    logs.get_or_create(longest, TOPIC_ID, CONFIG)
    logs.delete(longest)
    assert not any(path.is_dir() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-0", ("a", 0)),
        ("a-b-12", ("a-b", 12)),
        ("a", None),
        ("-1", None),
        ("a-x", None),
        ("a-", None),
        ("a.u-delete", None),
    ],
)
def test_folders_are_named_topic_dash_partition(name, expected):
    assert parse_folder(name) == expected


def test_folders_that_are_not_logs_are_left_alone(tmp_path):
    (tmp_path / "lost+found").mkdir(parents=True)
    assert len(loaded(tmp_path)) == 0
    assert (tmp_path / "lost+found").exists()


def test_a_folder_named_like_a_log_without_log_files_is_left_alone(tmp_path):
    photos, old = tmp_path / "photos-2024", tmp_path / "old-0"
    (old / "year").mkdir(parents=True)
    photos.mkdir()
    (photos / "draft.tmp").write_text("somebody's")
    assert len(loaded(tmp_path)) == 0
    assert (photos / "draft.tmp").read_text() == "somebody's"
    assert [path.name for path in old.iterdir()] == ["year"]


@pytest.mark.parametrize("name", ["photos-0", "photos-0.7-delete", "photos-0.7-stray"])
def test_a_link_in_a_log_dir_is_not_followed(tmp_path, name):
    log_dir, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{0:020d}.log").write_bytes(b"")
    log_dir.mkdir()
    (log_dir / name).symlink_to(elsewhere)
    logs = loaded(log_dir)
    assert (len(logs), logs.strays) == (0, [])
    assert [path.name for path in elsewhere.iterdir()] == [f"{0:020d}.log"]


def test_log_dir_of_another_cluster_is_refused(tmp_path):
    loaded(tmp_path)
    with pytest.raises(WrongOwner):
        loaded(tmp_path, cluster_id="other")


# Failing dirs


def test_case_11_a_failed_log_dir_is_left_out_and_the_others_still_serve(tmp_path):
    storage = FaultyStorage()
    logs = loaded(tmp_path / "a", tmp_path / "b", storage=storage)
    for index in range(4):
        fill(logs.get_or_create(tp(index), TOPIC_ID, CONFIG), [b"a"])
    failed = []
    logs.on_dir_failure(failed.append)
    storage.fail("write", where=lambda path: path.startswith(str(tmp_path / "a")))
    good = bad = 0
    for log in logs:
        try:
            log.append_as_leader(batch(b"b"), 0, NOW)
            good += 1
        except errors.KafkaStorageError:
            bad += 1
    assert (good, bad) == (2, 2)
    assert failed == logs.offline_dirs == [logs.dirs[0]]
    assert not logs.all_failed
    assert logs.get_or_create(tp(9), TOPIC_ID, CONFIG).log_dir is logs.dirs[1]
    assert list(logs.retention_round(NOW)) == [0, 0, 0]
    logs.flush_due(NOW)
    logs.checkpoint_recovery_points()
    logs.checkpoint_high_watermarks()
    logs.close()
    assert not (tmp_path / "a" / CLEAN_SHUTDOWN).exists()
    assert (tmp_path / "b" / CLEAN_SHUTDOWN).exists()


def test_case_11_the_failure_of_all_dirs_is_reported(tmp_path):
    storage = FaultyStorage()
    logs = loaded(tmp_path, storage=storage)
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    storage.fail("write")
    with pytest.raises(errors.KafkaStorageError):
        log.append_as_leader(batch(b"b"), 0, NOW)
    assert logs.all_failed
    with pytest.raises(errors.KafkaStorageError):
        logs.get_or_create(tp(1), TOPIC_ID, CONFIG)


def test_a_log_dir_that_cannot_be_loaded_is_offline_and_without_any_the_start_fails(tmp_path):
    (tmp_path / "file").write_text("no folder")
    logs = loaded(tmp_path / "file", tmp_path / "good")
    assert logs.offline_dirs == [logs.dirs[0]]
    with pytest.raises(NoLogDir):
        loaded(tmp_path / "file")


# Periodic work


def test_flush_ms_syncs_logs_that_have_waited_long_enough(tmp_path):
    logs = loaded(tmp_path)
    log = logs.get_or_create(tp(0), TOPIC_ID, replace(CONFIG, flush_ms=1000))
    fill(log, [b"a"])
    logs.flush_due(NOW + 999)
    assert log.recovery_point == 0
    logs.flush_due(NOW + 1000)
    assert log.recovery_point == 1


def test_a_sealed_segment_is_synced_when_the_log_rolls(tmp_path):
    log = loaded(tmp_path).get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(40))
    assert log.recovery_point == log.active_segment.base_offset > 0


def test_equal_configurations_are_one_object(tmp_path):
    logs = loaded(tmp_path)
    first = logs.get_or_create(tp(0), TOPIC_ID, LogConfig(segment_bytes=5000))
    second = logs.get_or_create(tp(1), TOPIC_ID, LogConfig(segment_bytes=5000))
    assert first.config is second.config
    logs.reconfigure("flights", LogConfig(segment_bytes=6000))
    assert first.config.segment_bytes == second.config.segment_bytes == 6000
    assert first.config is second.config


def test_idle_logs_hold_no_open_file(tmp_path):
    logs = loaded(tmp_path)
    for index in range(20):
        fill(logs.get_or_create(tp(index), TOPIC_ID, CONFIG), [b"a"])
    logs.close()
    before = open_files(tmp_path)
    logs = loaded(tmp_path)
    assert open_files(tmp_path) == before
    fill(logs.get(tp(3)), [b"b"])
    assert len(open_files(tmp_path)) == len(before) + 1


class PausingStorage(Storage):
    """Pauses in the middle of writing an epoch file, until the test resumes it."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def write(self, path: str, data: Bytes) -> None:
        if path.endswith(leader_epochs.FILE_NAME):
            self.reached.set()
            assert self.go_on.wait(PATIENCE_S)
        super().write(path, data)


def test_background_work_on_a_log_that_is_being_deleted_is_no_disk_failure(tmp_path):
    storage = PausingStorage()
    logs = loaded(tmp_path, storage=storage)
    fill(logs.get_or_create(tp(0), TOPIC_ID, CONFIG), numbered(10))
    with ThreadPoolExecutor(2) as pool:
        saving = pool.submit(logs.checkpoint_recovery_points)
        assert storage.reached.wait(PATIENCE_S)
        deleting = pool.submit(logs.delete, tp(0))
        with pytest.raises(TimeoutError):
            deleting.result(0.05)
        storage.go_on.set()
        saving.result(PATIENCE_S)
        deleting.result(PATIENCE_S)
    assert logs.online_dirs
    assert not list(tmp_path.glob("flights*"))


def test_late_background_work_does_not_touch_a_deleted_log(tmp_path):
    logs = loaded(tmp_path)
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(10))
    logs.delete(tp(0))
    log.files.save_lagging()
    with pytest.raises(errors.KafkaStorageError):
        log.flush()
    assert logs.online_dirs


def test_a_file_that_another_program_has_removed_already_is_not_an_error(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).touch()
    unlink = os.unlink

    def twice(path: object, **options: object) -> None:
        unlink(path, **options)
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", twice)
    Storage().remove_folder(str(folder))
    assert not folder.exists()


def test_a_new_log_ignores_the_start_of_a_deleted_one_of_its_name(tmp_path):
    logs = loaded(tmp_path)
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(40))
    log.update_high_watermark(40)
    log.raise_log_start_offset(31)
    logs.checkpoint_log_start_offsets()
    logs.delete(tp(0))
    fill(logs.get_or_create(tp(0), bytes(range(1, 17)), CONFIG), numbered(20))
    assert [value for _, value in contents(loaded(tmp_path).get(tp(0)))] == numbered(20)


def test_a_start_removes_missing_logs_from_the_checkpoints(tmp_path):
    path = str(tmp_path / checkpoints.LOG_START)
    checkpoints.write_offsets(Storage(), path, {tp(0): 31})
    loaded(tmp_path)
    assert checkpoints.read_offsets(Storage(), path) == {}


def test_a_recovery_point_beyond_what_survived_is_lowered_on_the_disk_as_well(tmp_path):
    logs = loaded(tmp_path)
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(5))
    log.flush()
    logs.checkpoint_recovery_points()
    os.truncate(log.active_segment.path, log.active_segment.size - 1)
    loaded(tmp_path)
    read = checkpoints.read_offsets(Storage(), str(tmp_path / checkpoints.RECOVERY_POINT))
    assert read == {tp(0): 4}


def test_an_older_checkpoint_never_replaces_a_newer_one(tmp_path):
    class Slow(UnsyncedStorage):
        def replace(self, path, data):
            if path.endswith(checkpoints.LOG_START) and not entered.is_set():
                entered.set()
                waiting.wait(PATIENCE_S)
            super().replace(path, data)

    entered, waiting = threading.Event(), threading.Event()
    logs = loaded(tmp_path, storage=Slow())
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(9))
    log.update_high_watermark(9)
    lock = log.log_dir._checkpointing = CountedLock()
    with ThreadPoolExecutor(3) as pool:
        log.raise_log_start_offset(1)
        first = pool.submit(logs.checkpoint_log_start_offsets)
        assert entered.wait(PATIENCE_S)
        second = pool.submit(logs.checkpoint_log_start_offsets)
        until(lambda: lock.asked == 2)
        log.raise_log_start_offset(2)
        waiting.set()
        first.result(PATIENCE_S)
        second.result(PATIENCE_S)
    read = checkpoints.read_offsets(Storage(), str(tmp_path / checkpoints.LOG_START))
    assert read == {tp(0): 2}


def test_a_configuration_that_no_log_uses_is_forgotten(tmp_path):
    logs = loaded(tmp_path)
    some = [logs.get_or_create(tp(number), TOPIC_ID, replace(CONFIG, retention_ms=7)) for number in range(2)]
    assert some[0].config is some[1].config
    for retention_ms in range(100):
        logs.reconfigure("t", replace(CONFIG, retention_ms=retention_ms))
    assert some[0].config is some[1].config
    rules_for.cache_clear()  # it caches the last rules
    gc.collect()
    assert len(logs._configs) == 1
