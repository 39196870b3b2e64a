"""Operations that wait for a sync of files or of names, and that fail with it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.log.files.storage import Storage
from pybroker.log.tests.helpers import NOW, TOPIC_ID, CountedLock, batch, fill, numbered
from pybroker.log.tests.managers import CONFIG, loaded, tp
from pybroker.tests.waiting import PATIENCE_S, until
from pyclient.protocol import errors


def test_case_12_a_waiter_of_a_failed_sync_does_not_retry(tmp_path):
    storage = FaultyStorage()
    log = loaded(tmp_path, storage=storage).get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(3))
    lock = log.files.durability._lock = CountedLock(threading.RLock())
    with ThreadPoolExecutor(1) as pool, log.files.undisturbed():
        asked = lock.asked
        waiting = pool.submit(log.flush)
        until(lambda: lock.asked > asked)
        synced = storage.count("sync")
        log.log_dir.fail(OSError(5, "EIO"), "syncing")
    with pytest.raises(errors.KafkaStorageError):
        waiting.result(PATIENCE_S)
    assert storage.count("sync") == synced
    assert log.recovery_point == 0


def test_a_failed_sync_of_names_fails_its_waiters(tmp_path):
    storage = FaultyStorage()
    logs = loaded(tmp_path, storage=storage)
    first, second = (logs.get_or_create(tp(index), TOPIC_ID, CONFIG) for index in range(2))
    fill(second, numbered(3))
    storage.fail("sync_folder", where=lambda path: path == str(tmp_path))
    with pytest.raises(errors.KafkaStorageError):
        first.log_dir.sync_names()
    with pytest.raises(errors.KafkaStorageError):
        second.log_dir.sync_names()
    assert second.recovery_point == 0


@pytest.mark.parametrize("epoch_changes", [False, True])
def test_a_segment_created_during_a_sync_of_names_needs_another_sync(tmp_path, epoch_changes):
    class Rolling(Storage):
        def sync_folder(self, path):
            super().sync_folder(path)
            if armed and path == log.folder:
                armed.clear()
                log.roll(NOW)

    armed: list[int] = []
    log = loaded(tmp_path, storage=Rolling()).get_or_create(tp(0), TOPIC_ID, CONFIG)
    log.log_dir.on_roll = lambda log: None
    fill(log, numbered(1))
    if not epoch_changes:
        log.flush()
        log.files.durability.names_synced = False
        log.append_as_leader(batch(b"w"), 0, NOW)
    armed.append(1)
    log.flush()
    assert not armed
    assert not log.files.durability.names_synced


def test_a_sync_during_the_creation_of_a_segment_does_not_cover_its_name(tmp_path):
    class Syncing(Storage):
        def open(self, path, *, create=False):
            if create and path.endswith(".log") and armed:
                armed.clear()
                log.flush()
            return super().open(path, create=create)

    armed: list[int] = []
    log = loaded(tmp_path, storage=Syncing()).get_or_create(tp(0), TOPIC_ID, CONFIG)
    fill(log, numbered(1))
    armed.append(1)
    log.roll(NOW)
    assert not armed
    assert not log.files.durability.names_synced
