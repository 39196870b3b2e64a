"""A clean stop records what the next start needs, so that the start opens no log file."""

import os
import shutil
from pathlib import Path

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.dirs import closed_logs
from pybroker.log.dirs.log_dir import CLEAN_SHUTDOWN
from pybroker.log.files import leader_epochs
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TOPIC_ID, contents, fill, idempotent, manager, marker, numbered
from pybroker.topic_partition import TopicPartition

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200, retention_ms=-1)
TP = TopicPartition("flights", 0)
FOLDER = str(TP)


def started(root: Path, storage: FaultyStorage | None = None) -> LogManager:
    logs = manager(root, config=CONFIG, storage=storage)
    logs.load()
    return logs


def stopped(root: Path, count: int = 1, epoch: int = 7) -> None:
    """Makes a dir with so many logs, each with several segments, as a clean stop leaves it."""
    logs = started(root)
    for index in range(count):
        log = logs.get_or_create(TopicPartition("flights", index), TOPIC_ID, CONFIG)
        fill(log, numbered(20), epoch=3)
        log.append_as_leader(idempotent(0, b"a" * 100), 4, NOW)
        fill(log, numbered(9), epoch=5)
        log.update_high_watermark(log.log_end_offset)
        log.raise_log_start_offset(2)
    logs.close(epoch)


def touched(storage: FaultyStorage, *kinds: str) -> list[tuple[str, str]]:
    """Returns the operations on files of logs."""
    return [(kind, path) for kind, path in storage.calls if f"/{TP.topic}-" in path and (not kinds or kind in kinds)]


def state(root: Path) -> object:
    """Returns everything that a start finds in a dir."""
    logs = started(root)
    return {log.topic_partition: described(log) for log in logs}, sorted(str(stray.topic_id) for stray in logs.strays)


def described(log: Log) -> object:
    return (
        (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point, log.topic_id),
        [(segment.base_offset, segment.size, segment.max_timestamp) for segment in log.segments],
        log.leader_epochs.entries,
        [entry.state() for entry in log.producers.active()],
        log.last_stable_offset,
        contents(log),
    )


def test_a_clean_start_opens_and_reads_no_file_of_a_log(tmp_path):
    stopped(tmp_path, 20)
    storage = FaultyStorage()
    logs = started(tmp_path, storage)
    assert len(logs) == 20
    assert touched(storage) == []


def test_the_next_stop_touches_no_file_of_a_log_that_was_not_used(tmp_path):
    stopped(tmp_path, 20)
    storage = FaultyStorage()
    started(tmp_path, storage).close()
    assert touched(storage) == []
    assert started(tmp_path, storage).get(TP) is not None
    assert touched(storage) == []


def test_a_log_opened_from_the_file_of_closed_logs_equals_one_read_from_its_segments(tmp_path):
    stopped(tmp_path / "as-closed")
    shutil.copytree(tmp_path / "as-closed", tmp_path / "read")
    (tmp_path / "read" / closed_logs.FILE_NAME).unlink()
    assert state(tmp_path / "as-closed") == state(tmp_path / "read")


def active(folder: Path) -> Path:
    return max(folder.glob("*.log"))


def cut_log(folder: Path) -> None:
    os.truncate(active(folder), 300)


def replace_log(folder: Path) -> None:
    path = active(folder)
    path.write_bytes(bytes(path.stat().st_size))
    os.utime(path, (0, 0))


def cut_index(folder: Path) -> None:
    os.truncate(folder / "00000000000000000000.timeindex", 13)


def remove_index(folder: Path) -> None:
    (folder / "00000000000000000000.index").unlink()


def remove_active(folder: Path) -> None:
    for path in list(folder.glob(f"{active(folder).stem}.*")):
        path.unlink()


def remove_log(folder: Path) -> None:
    shutil.rmtree(folder)


def add_log(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("flights-9"))


def add_leftover(folder: Path) -> None:
    (folder / f"{active(folder).name}.deleted").write_bytes(b"x")


def forget_epochs(folder: Path) -> None:
    (folder / leader_epochs.FILE_NAME).unlink()


@pytest.mark.parametrize(
    "change",
    [
        cut_log,
        replace_log,
        cut_index,
        remove_index,
        remove_active,
        remove_log,
        add_log,
        add_leftover,
        forget_epochs,
    ],
)
def test_files_changed_since_the_stop_are_noticed(tmp_path, change):
    stopped(tmp_path / "as-closed")
    change(tmp_path / "as-closed" / FOLDER)
    shutil.copytree(tmp_path / "as-closed", tmp_path / "read")
    (tmp_path / "read" / closed_logs.FILE_NAME).unlink()
    assert state(tmp_path / "as-closed") == state(tmp_path / "read")
    left, read = (sorted(path.name for path in (tmp_path / each).rglob("*")) for each in ("as-closed", "read"))
    assert left == read


@pytest.mark.parametrize("epoch", [8, None])
def test_a_file_of_closed_logs_from_another_broker_is_ignored(tmp_path, epoch):
    stopped(tmp_path)
    kept = (tmp_path / closed_logs.FILE_NAME).read_bytes()
    started(tmp_path).close(8)
    if epoch is None:
        (tmp_path / CLEAN_SHUTDOWN).write_bytes(b"")
    (tmp_path / closed_logs.FILE_NAME).write_bytes(kept)
    storage = FaultyStorage()
    started(tmp_path, storage)
    assert touched(storage, "open")


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n{}", b"\xff", None])
def test_a_damaged_file_of_closed_logs_is_ignored(tmp_path, content):
    stopped(tmp_path)
    path = tmp_path / closed_logs.FILE_NAME
    path.write_bytes(path.read_bytes()[:-9] + b"00000000\n" if content is None else content)
    storage = FaultyStorage()
    log = started(tmp_path, storage).get(TP)
    assert log is not None
    assert log.log_end_offset == 30
    assert touched(storage, "open")


