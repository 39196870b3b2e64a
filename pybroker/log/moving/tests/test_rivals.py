"""Two log dirs have a log of the same name: the longer one is used, and records that only the other one has are kept.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.log_dir import CLEAN_SHUTDOWN, LogDir
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.startup import recovery
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, batch, complete, contents, fill, manager, numbered
from pybroker.topic_partition import TopicPartition

CONFIG = LogConfig(segment_bytes=1000)
OTHER_ID = b"\1" * 16


def loaded(root: Path) -> LogManager:
    logs = manager(root / "a", root / "b", config=CONFIG)
    logs.load()
    return logs


def two_copies(root: Path, count: int = 40) -> None:
    """Makes a log in ``a``, and a whole copy in ``b``, like a move that was interrupted between its two renames."""
    logs = loaded(root)
    log = logs.get_or_create(TP, TOPIC_ID, CONFIG, str(root / "a"))
    fill(log, numbered(count), epoch=1)
    log.flush()
    log.files.save_lagging()
    shutil.copytree(root / "a" / "t-0", root / "b" / "t-0")


def folders(root: Path) -> list[str]:
    """Returns the folders as ``dir/name``, without the unique ids."""
    names = [(path.parent.name, path.name.split(".")) for path in root.glob("[ab]/*") if path.is_dir()]
    return sorted(f"{parent}/{name[0]}{name[1][32:] if len(name) > 1 else ''}" for parent, name in names)


def test_a_start_never_prefers_an_incomplete_folder_to_a_complete_one(tmp_path):
    for number in range(4):
        root = tmp_path / str(number)
        two_copies(root)
        files = sorted((root / "a" / "t-0").glob("*.log"))
        lost = (files[:1], files[-1:], files[2:4], files[1:])[number]
        for file in lost:
            file.unlink()
        log = loaded(root).get(TP)
        assert log.folder == str(root / "b" / "t-0")
        assert [value for _, value in contents(log)] == numbered(40)


def test_a_start_keeps_one_of_two_equal_copies_of_a_log(tmp_path):
    two_copies(tmp_path)
    assert [value for _, value in contents(loaded(tmp_path).get(TP))] == numbered(40)
    assert folders(tmp_path) == ["a/t-0"]


def test_a_second_copy_with_records_that_the_kept_log_lacks_becomes_a_stray(tmp_path):
    two_copies(tmp_path)
    shutil.move(tmp_path / "b", tmp_path / "away")
    logs = loaded(tmp_path)
    fill(logs.get(TP), [b"only here"], epoch=1)
    logs.close()
    shutil.rmtree(tmp_path / "b")
    shutil.move(tmp_path / "away", tmp_path / "b")
    logs = manager(tmp_path / "b", config=CONFIG)
    logs.load()
    fill(logs.get(TP), [b"in a later epoch"], epoch=2)
    logs.get(TP).files.save_lagging()
    log = loaded(tmp_path).get(TP)
    assert contents(log)[-1] == (40, b"in a later epoch")
    assert folders(tmp_path) == ["a/t-0-stray", "b/t-0"]
    assert len(loaded(tmp_path)) == 1


def test_a_crash_in_the_middle_of_a_start_that_displaces_a_log_loses_no_checkpoint(tmp_path, monkeypatch):
    """The defect: checkpoint files are written as a whole, and lost the entries of logs that were not open yet."""
    two_copies(tmp_path)
    logs = manager(tmp_path / "b", config=CONFIG)
    logs.load()
    other = TopicPartition("z", 0)
    log = logs.get_or_create(other, OTHER_ID, CONFIG)
    fill(log, numbered(20))
    log.update_high_watermark(18)
    log.raise_log_start_offset(15)
    logs.dirs[0].write_checkpoints()
    (tmp_path / "b" / CLEAN_SHUTDOWN).unlink(missing_ok=True)

    def crash_there(log_dir: LogDir, topic_partition: TopicPartition, *args: Any, **options: Any) -> Log:
        if topic_partition == other:
            raise SystemExit("killed")
        return load(log_dir, topic_partition, *args, **options)

    load = recovery.load
    monkeypatch.setattr(recovery, "load", crash_there)
    with pytest.raises(SystemExit):
        loaded(tmp_path)
    monkeypatch.undo()
    log = loaded(tmp_path).get(other)
    assert (log.log_start_offset, log.high_watermark) == (15, 18)


def test_the_topic_id_in_the_metadata_decides_which_of_two_logs_of_one_name_is_used(tmp_path):
    logs = loaded(tmp_path)
    fill(logs.get_or_create(TP, TOPIC_ID, CONFIG, str(tmp_path / "a")), numbered(9))
    logs = manager(tmp_path / "b", config=CONFIG)
    logs.load()
    fill(logs.get_or_create(TP, OTHER_ID, CONFIG), [b"the new topic"])
    logs = loaded(tmp_path)
    logs.set_aside(*logs.take_out([TP]), "of another topic")
    log = logs.get_or_create(TP, OTHER_ID, CONFIG)
    assert contents(log) == [(0, b"the new topic")]
    assert folders(tmp_path) == ["a/t-0-stray", "b/t-0"]
    log.append_as_leader(batch(b"more"), 0, NOW)
    logs.close()
    assert loaded(tmp_path).get(TP).log_end_offset == 2


def test_a_replica_can_move_to_a_dir_with_its_old_remains(tmp_path):
    two_copies(tmp_path)
    next((tmp_path / "b" / "t-0").glob("*.log")).unlink()
    logs = loaded(tmp_path)
    move = logs.move(TP, str(tmp_path / "b"))
    move.copy()
    complete(move)
    assert not logs.offline_dirs
    assert [value for _, value in contents(loaded(tmp_path).get(TP))] == numbered(40)
    assert os.path.exists(tmp_path / "b" / "t-0")
