"""A log begins another move before the last one has settled, or is deleted then, or the broker stops."""

from __future__ import annotations

import errno
import os

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import TOPIC_ID, TP, complete, contents, fill, manager, numbered
from pyclient.protocol import errors

CONFIG = LogConfig(segment_bytes=1000)
OTHER_ID = b"\1" * 16


def switched(root, storage: FaultyStorage | None = None) -> tuple[LogManager, Log]:
    """Returns a log that has moved to ``b`` while its old folder still has its name in ``a``."""
    logs = manager(root / "a", root / "b", root / "c", config=CONFIG, storage=storage)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, CONFIG, str(root / "a"))
    fill(log, numbered(20))
    move = logs.move(TP, str(root / "b"))
    assert move is not None
    move.copy()
    assert move.switch()
    return logs, log


def named(root) -> list[str]:
    """Returns the dirs that have a folder with the log's name."""
    return [name for name in "abc" if os.path.exists(root / name / str(TP))]


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["copying", "cancelled"])
def test_a_deletion_during_a_move_renames_every_folder_of_the_log(tmp_path, is_cancelled):
    logs, _ = switched(tmp_path)
    second = logs.move(TP, str(tmp_path / "c"))
    assert second is not None
    second.copy()
    if is_cancelled:
        second.cancel()
    logs.delete(TP)
    assert named(tmp_path) == []
    assert logs.get_or_create(TP, OTHER_ID, CONFIG, str(tmp_path / "a")).log_end_offset == 0


def test_a_first_move_is_reported_again_after_a_second_move_is_cancelled(tmp_path):
    logs, log = switched(tmp_path)
    first = logs.moving_to(TP)
    second = logs.move(TP, str(tmp_path / "c"))
    assert logs.moving_to(TP) is second
    assert logs.move(TP, str(tmp_path / "b")) is None, "it is there"
    assert logs.moving_to(TP) is first
    logs.close()
    assert named(tmp_path) == ["b"]
    assert log.folder == str(tmp_path / "b" / str(TP))


def test_a_second_move_of_a_log_completes_before_the_first_one(tmp_path):
    logs, log = switched(tmp_path)
    first = logs.moving_to(TP)
    complete(logs.move(TP, str(tmp_path / "c")))
    assert logs.moving_to(TP) is first
    first.settle()
    assert logs.moving_to(TP) is None
    assert named(tmp_path) == ["c"]
    assert [value for _, value in contents(log)] == numbered(20)


def test_a_deletion_renames_the_old_folder_if_the_new_ones_disk_has_failed(tmp_path):
    logs, log = switched(tmp_path)
    log.log_dir.fail(OSError(errno.EIO, "broken"), "testing")
    with pytest.raises(errors.KafkaStorageError):
        logs.moving_to(TP).settle()
    logs.delete(TP)
    assert named(tmp_path) == ["b"]
    assert logs.get_or_create(TP, OTHER_ID, CONFIG, str(tmp_path / "a")).log_end_offset == 0


def test_a_disk_that_has_failed_is_not_copied_from(tmp_path):
    logs, log = switched(tmp_path)
    move = logs.move(TP, str(tmp_path / "c"))
    move.copy()
    log.log_dir.fail(OSError(errno.EIO, "broken"), "testing")
    for step in (move.copy, move.switch):
        with pytest.raises(errors.KafkaStorageError, match="offline"):
            step()


def test_an_old_folder_with_records_is_not_used_for_a_new_log(tmp_path):
    logs, _ = switched(tmp_path)
    logs.close()
    logs = manager(tmp_path / "a", tmp_path / "b", tmp_path / "c", config=CONFIG)
    logs.load()
    os.rename(tmp_path / "b" / str(TP), tmp_path / "b" / "new-0")
    with pytest.raises(errors.KafkaStorageError, match="already exists and has records"):
        logs.get_or_create(TP._replace(topic="new"), OTHER_ID, CONFIG, str(tmp_path / "b"))
    assert logs.get(TP._replace(topic="new")) is None


def test_a_move_that_ran_out_of_descriptors_completes_later(tmp_path):
    storage = FaultyStorage()
    logs, log = switched(tmp_path, storage)
    move = logs.moving_to(TP)
    log.flush()
    storage.fail("sync_folder", errno.EMFILE, lambda path: path == f"{tmp_path}/a")
    with pytest.raises(errors.KafkaStorageError):
        move.settle()
    assert logs.moving_to(TP) is move
    storage.heal()
    move.settle()
    assert logs.moving_to(TP) is None
    assert named(tmp_path) == ["b"]
    assert not logs.offline_dirs
