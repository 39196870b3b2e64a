"""A log is deleted while another thread syncs it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from pybroker.config.log_config import LogConfig
from pybroker.log.log import Log
from pybroker.log.log_files import LogFiles
from pybroker.log.segment.segment_files import SegmentFiles
from pybroker.log.tests.helpers import TOPIC_ID, TP, fill, manager, numbered
from pyclient.protocol import errors

CONFIG = LogConfig(segment_bytes=1000)
PATIENCE_S = 2.0


def deleted_at_the_first_sync(monkeypatch: pytest.MonkeyPatch, logs, log: Log) -> tuple[list[str], list[Future[None]]]:
    """Lets a deletion begin with the first sync. Returns the synced files, and the future of the deletion."""
    synced: list[str] = []
    deletions: list[Future[None]] = []
    begun = threading.Event()
    sync, forsake = SegmentFiles.sync, LogFiles.forsake

    def noted(self: SegmentFiles, *, with_indexes: bool) -> None:
        synced.append(str(self))
        if not deletions:
            deletions.append(pool.submit(logs.delete, TP))
            begun.wait(PATIENCE_S)
        sync(self, with_indexes=with_indexes)

    def told(self: LogFiles) -> None:
        forsake(self)
        begun.set()

    pool = ThreadPoolExecutor(1)
    monkeypatch.setattr(SegmentFiles, "sync", noted)
    monkeypatch.setattr(LogFiles, "forsake", told)
    return synced, deletions


def test_a_deletion_waits_for_at_most_one_file_sync(tmp_path, monkeypatch):
    """The defect: metadata wait for deletions, so the whole cluster waited for the sync of all segments."""
    logs = manager(tmp_path, config=CONFIG)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, CONFIG)
    fill(log, numbered(60))
    assert len(log.segments) > 5
    synced, deletions = deleted_at_the_first_sync(monkeypatch, logs, log)
    with pytest.raises(errors.KafkaStorageError, match="has been deleted"):
        log.flush()
    assert len(synced) == 1
    deletions[0].result(30)
    assert logs.get(TP) is None
    assert not logs.dirs[0].offline


def test_both_folders_are_removed_if_a_log_is_deleted_during_its_move(tmp_path, monkeypatch):
    """Otherwise the old folder would keep the log's name, and be a log again after the next start."""
    logs = manager(tmp_path / "a", tmp_path / "b", config=CONFIG)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, CONFIG, str(tmp_path / "a"))
    fill(log, numbered(60))
    move = logs.move(TP, str(tmp_path / "b"))
    assert move is not None
    while not move.switch():
        move.copy()
    fill(log, numbered(60))
    synced, deletions = deleted_at_the_first_sync(monkeypatch, logs, log)
    move.settle()
    deletions[0].result(30)
    assert len(synced) == 1
    assert not [name for each in "ab" for name in os.listdir(tmp_path / each) if name.startswith(str(TP))]
    assert not any(log_dir.offline for log_dir in logs.dirs)
