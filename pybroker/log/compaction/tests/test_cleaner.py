"""The cleaner with unusual logs, and with logs that change between its turns."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from cy.batch import iterate
from pybroker.log.compaction.cleaner import Cleaner
from pybroker.log.compaction.tests.compacted import CONFIG, SMALL, Compacted, records
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.interruption import Interrupted, Interruption
from pybroker.log.tests.helpers import NOW


def before_each_turn(made: Compacted, happens) -> None:
    """Calls ``happens(turn)`` before each turn of the loop that the cleaner requests; the first turn is 1."""
    turns = iter(range(1, 1000))

    def on_loop(work):
        happens(next(turns))
        return work()

    made.cleaner = Cleaner(made.logs, made.clock, Throttle(), on_loop)


def test_a_log_whose_first_segment_is_empty_is_compacted(tmp_path):
    made = Compacted(tmp_path)
    made.log.truncate_fully_and_start_at(10, NOW)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.logs.close()
    with open(os.path.join(made.log.folder, f"{0:020d}.log"), "wb"):
        pass  # as Kafka's compaction may leave it
    again = Compacted(tmp_path)
    assert [segment.size > 0 for segment in again.log.segments] == [False, True]
    again.log.update_high_watermark(again.log.log_end_offset)
    assert again.clean()
    assert records(again.log)[-1][2] == b"2"
    assert again.log.clean_offset == 12


@pytest.mark.parametrize("turn", range(2, 6))
def test_a_log_truncated_during_a_compaction_is_not_swapped(tmp_path, turn):
    """The log is truncated and written again, beyond its high watermark. A record that may still be truncated must not
    remove an older one.
    """
    made = Compacted(tmp_path)
    for number in range(6):
        made.append((b"a" if number < 2 else b"%d" % number, b"old"))
    made.roll()

    def cut(now: int) -> None:
        if now == turn:
            made.log.truncate_to(2, NOW)
            high_watermark = made.log.log_end_offset
            for number in range(4):
                made.append((b"a", b"%d" % number))
            made.log.update_high_watermark(high_watermark)
            made.roll()

    before_each_turn(made, cut)
    made.clean(roll=False)
    assert (1, b"a", b"old") in records(made.log)
    assert made.log.clean_offset <= 2


@pytest.mark.parametrize("turn", range(3, 7))
def test_a_log_whose_policy_no_longer_compacts_keeps_its_records(tmp_path, turn):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.roll()

    def becomes_deleted(now: int) -> None:
        if now == turn:
            made.log.config = replace(CONFIG, cleanup_policy=frozenset({"delete"}))

    before_each_turn(made, becomes_deleted)
    made.clean(roll=False)
    assert len(records(made.log)) == 2


def test_other_logs_are_compacted_though_the_compaction_of_one_raises(tmp_path, monkeypatch, caplog):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.roll()
    monkeypatch.setattr("pybroker.log.compaction.cleaner.groups", lambda todo, end: [][0])
    assert not made.clean(roll=False)
    assert made.cleaner.uncleanable == {made.log.topic_partition}
    assert "cannot be compacted, and is not tried again" in caplog.text


class CutWhileRead(Throttle):
    """An interruption that is checked after each piece that was read. It truncates the log after the first piece."""

    made: Compacted | None = None

    def delay(self, used_bytes: int, now_s: float) -> float:
        made, self.made = self.made, None
        if made is not None:
            made.log.truncate_to(3, NOW)
        return 0.0


def test_a_compaction_does_not_report_as_corrupt_what_a_truncation_cuts_off_meanwhile(tmp_path):
    throttle = CutWhileRead()
    made = Compacted(tmp_path, throttle=throttle)
    for _ in range(6):
        made.append((b"a", bytes(350)))
    made.roll()
    throttle.made = made
    assert not made.clean(roll=False)
    assert not made.cleaner.uncleanable
    assert made.clean()
    assert [offset for offset, _, _ in records(made.log)] == [2]


@pytest.mark.parametrize("where", ["in the dirty part", "in what was compacted before"])
def test_a_log_with_a_record_over_a_lowered_limit_is_compacted_after_the_limit_rises(tmp_path, where):
    made = Compacted(tmp_path)
    made.append((b"a", bytes(4096)), codec=4)
    if where == "in what was compacted before":
        assert made.clean()
    made.append((b"b", b"1"))
    made.append((b"b", b"2"))
    made.log.config = replace(CONFIG, max_decompressed_message_bytes=512)
    assert not made.clean()
    assert made.cleaner.uncleanable == {made.log.topic_partition}
    made.log.config = CONFIG
    assert made.clean()
    assert [(key, len(value)) for _, key, value in records(made.log)] == [(b"a", 4096), (b"b", 1)]


def test_an_interrupted_compaction_does_not_make_the_log_uncleanable(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.roll()
    interruption = Interruption()
    before_each_turn(made, lambda turn: interruption.interrupt() if turn == 4 else None)
    with pytest.raises(Interrupted):
        made.cleaner.clean_next(SMALL, interruption)
    assert not made.cleaner.uncleanable


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_batch_can_be_decompressed_after_compaction(tmp_path, codec):
    """The remaining records may be far more compressible than the batch was. Still nobody may take them for a
    bomb.
    """
    made = Compacted(tmp_path, replace(CONFIG, segment_bytes=1 << 26, max_message_bytes=1 << 25))
    made.append((b"noise", os.urandom(3 << 19)), (b"zeros", bytes(40 << 20)), codec=codec)
    made.append((b"noise", b"small"))
    assert made.clean()
    left = made.log.read_bytes(0, 1 << 27)
    assert [(record.key, len(record.value)) for record in iterate(left)] == [(b"zeros", 40 << 20), (b"noise", 5)]
    made.append((b"zeros", b""))
    assert made.clean()
    assert [key for _, key, _ in records(made.log)] == [b"noise", b"zeros"]
