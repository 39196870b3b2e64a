"""Deleted records stay deleted: an acknowledged log start survives a kill of the process and a power cut."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from proofs.crash import RecordingStorage, crash_images
from pybroker.config.log_config import LogConfig
from pybroker.log.expiry import apply_retention
from pybroker.log.files import checkpoints
from pybroker.log.files.storage import Storage
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, batch, fill, manager, numbered

CONFIG = LogConfig(segment_bytes=1000, retention_ms=-1)
ONE_SEGMENT = LogConfig(retention_ms=-1)


def begun(root: Path, config: LogConfig = CONFIG, storage: Storage | None = None) -> tuple[LogManager, Log]:
    """Makes a log of 40 records in ``a``, synced and in all checkpoint files; ``b`` is empty."""
    logs = manager(root / "a", root / "b", config=config, storage=storage)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, config, str(root / "a"))
    fill(log, numbered(40))
    log.flush()
    log.update_high_watermark(40)
    checkpoint(logs)
    return logs, log


def checkpoint(logs: LogManager) -> None:
    """Writes the checkpoints, as housekeeping does periodically."""
    logs.checkpoint_recovery_points()
    logs.checkpoint_high_watermarks()
    logs.checkpoint_log_start_offsets()


def delete_records(log: Log, offset: int) -> None:
    """Deletes records like ``ReplicaManager.delete_records``."""
    log.raise_log_start_offset(offset)
    apply_retention(log, NOW)
    log.keep_start()


def start_after(root: Path, config: LogConfig = CONFIG) -> int:
    """Returns the log start after the broker is started."""
    logs = manager(root / "a", root / "b", config=config)
    logs.load()
    log = logs.get(TP)
    assert log is not None
    return log.log_start_offset


def starts_after_crashes(
    storage: RecordingStorage, root: Path, promise: str, config: LogConfig, every: int = 1
) -> set[int]:
    """Returns the log starts after crashes at all moments since the promise."""
    found = set()
    for image in crash_images(storage.changes, losses=12, every=every):
        if promise in image.promises:
            image.write_to(str(root))
            found.add(start_after(root, config))
            shutil.rmtree(root)
    return found


@pytest.mark.parametrize("offset", [35, 40])
def test_records_deleted_up_to_a_segments_end_stay_deleted_after_a_power_cut(tmp_path, offset):
    storage = RecordingStorage(str(tmp_path / "live"))
    logs, log = begun(tmp_path / "live", storage=storage)
    delete_records(log, offset)
    storage.mark("deleted")
    checkpoint(logs)
    fill(log, numbered(1))
    log.flush()
    checkpoint(logs)
    assert starts_after_crashes(storage, tmp_path / "crashed", "deleted", CONFIG) == {offset}


def told(root: Path) -> dict[object, int]:
    return checkpoints.read_offsets(Storage(), f"{root}/{checkpoints.LOG_START}")


def test_the_checkpoint_keeps_the_log_start_until_a_segment_is_named_after_it(tmp_path):
    logs, log = begun(tmp_path)
    delete_records(log, 35)
    logs.checkpoint_log_start_offsets()
    assert (log.first_segment_offset, told(tmp_path / "a")) == (35, {TP: 35})
    fill(log, numbered(1))
    log.flush()
    logs.checkpoint_log_start_offsets()
    assert told(tmp_path / "a") == {}


@pytest.mark.parametrize("offset", [9, 20, 40])
def test_records_deleted_before_a_move_settles_stay_deleted_after_a_kill(tmp_path, offset):
    logs, log = begun(tmp_path)
    move = logs.move(TP, str(tmp_path / "b"))
    assert move is not None
    move.copy()
    assert move.switch()
    delete_records(log, offset)
    assert start_after(tmp_path) == offset


def test_records_deleted_before_a_move_stay_deleted_if_the_power_is_cut_before_it_settles(tmp_path):
    storage = RecordingStorage(str(tmp_path / "live"))
    logs, log = begun(tmp_path / "live", ONE_SEGMENT, storage)
    delete_records(log, 25)
    move = logs.move(TP, str(tmp_path / "live" / "b"))
    assert move is not None
    move.copy()
    fill(log, numbered(3))
    log.flush()
    storage.mark("deleted")
    assert move.switch()
    checkpoint(logs)
    move.settle()
    assert starts_after_crashes(storage, tmp_path / "crashed", "deleted", ONE_SEGMENT) == {25}


def test_the_old_log_dirs_checkpoint_forgets_a_log_after_its_move(tmp_path):
    logs, log = begun(tmp_path)
    delete_records(log, 7)
    move = logs.move(TP, str(tmp_path / "b"))
    assert move is not None
    move.copy()
    assert move.switch()
    checkpoint(logs)
    assert told(tmp_path / "a") == {TP: 7}
    move.settle()
    logs.forget_deleted()
    assert told(tmp_path / "a") == {}


def test_a_log_truncated_below_its_start_keeps_later_appends(tmp_path):
    """The leader's log ends below our log start, which is only possible after an unclean election."""
    _, log = begun(tmp_path)
    delete_records(log, 33)
    log.truncate_to(20, NOW)
    assert log.kept_start_offset <= log.log_start_offset == 20
    log.append_as_follower(batch(b"another", base_offset=20, epoch=1), 1, NOW)
    log.flush()
    assert start_after(tmp_path) == 20


def test_an_unchanged_log_start_is_not_written_again(tmp_path, monkeypatch):
    _, log = begun(tmp_path)
    delete_records(log, 7)
    written = []
    monkeypatch.setattr(checkpoints, "write_offsets", lambda *arguments: written.append(arguments))
    log.keep_start()
    log.log_dir.tell_log_start(TP, 5)
    assert written == []
    log.raise_log_start_offset(8)
    log.keep_start()
    assert len(written) == 1
