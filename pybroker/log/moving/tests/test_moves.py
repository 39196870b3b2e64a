"""Logs that move to another log dir, as their broker moves them."""

from __future__ import annotations

import pytest

from proofs.faulty_storage import FaultyStorage
from pybroker.log.tests.helpers import NOW, TOPIC_ID, complete, contents, fill, numbered
from pybroker.log.tests.managers import CONFIG, loaded, tp
from pyclient.protocol import errors


def test_log_moves_to_another_dir_while_it_is_written(tmp_path):
    logs = loaded(tmp_path / "a", tmp_path / "b")
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG, str(tmp_path / "a"))
    fill(log, numbered(40), epoch=3)
    held = log.read(0, 1000)
    move = logs.move(tp(0), str(tmp_path / "b"))
    assert logs.moving_to(tp(0)) is move
    fill(log, numbered(10))
    move.copy()
    fill(log, numbered(10))
    assert 0 < move.lag_bytes < log.size
    expected = contents(log)
    complete(move)
    assert logs.moving_to(tp(0)) is None
    assert log.folder == str(tmp_path / "b" / "flights-0")
    assert not (tmp_path / "a" / "flights-0").exists()
    assert contents(log) == expected
    assert len(held.read()) == held.size
    fill(log, [b"after"])
    logs.close()
    logs = loaded(tmp_path / "a", tmp_path / "b")
    assert contents(logs.get(tp(0))) == [*expected, (60, b"after")]
    assert logs.get(tp(0)).topic_id == TOPIC_ID
    assert logs.get(tp(0)).leader_epochs.entries == [(3, 0)]


def test_log_that_was_truncated_during_the_move_is_copied_again(tmp_path):
    logs = loaded(tmp_path / "a", tmp_path / "b")
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG, str(tmp_path / "a"))
    fill(log, numbered(40))
    move = logs.move(tp(0), str(tmp_path / "b"))
    move.copy()
    log.truncate_to(20, NOW)
    fill(log, [b"other"] * 20)
    expected = contents(log)
    complete(move)
    assert contents(log) == expected


def test_a_move_ends_if_the_log_is_deleted_or_gets_another_target(tmp_path):
    logs = loaded(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    logs.get_or_create(tp(0), TOPIC_ID, CONFIG, str(tmp_path / "a"))
    first = logs.move(tp(0), str(tmp_path / "b"))
    first.copy()
    assert logs.move(tp(0), str(tmp_path / "b")) is None
    second = logs.move(tp(0), str(tmp_path / "c"))
    assert first.cancelled
    second.copy()
    logs.delete(tp(0))
    assert second.cancelled
    for name in "abc":
        assert not any(path.is_dir() for path in (tmp_path / name).iterdir())
    with pytest.raises(errors.ReplicaNotAvailable):
        logs.move(tp(0), str(tmp_path / "b"))
    with pytest.raises(errors.LogDirNotFound):
        logs.move(tp(0), str(tmp_path / "x"))


def test_a_move_takes_the_log_start_offset_along_before_the_log(tmp_path):
    logs = loaded(tmp_path / "a", tmp_path / "b")
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG, str(tmp_path / "a"))
    fill(log, numbered(9))
    log.update_high_watermark(9)
    log.raise_log_start_offset(5)
    move = logs.move(tp(0), str(tmp_path / "b"))
    assert move is not None
    move.copy()
    complete(move)
    reopened = loaded(tmp_path / "a", tmp_path / "b").get(tp(0))
    assert reopened.log_dir.path == str(tmp_path / "b")
    assert reopened.log_start_offset == 5


def test_a_source_that_cannot_be_read_does_not_fail_the_target_of_a_move(tmp_path):
    storage = FaultyStorage()
    logs = loaded(tmp_path / "a", tmp_path / "b", storage=storage)
    log = logs.get_or_create(tp(0), TOPIC_ID, CONFIG, str(tmp_path / "a"))
    fill(log, numbered(9))
    move = logs.move(tp(0), str(tmp_path / "b"))
    assert move is not None
    storage.fail("read", where=lambda path: path.endswith(".log"))
    with pytest.raises(errors.KafkaStorageError):
        move.copy()
    assert [log_dir.path for log_dir in logs.offline_dirs] == [str(tmp_path / "a")]
