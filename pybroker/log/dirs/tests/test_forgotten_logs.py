"""Checkpoint files have no entry of a deleted log once another log has its name."""

from __future__ import annotations

from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files import checkpoints
from pybroker.log.files.storage import Storage
from pybroker.log.tests.helpers import TOPIC_ID, TP, fill, manager, numbered
from pybroker.topic_partition import TopicPartition

OTHERS = [TopicPartition("t", 1), TopicPartition("t", 2)]
CONFIG = LogConfig()
FILES = (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.HIGH_WATERMARK, checkpoints.CLEANER)


def loaded(path, storage=None):
    logs = manager(path, config=CONFIG, storage=storage)
    logs.load()
    return logs


def remembered(path):
    """Returns the logs that have entries in the checkpoint files of this dir."""
    return {tp for name in FILES for tp in checkpoints.read_offsets(Storage(), str(path / name))}


def make(logs, topic_partition=TP):
    log = logs.get_or_create(topic_partition, TOPIC_ID, CONFIG)
    fill(log, numbered(3))
    log.flush()


def after(monkeypatch, name, deed):
    """Lets another thread do ``deed`` the next time that this step of ``LogDir`` ends."""
    step = getattr(LogDir, name)

    def then(self):
        monkeypatch.setattr(LogDir, name, step)
        step(self)
        deed()

    monkeypatch.setattr(LogDir, name, then)


def test_checkpoint_files_forget_deleted_logs_together(tmp_path):
    storage = FaultyStorage()
    logs = loaded(tmp_path, storage)
    for each in (TP, *OTHERS):
        make(logs, each)
    logs.checkpoint_recovery_points()
    storage.calls.clear()
    logs.delete(TP)
    logs.delete(OTHERS[0])
    assert not any(kind == "rename" and path.endswith(".tmp") for kind, path in storage.calls)
    logs.checkpoint_high_watermarks()
    assert remembered(tmp_path) == {OTHERS[1]}


def test_checkpoint_files_forget_a_log_before_another_one_gets_its_name(tmp_path):
    logs = loaded(tmp_path)
    make(logs)
    logs.checkpoint_recovery_points()
    logs.delete(TP)
    assert logs.may_remember(TP)
    assert remembered(tmp_path) == {TP}
    logs.get_or_create(TP, TOPIC_ID, CONFIG)
    assert remembered(tmp_path) == set()
    assert not logs.may_remember(TP)


def test_a_log_created_and_deleted_during_a_checkpoint_write_is_removed_later(tmp_path, monkeypatch):
    """The defect: the deleted log counted as removed from the files before they had the entry of the next one."""
    logs = loaded(tmp_path)
    log_dir = logs.dirs[0]
    log_dir.stale.add(TP)

    def come():
        make(logs)
        after(monkeypatch, "checkpoint_high_watermarks", lambda: logs.take_out([TP]))

    after(monkeypatch, "checkpoint_recovery_points", come)
    log_dir.write_checkpoints()
    assert (remembered(tmp_path), log_dir.stale) == ({TP}, {TP})
    log_dir.write_checkpoints()
    assert (remembered(tmp_path), log_dir.stale) == (set(), set())
