"""The steps of a move on the loop's thread, and other events between the steps."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import Origin
from pybroker.log.files import checkpoints
from pybroker.log.files.storage import DataFile, Storage
from pybroker.log.manager import LogManager
from pybroker.log.moving import log_copy
from pybroker.log.moving.log_copy import REST_SEGMENTS
from pybroker.log.moving.move import Move
from pybroker.log.tests.helpers import (
    NOW,
    TOPIC_ID,
    TP,
    batch,
    complete,
    contents,
    fill,
    idempotent,
    manager,
    marker,
    numbered,
)
from pyclient.protocol import errors

CONFIG = LogConfig(segment_bytes=1000)
SEGMENT = 6
"""How many batches of ``numbered`` fill a segment."""


def loaded(root, storage: Storage | None = None) -> LogManager:
    logs = manager(root / "a", root / "b", config=CONFIG, storage=storage)
    logs.load()
    return logs


def begun(root, storage: Storage | None = None, count: int = 40) -> Move:
    logs = loaded(root, storage)
    fill(logs.get_or_create(TP, TOPIC_ID, CONFIG, str(root / "a")), numbered(count))
    move = logs.move(TP, str(root / "b"))
    assert move is not None
    return move


def folders(root) -> list[str]:
    return sorted(f"{each}/{name}" for each in "ab" for name in os.listdir(root / each) if "-" in name[:3])


def test_the_switch_of_a_move_on_the_event_loop_syncs_nothing_and_copies_little(tmp_path):
    storage = FaultyStorage()
    move = begun(tmp_path, storage, count=50 * SEGMENT)
    move.copy()
    fill(move.log, numbered(2))
    storage.calls.clear()
    assert move.switch()
    assert storage.count("sync") == storage.count("sync_folder") == 0
    assert len(storage.calls) < 50
    move.settle()
    assert storage.count("sync") > 0


def test_the_transaction_index_of_the_active_segment_is_durable_before_the_log_switches(tmp_path):
    """Otherwise a start would take the missing index for an empty one, and reads would return aborted records."""
    storage = FaultyStorage()
    move = begun(tmp_path, storage, count=1)
    move.log.append_as_leader(idempotent(0, producer=7, transactional=True), 0, NOW)
    move.log.append_as_leader(marker(0, producer=7), 0, NOW, origin=Origin.COORDINATOR)
    storage.calls.clear()
    move.copy()
    names = [path.rpartition("/")[2] for kind, path in storage.calls if kind == "sync" and f"{tmp_path}/b/" in path]
    assert "00000000000000000000.txnindex" in names


def test_a_move_with_much_left_to_copy_does_not_switch_on_the_event_loop(tmp_path):
    move = begun(tmp_path)
    move.copy()
    fill(move.log, numbered((REST_SEGMENTS + 2) * SEGMENT))
    assert not move.switch()
    move.copy()
    assert move.switch()


def test_a_move_of_a_truncated_log_does_not_copy_on_the_event_loop(tmp_path):
    move = begun(tmp_path)
    move.copy()
    move.log.truncate_to(20, NOW)
    fill(move.log, [b"other"] * 20)
    expected = contents(move.log)
    assert not move.switch()
    complete(move)
    assert contents(move.log) == expected
    assert contents(loaded(tmp_path).get(TP)) == expected


def test_the_event_loop_does_not_wait_for_a_thread_that_uses_the_files_of_a_moving_log(tmp_path):
    move = begun(tmp_path)
    move.copy()
    with move.log.files.undisturbed(), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(move.switch).result(60)
    assert move.switch()


def test_a_move_writes_the_log_start_to_the_targets_checkpoint_before_the_switch(tmp_path):
    move = begun(tmp_path)
    move.copy()
    move.log.update_high_watermark(40)
    move.log.raise_log_start_offset(9)
    assert not move.switch()
    move.copy()
    assert move.switch()
    assert loaded(tmp_path).get(TP).log_start_offset == 9


def test_the_disk_that_fails_during_the_switch_goes_offline(tmp_path):
    storage = FaultyStorage()
    move = begun(tmp_path, storage)
    move.copy()
    fill(move.log, numbered(1))
    move.log.active_segment.index_interval_bytes = 1
    fill(move.log, numbered(1))
    storage.fail("write", where=lambda path: path.startswith(f"{tmp_path}/a") and path.endswith("index"))
    with pytest.raises(errors.KafkaStorageError):
        move.switch()
    assert (move.log.log_dir.offline, move.target.offline) == (True, False)


def test_a_flush_before_the_move_has_settled_syncs_the_copy(tmp_path):
    storage = FaultyStorage()
    move = begun(tmp_path, storage)
    move.log.flush()
    move.copy()
    fill(move.log, numbered(3))
    assert move.switch()
    storage.calls.clear()
    move.log.flush()
    synced = {path for kind, path in storage.calls if kind in ("sync", "sync_folder")}
    assert {move.log.active_segment.path, f"{tmp_path}/b/t-0", f"{tmp_path}/b"} <= synced


def test_records_promised_to_be_on_the_disk_stay_there_after_the_switch(tmp_path):
    move = begun(tmp_path)
    move.copy()
    fill(move.log, numbered(3))
    assert move.log.flush() == 43
    assert move.switch()
    assert move.log.recovery_point == 43
    move.target.checkpoint_recovery_points()
    told = checkpoints.read_offsets(Storage(), f"{tmp_path}/b/{checkpoints.RECOVERY_POINT}")
    assert told == {TP: 40}
    move.settle()
    told = checkpoints.read_offsets(Storage(), f"{tmp_path}/b/{checkpoints.RECOVERY_POINT}")
    assert told == {TP: 43}


def test_an_old_folder_that_could_not_be_renamed_is_removed_at_the_next_start(tmp_path):
    storage = FaultyStorage()
    move = begun(tmp_path, storage)
    storage.fail("rename", where=lambda path: path == f"{tmp_path}/a/t-0")
    complete(move)
    assert move.log.log_dir is move.target
    fill(move.log, [b"after"])
    expected = contents(move.log)
    assert folders(tmp_path) == ["a/t-0", "b/t-0"]
    assert contents(loaded(tmp_path).get(TP)) == expected
    assert folders(tmp_path) == ["b/t-0"]


def test_files_that_cannot_be_removed_do_not_fail_their_dir(tmp_path):
    storage = FaultyStorage()
    move = begun(tmp_path, storage)
    storage.fail("unlink", where=lambda path: "-delete/" in path)
    complete(move)
    assert not move.log.log_dir.offline
    assert [name[-7:] for name in folders(tmp_path)] == ["-delete", "b/t-0"]
    assert loaded(tmp_path).get(TP).log_end_offset == 40
    assert folders(tmp_path) == ["b/t-0"]


@pytest.mark.parametrize("settled", [False, True])
def test_a_log_that_is_deleted_before_its_move_has_settled_is_gone_from_both_dirs(tmp_path, settled):
    logs = loaded(tmp_path)
    fill(logs.get_or_create(TP, TOPIC_ID, CONFIG, str(tmp_path / "a")), numbered(40))
    move = logs.move(TP, str(tmp_path / "b"))
    move.copy()
    assert move.switch()
    if settled:
        move.settle()
    logs.delete(TP)
    assert folders(tmp_path) == []
    again = logs.get_or_create(TP, b"\1" * 16, CONFIG, str(tmp_path / "a"))
    assert again.log_end_offset == 0
    move.settle()
    assert folders(tmp_path) == ["a/t-0"]


def test_a_stop_completes_a_move_that_has_switched(tmp_path):
    logs = loaded(tmp_path)
    fill(logs.get_or_create(TP, TOPIC_ID, CONFIG, str(tmp_path / "a")), numbered(40))
    move = logs.move(TP, str(tmp_path / "b"))
    move.copy()
    assert move.switch()
    logs.close()
    assert folders(tmp_path)[-1] == "b/t-0"
    assert "a/t-0" not in folders(tmp_path)


def test_a_name_taken_in_the_target_dir_ends_the_move_and_fails_no_dir(tmp_path):
    move = begun(tmp_path)
    move.copy()
    os.mkdir(tmp_path / "b" / "t-0")
    with pytest.raises(errors.KafkaStorageError):
        move.switch()
    assert not move.target.offline
    move.log.append_as_leader(batch(b"goes on"), 0, NOW)


def test_quarantined_data_moves_with_the_log(tmp_path):
    move = begun(tmp_path)
    name = f"{0:020d}.log.quarantined-7"
    (tmp_path / "a" / "t-0" / name).write_bytes(b"damaged")
    complete(move)
    assert (tmp_path / "b" / "t-0" / name).read_bytes() == b"damaged"


def test_a_segment_is_as_old_after_the_move_as_before(tmp_path):
    move = begun(tmp_path)
    first = move.log.segments[0]
    os.utime(first.path, (1_000_000, 1_000_000))
    complete(move)
    assert os.stat(move.log.segments[0].path).st_mtime == 1_000_000


def test_a_foreign_file_moves_with_the_log(tmp_path):
    move = begun(tmp_path)
    (tmp_path / "a" / "t-0" / "before-upgrade.snapshot").write_bytes(b"mine")
    complete(move)
    assert (tmp_path / "b" / "t-0" / "before-upgrade.snapshot").read_bytes() == b"mine"


def test_a_move_skips_an_unreadable_foreign_file(tmp_path, caplog):
    storage = FaultyStorage()
    move = begun(tmp_path, storage)
    (tmp_path / "a" / "t-0" / "secret").write_bytes(b"mine")
    storage.fail("open", errno.EACCES, lambda path: path.endswith("secret"))
    old = move.log.log_dir
    complete(move)
    assert (old.offline, move.target.offline) == (False, False)
    assert "secret does not belong to the log, and is not moved with it" in caplog.text
    assert [value for _, value in contents(move.log)] == numbered(40)


def test_a_log_that_is_truncated_while_it_is_read_is_copied_again(tmp_path, monkeypatch):
    move = begun(tmp_path)
    reads = []

    def cut_first(source: DataFile, length: int, position: int) -> bytes:
        reads.append(position)
        if len(reads) == 2:
            move.log.truncate_to(1, NOW)
        return read(source, length, position)

    read = DataFile.read
    monkeypatch.setattr(log_copy, "CHUNK_BYTES", 300)
    monkeypatch.setattr(DataFile, "read", cut_first)
    complete(move)
    assert not move.cancelled
    assert contents(move.log) == contents(loaded(tmp_path).get(TP)) == [(0, numbered(1)[0])]