def test_the_file_of_closed_logs_and_the_shutdown_marker_are_removed_before_a_log_is_opened(tmp_path):
    stopped(tmp_path)
    storage = FaultyStorage()
    started(tmp_path, storage)
    removed = [os.path.basename(path) for kind, path in storage.calls if kind in ("unlink", "sync_folder")]
    assert removed == [CLEAN_SHUTDOWN, closed_logs.FILE_NAME, tmp_path.name]


def test_a_killed_broker_leaves_no_file_of_closed_logs(tmp_path):
    stopped(tmp_path)
    started(tmp_path)
    assert not (tmp_path / closed_logs.FILE_NAME).exists()


def test_duplicates_of_a_producer_are_detected_after_a_clean_restart(tmp_path):
    stopped(tmp_path)
    log = started(tmp_path).get(TP)
    assert log is not None
    assert log.producers.ids() == [7]
    assert log.append_as_leader(idempotent(0, b"a" * 100), 6, NOW).duplicate
    assert not log.append_as_leader(idempotent(1, b"b"), 6, NOW).duplicate


def test_an_open_transaction_limits_the_last_stable_offset(tmp_path):
    logs = started(tmp_path)
    log = logs.get_or_create(TP, TOPIC_ID, CONFIG)
    fill(log, numbered(3))
    log.append_as_leader(idempotent(0, b"x", transactional=True), 0, NOW)
    log.update_high_watermark(4)
    logs.close()
    log = started(tmp_path).get(TP)
    assert log is not None
    assert log.last_stable_offset == 3
    log.append_as_follower(_marker_at(4), 0, NOW)
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5


def _marker_at(offset: int) -> bytearray:
    found = marker(1)
    found[:8] = offset.to_bytes(8, "big")
    return found


def test_records_appended_after_the_start_are_found_by_timestamp(tmp_path):
    stopped(tmp_path)
    logs = started(tmp_path)
    log = logs.get(TP)
    assert log is not None
    fill(log, numbered(4), epoch=6)
    logs.close()
    shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns(closed_logs.FILE_NAME))
    again, read = started(tmp_path).get(TP), started(tmp_path / "copy").get(TP)
    assert again is not None
    assert read is not None
    assert described(again) == described(read)
    assert again.log_end_offset == 34


def test_after_a_kill_a_log_that_was_synced_to_its_end_is_not_written(tmp_path):
    stopped(tmp_path, 5)
    logs = started(tmp_path)
    for log in logs:
        if log.topic_partition.partition:
            fill(log, numbered(1), epoch=6)
            log.flush()
    logs.checkpoint_recovery_points()
    storage = FaultyStorage()
    logs = started(tmp_path, storage)
    assert touched(storage, "write", "truncate", "rename", "sync") == []
    assert [log.log_end_offset for log in logs] == [30, 31, 31, 31, 31]
    assert [log.producers.ids() for log in logs] == [[7]] * 5


def test_a_stop_syncs_one_file_of_each_log_that_was_written(tmp_path):
    stopped(tmp_path, 5)
    storage = FaultyStorage()
    logs = started(tmp_path, storage)
    for log in logs:
        if log.topic_partition.partition < 2:
            fill(log, numbered(1), epoch=5)
    storage.calls.clear()
    logs.close()
    synced = sorted((kind, path.split("/")[-2:]) for kind, path in touched(storage, "sync", "sync_folder"))
    assert synced == [("sync", [f"flights-{index}", "00000000000000000022.log"]) for index in range(2)]
    assert {log.log_end_offset for log in started(tmp_path)} == {30, 31}


def test_a_folder_not_synced_at_the_stop_is_synced_with_the_next_records(tmp_path):
    stopped(tmp_path)
    storage = FaultyStorage()
    logs = started(tmp_path, storage)
    log = logs.get(TP)
    assert log is not None
    log.files.durability.names_synced = False  # as after retention has deleted segments
    logs.close()
    assert touched(storage, "sync_folder") == []
    storage.calls.clear()
    log = started(tmp_path, storage).get(TP)
    assert log is not None
    assert touched(storage, "open") == []
    fill(log, numbered(1), epoch=5)
    log.flush()
    assert [kind for kind, _ in touched(storage, "sync", "sync_folder")] == ["sync", "sync_folder"]


def test_a_stop_syncs_files_that_a_truncation_has_changed(tmp_path):
    """The marker claims that everything is on disk, including shorter files and removed segments."""
    stopped(tmp_path)
    storage = FaultyStorage()
    logs = started(tmp_path, storage)
    log = logs.get(TP)
    assert log is not None
    log.truncate_to(log.recovery_point - 1, NOW)
    storage.calls.clear()
    logs.close()
    assert log.segments[-1].path in [path for _, path in touched(storage, "sync")]
    assert log.folder in [path for _, path in touched(storage, "sync_folder")]


def test_an_unreadable_file_of_closed_logs_takes_no_log_dir_offline(tmp_path):
    stopped(tmp_path)
    storage = FaultyStorage()
    storage.fail("read", where=lambda path: path.endswith(closed_logs.FILE_NAME))
    log = started(tmp_path, storage).get(TP)
    assert log is not None
    assert log.log_end_offset == 30
