"""A new log has no files of segments before it has records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proofs.crash import RecordingStorage, crash_images
from pybroker.config.log_config import LogConfig
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, UnsyncedStorage, contents, fill, manager, open_log

EMPTY = ["partition.metadata"]
WRITTEN = [*(f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")), *EMPTY]


@pytest.fixture
def logs(tmp_path: Path) -> LogManager:
    made = manager(tmp_path)
    made.load()
    return made


def make(logs: LogManager) -> Log:
    return logs.get_or_create(TP, TOPIC_ID, LogConfig())


def files(log: Log) -> list[str]:
    return sorted(os.listdir(log.folder))


def test_a_new_log_gets_its_files_with_its_first_record(logs: LogManager) -> None:
    log = make(logs)
    assert files(log) == EMPTY
    fill(log, [b"a"])
    assert files(log) == WRITTEN
    assert contents(log) == [(0, b"a")]


def test_a_log_without_records_is_read_synced_and_closed_without_files(logs: LogManager, tmp_path: Path) -> None:
    log = make(logs)
    assert not contents(log)
    assert log.segments[0].largest_timestamp == NOW
    assert log.flush() == 0
    log.files.save_lagging()
    logs.close()
    assert files(log) == EMPTY
    again = manager(tmp_path)
    again.load()
    found = again.get(TP)
    assert found is not None
    assert (found.log_end_offset, found.topic_id) == (0, TOPIC_ID)
    assert files(found) == EMPTY


def test_an_unwritten_log_is_still_empty_after_a_crash(logs: LogManager, tmp_path: Path) -> None:
    log = make(logs)
    again = open_log(tmp_path, clean=False)
    assert files(again) == EMPTY
    fill(again, [b"a"])
    assert contents(again) == [(0, b"a")]
    assert files(log) == WRITTEN


def test_an_empty_log_keeps_a_later_start_in_the_name_of_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, log_start_offset=7)
    assert f"{7:020d}.log" in files(log)


def test_a_truncation_of_an_unwritten_log_leaves_it_empty(logs: LogManager) -> None:
    log = make(logs)
    log.truncate_to(0, NOW)
    log.truncate_fully_and_start_at(5, NOW)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_a_folder_is_synced_with_the_first_record_of_an_unwritten_log(tmp_path: Path) -> None:
    """The names in a copy's folder are synced while it has no records. This must not count for later files."""
    storage = RecordingStorage(str(tmp_path / "life"))
    logs = manager(tmp_path / "life/data", storage=storage)
    logs.load()
    log = make(logs)
    log.leader_epochs.assign(0, 0)  # as a leader does before it has records
    log.files.doubt_copy(0, log.log_dir)
    log.flush()
    fill(log, [b"a"])
    log.flush()
    storage.mark(1)
    for number, image in enumerate(crash_images(storage.changes, losses=5)):
        root = tmp_path / str(number)
        image.write_to(str(root))
        again = manager(root / "data", storage=UnsyncedStorage())
        again.load()
        opened = again.get(TP)
        found = contents(opened) if opened else []
        assert len(found) >= max(image.promises, default=0), f"prefix {image.prefix}, seed {image.seed}"
