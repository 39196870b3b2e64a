"""If many segments are removed, each turn of the event loop removes only a few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pybroker.log.compaction.tests.compacted import CONFIG as COMPACTED
from pybroker.log.compaction.tests.compacted import Compacted, records
from pybroker.log.compaction.tests.test_cleaner import before_each_turn
from pybroker.log.deep_cut import DeepCut
from pybroker.log.log import Log
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.segment.segment_files import SegmentFiles
from pybroker.log.segment.segments import REMOVED_PER_TURN
from pybroker.log.tests.helpers import (
    NOW,
    TOPIC_ID,
    TP,
    UnsyncedStorage,
    contents,
    idempotent,
    manager,
    open_log,
)  # fmt: skip

COUNT = 4 * REMOVED_PER_TURN + 7
DAY_MS = 86_400_000


class Turns:
    """How many segments were removed in each turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts = [0]
        delete = SegmentFiles.delete

        def counted(files: SegmentFiles) -> list[str]:
            self.counts[-1] += 1
            return delete(files)

        monkeypatch.setattr(SegmentFiles, "delete", counted)

    def next(self) -> None:
        self.counts.append(0)

    def check(self, count: int) -> None:
        assert sum(self.counts) == count
        assert max(self.counts) <= REMOVED_PER_TURN


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


def fill(log: Log) -> None:
    """Appends batches of two producers, one batch per segment."""
    for number in range(COUNT):
        log.append_as_leader(idempotent(number // 2, b"%d" % number, producer=number % 2), 0, NOW)
        log.roll(NOW)
    log.producers._journal.begin_at(log.log_end_offset)
    log.update_high_watermark(COUNT)


REASONS: dict[str, Callable[[Log], None]] = {
    "time": lambda log: None,
    "size": lambda log: setattr(log, "config", replace(log.config, retention_bytes=0, retention_ms=-1)),
    "start": lambda log: log.raise_log_start_offset(COUNT),
}


@pytest.mark.parametrize("reason", REASONS)
def test_retention_removes_many_segments_in_several_turns_of_the_event_loop(tmp_path, turns, reason):
    logs = manager(tmp_path, storage=UnsyncedStorage())
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, COMPACTED)
    fill(log)
    log.config = replace(log.config, cleanup_policy=frozenset({"delete"}), retention_ms=DAY_MS)
    REASONS[reason](log)
    now_ms = NOW + 2 * DAY_MS if reason == "time" else NOW
    deleted = 0
    for count in logs.retention_round(now_ms):
        deleted += count
        turns.next()
    assert deleted == COUNT
    turns.check(COUNT)
    assert (log.log_start_offset, len(log.segments)) == (COUNT, 1)
    assert sum(logs.retention_round(now_ms)) == 0


def told(log: Log) -> tuple[object, ...]:
    producers = sorted((each.producer_id, each.next_sequence) for each in log.producers.active())
    return log.log_start_offset, log.log_end_offset, producers, log.producers._snapshots, contents(log)


@pytest.mark.parametrize("offset", [COUNT - 3, 2 * REMOVED_PER_TURN + 1, 5, 0])
def test_a_truncation_removes_many_segments_in_several_turns_of_the_event_loop(tmp_path, turns, offset):
    log, expected = (open_log(tmp_path / name, storage=UnsyncedStorage()) for name in "ab")
    fill(log)
    fill(expected)
    cut = DeepCut(log, offset)
    while not cut.go_on(NOW):
        turns.next()
        assert log.log_end_offset >= offset
    turns.check(COUNT + 1 - offset)
    expected.truncate_to(offset, NOW)
    assert told(log) == told(expected)


@pytest.mark.parametrize("offset", [0, 7, COUNT + 1000])
def test_a_reset_log_removes_many_segments_in_several_turns_of_the_event_loop(tmp_path, turns, offset):
    log, expected = (open_log(tmp_path / name, storage=UnsyncedStorage()) for name in "ab")
    fill(log)
    fill(expected)
    cut = DeepCut(log, offset, starts_over=True)
    assert cut.takes_long
    while not cut.go_on(NOW):
        turns.next()
    turns.check(COUNT + 1)
    expected.truncate_fully_and_start_at(offset, NOW)
    assert told(log) == told(expected)
    assert log.log_end_offset == offset


@pytest.mark.parametrize("number", [COUNT - 1, COUNT - REMOVED_PER_TURN, COUNT - REMOVED_PER_TURN + 1])
@pytest.mark.parametrize("starts_over", [False, True])
def test_a_damaged_log_is_still_removed_completely(tmp_path, number, starts_over):
    log = open_log(tmp_path, storage=UnsyncedStorage())
    fill(log)
    log.segments[number].file.write(b"\xff" * 20, 0)
    cut = DeepCut(log, 0, starts_over=starts_over)
    while not cut.go_on(NOW):
        pass
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (0, 0, 1)


def test_a_compaction_swaps_many_segments_in_several_turns_of_the_event_loop(tmp_path, turns):
    made = Compacted(tmp_path)
    for number in range(COUNT):
        made.append((b"%d" % (number % 3), b"%d" % number))
        made.log.roll(NOW)
    before_each_turn(made, lambda turn: turns.next())
    assert made.clean()
    turns.check(COUNT)
    assert [value for _, _, value in records(made.log)] == [b"%d" % number for number in range(COUNT - 3, COUNT)]
    assert len(made.log.segments) == 1 + -(-COUNT // REMOVED_PER_TURN)


def test_snapshots_that_cannot_be_removed_are_not_forgotten(tmp_path):
    class Failing(UnsyncedStorage):
        def unlink(self, path: str) -> None:
            if path.endswith(f"{5:020d}.snapshot"):
                raise OSError(5, "broken")
            super().unlink(path)

    producers = ProducerStates(Failing(), str(tmp_path))
    for offset in range(10):
        producers.take_snapshot(offset)
    with pytest.raises(OSError, match="broken"):
        producers.remove_snapshots(lambda offset: offset >= 3)
    assert producers._snapshots == [0, 1, 2, 5, 6, 7, 8, 9]
    assert {int(path.stem) for path in tmp_path.iterdir()} == set(producers._snapshots)


class Counted(int):
    """An offset that counts how often it is compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Counted.count += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_the_time_to_remove_snapshots_grows_in_proportion_to_their_number(tmp_path):
    producers = ProducerStates(UnsyncedStorage(), str(tmp_path))
    producers._snapshots = [Counted(offset) for offset in range(1000)]
    producers.remove_snapshots(lambda offset: offset % 2 == 0)
    assert len(producers._snapshots) == 500
    assert Counted.count < 5000
