"""A log is read, deleted, truncated or moved, or loses segments, while it is compacted."""

from __future__ import annotations

import threading

import pytest

from cy.batch import iterate
from pybroker.config.log_config import LogConfig
from pybroker.log.compaction.cleaner import Cleaner
from pybroker.log.compaction.tests.compacted import CONFIG, SMALL, Compacted, records
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.expiry import apply_retention
from pybroker.log.files import checkpoints
from pybroker.log.interruption import Interrupted, Interruption
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, complete


def test_a_reader_keeps_the_old_segment_while_it_reads(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    held = made.log.read(0, 10_000)
    made.clean()
    assert [r.value for r in iterate(held.read())] == [b"1", b"2"]
    assert [value for _, _, value in records(made.log)] == [b"2"]


def test_a_log_that_is_deleted_meanwhile_is_left_alone(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.roll()
    calls = []

    def on_loop(work):
        calls.append(work)
        if len(calls) == 5:
            made.logs.delete(TP)
        return work()

    made.cleaner = Cleaner(made.logs, made.clock, Throttle(), on_loop)
    assert not made.clean(roll=False)
    assert not made.logs.all_failed
    assert made.logs.get(TP) is None


@pytest.mark.parametrize("turn", range(4, 9))
def test_a_log_truncated_during_a_compaction_keeps_the_remaining_records(tmp_path, turn):
    made = Compacted(tmp_path)
    for number in range(6):
        made.append((b"a", b"%d" % number))
    made.roll()
    calls = []

    def on_loop(work):
        calls.append(work)
        if len(calls) == turn:
            made.log.truncate_to(2, NOW)
        return work()

    made.cleaner = Cleaner(made.logs, made.clock, Throttle(), on_loop)
    made.clean(roll=False)
    assert not made.logs.all_failed
    assert made.log.clean_offset <= made.log.log_end_offset <= 2
    assert all(offset < 2 for offset, _, _ in records(made.log))


def test_retention_may_delete_segments_during_a_compaction(tmp_path):
    config = LogConfig(
        cleanup_policy=frozenset({"compact", "delete"}), min_cleanable_dirty_ratio=0.0, retention_ms=1000
    )
    made = Compacted(tmp_path, config)
    made.append((b"a", b"1"), log_time=NOW - 5000)
    made.roll()
    made.append((b"b", b"2"))
    made.roll()
    calls = []

    def on_loop(work):
        calls.append(work)
        if len(calls) == 6:
            apply_retention(made.log, NOW)
        return work()

    made.cleaner = Cleaner(made.logs, made.clock, Throttle(), on_loop)
    made.clean(roll=False)
    assert not made.logs.all_failed
    assert records(made.log) == [(1, b"b", b"2")]
    assert made.clean(roll=False)
    assert records(made.log) == [(1, b"b", b"2")]


def test_a_log_that_is_moved_is_not_compacted(tmp_path):
    made = Compacted(tmp_path)
    other = tmp_path / "other"
    logs = LogManager(
        [f"{tmp_path}/data", str(other)],
        made.storage,
        CONFIG,
        made.clock,
        cluster_id="cluster",
        node_id=1,
    )
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.logs.close()
    logs.load()
    made.logs, made.log = logs, logs.get_or_create(TP, TOPIC_ID, CONFIG)
    made.cleaner = Cleaner(logs, made.clock, Throttle(), lambda work: work())
    made.roll()
    move = logs.move(TP, str(other))
    assert not made.clean(roll=False)
    complete(move)
    assert made.clean(roll=False)
    assert [value for _, _, value in records(made.log)] == [b"2"]
    assert checkpoints.read_offsets(made.storage, f"{other}/{checkpoints.CLEANER}") == {TP: 2}


def test_an_interrupted_compaction_leaves_no_temporary_file(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.roll()
    interruption = Interruption()
    calls = []

    def on_loop(work):
        calls.append(work)
        if len(calls) == 6:
            interruption.interrupt()
        return work()

    made.cleaner = Cleaner(made.logs, made.clock, Throttle(), on_loop)
    with pytest.raises(Interrupted):
        made.cleaner.clean_next(SMALL, interruption)
    assert not made.files(".cleaned", ".swap")
    assert made.clean(roll=False)


def test_a_swap_waits_for_a_running_sync(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.roll()
    syncing, ended = threading.Event(), threading.Event()
    tries = []

    def sync() -> None:
        with made.log.files.undisturbed():
            syncing.set()
            ended.wait(60)

    thread = threading.Thread(target=sync)

    def on_loop(work):
        if made.files(".log.cleaned"):
            tries.append(work)
            if len(tries) == 1:
                thread.start()
                assert syncing.wait(60)
            elif len(tries) == 4:
                ended.set()
                thread.join(60)
        return work()

    made.cleaner = Cleaner(made.logs, made.clock, Throttle(), on_loop)
    assert made.clean(roll=False)
    assert len(tries) == 4
    assert [value for _, _, value in records(made.log)] == [b"2"]
