"""What compaction leaves of a log."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace

import pytest

from cy.batch import Builder, iterate, scan
from pybroker.clock import ManualClock
from pybroker.config.log_config import MAX_LONG, LogConfig
from pybroker.log.appending import AppendInfo, Origin
from pybroker.log.compaction.cleanable import cleanable
from pybroker.log.compaction.cleaner import Cleaner
from pybroker.log.compaction.compaction import Resources
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.expiry import apply_retention
from pybroker.log.files import checkpoints
from pybroker.log.interruption import Interrupted, Interruption
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, UnsyncedStorage, complete, marker
from pybroker.log.timestamps import first_record_since
from pybroker.log.validation import TooHeavy

HOUR_MS = 3_600_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1 << 20,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=HOUR_MS,
)
SMALL = Resources(map_bytes=1 << 16, read_bytes=500)


class Compacted:
    """A log, and a cleaner that runs when it is told to."""

    def __init__(self, root, config: LogConfig = CONFIG, *, storage=None, throttle=None) -> None:
        self.clock = ManualClock(NOW)
        self.storage = storage or UnsyncedStorage()
        self.logs = LogManager(
            [f"{root}/data"], self.storage, config, self.clock, cluster_id="cluster", node_id=1
        )
        self.logs.load()
        self.log = self.logs.get_or_create(TP, TOPIC_ID, config)
        self.cleaner = Cleaner(self.logs, self.clock, throttle or Throttle(), lambda work: work())

    def append(self, *records: tuple[bytes | None, bytes | None], log_time: int = NOW, **options) -> int:
        """Appends one batch of (key, value); returns its first offset."""
        builder = Builder(**options)
        for key, value in records:
            builder.append(log_time, key, value, [("header", b"h")])
        offset = self._append(bytearray(builder.build())).first_offset
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset

    def _append(self, batch: bytearray) -> AppendInfo:
        """As a broker does it: a batch that would hold the loop is checked before."""
        now_ms = self.clock.now_ms()
        try:
            return self.log.append_as_leader(batch, 0, now_ms)
        except TooHeavy as heavy:
            return self.log.append_as_leader(heavy.rules.checked(batch, now_ms), 0, now_ms)

    def end(self, kind: int, **options) -> int:
        offset = self.log.append_as_leader(marker(kind, **options), 0, self.clock.now_ms(), origin=Origin.COORDINATOR)
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset.first_offset

    def roll(self) -> None:
        self.log.roll(self.clock.now_ms())

    def clean(self, resources: Resources = SMALL, *, roll: bool = True) -> bool:
        if roll:
            self.roll()
        return self.cleaner.clean_next(resources, Interruption())

    def clean_all(self) -> int:
        rounds = 0
        while self.clean(roll=False):
            rounds += 1
        return rounds

    def files(self, *suffixes: str) -> list[str]:
        return sorted(name for name in os.listdir(self.log.folder) if name.endswith(suffixes))


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of the data records, as a consumer reads them."""
    found = []
    offset = log.log_start_offset
    while (part := log.read(offset, 2000)).size:
        data = part.read()
        control = [batch for batch in scan(data) if batch.is_control]
        found += [
            (record.offset, record.key, record.value)
            for record in iterate(data)
            if record.offset >= offset and not any(b.base_offset <= record.offset <= b.last_offset for b in control)
        ]
        assert part.next_offset > offset
        offset = part.next_offset
    assert offset == log.log_end_offset
    return found


def batches_of(log: Log):
    return [batch for segment in log.segments for batch in scan(segment.read_bytes(0, segment.size))]


@pytest.mark.parametrize("codec", range(5))
def test_the_latest_value_of_each_key_stays_at_its_offset(tmp_path, codec):
    made = Compacted(tmp_path)
    for number in range(50):
        made.append(*((b"key %d" % (key % 7), b"%d %d" % (number, key)) for key in range(3)), codec=codec)
    expected = {key: (offset, key, value) for offset, key, value in records(made.log)}
    assert made.clean()
    assert records(made.log) == sorted(expected.values())
    assert made.log.log_end_offset == 150
    assert made.log.clean_offset == 150


def test_records_keep_timestamps_and_headers(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"), (b"b", b"2"), log_time=NOW - 5)
    made.append((b"a", b"3"), log_time=NOW + 5)
    made.clean()
    found = list(iterate(made.log.read_bytes(0, 10_000)))
    assert [(r.key, r.timestamp, r.headers) for r in found] == [
        (b"b", NOW - 5, [("header", b"h")]),
        (b"a", NOW + 5, [("header", b"h")]),
    ]


def test_a_batch_that_keeps_everything_keeps_its_bytes(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"), (b"b", b"2"), codec=4)
    before = made.log.read_bytes(0, 10_000)
    made.append((b"c", b"3"))
    made.clean()
    assert made.log.read_bytes(0, len(before)) == before


def test_random_logs_are_compacted_to_the_model(tmp_path):
    """Against a dict: any codec, any size of batch, several rounds, each over several segments."""
    choice = random.Random(4)
    made = Compacted(tmp_path)
    latest: dict[bytes, tuple[int, bytes, bytes]] = {}
    for _ in range(6):
        for _ in range(choice.randint(1, 40)):
            count = choice.randint(1, 12)
            batch = [(b"%d" % choice.randint(0, 60), choice.randbytes(choice.randint(0, 300))) for _ in range(count)]
            base = made.append(*batch, codec=choice.randint(0, 4))
            for delta, (key, value) in enumerate(batch):
                latest[key] = (base + delta, key, value)
            if choice.random() < 0.1:
                made.roll()
        assert made.clean()
        assert records(made.log) == sorted(latest.values())


def test_the_active_segment_is_never_compacted(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    assert not made.clean(roll=False)
    made.roll()
    made.append((b"a", b"3"))
    assert made.clean(roll=False)
    assert [value for _, _, value in records(made.log)] == [b"2", b"3"]


def test_nothing_beyond_the_high_watermark_is_compacted(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.roll()
    made.append((b"a", b"2"))
    made.roll()
    made.log.high_watermark = 1
    assert made.clean(roll=False)
    assert len(records(made.log)) == 2


def test_a_map_that_is_full_ends_the_round_and_the_next_goes_on(tmp_path):
    made = Compacted(tmp_path)
    for number in range(3000):
        made.append((b"key %d" % number, b"old"))
    for number in range(3000):
        made.append((b"key %d" % number, b"new"))
    made.roll()
    tiny = Resources(map_bytes=1 << 15, read_bytes=4000)
    rounds = 0
    while made.cleaner.clean_next(tiny, Interruption()):
        rounds += 1
    assert rounds > 2
    assert records(made.log) == [(3000 + n, b"key %d" % n, b"new") for n in range(3000)]


def test_a_batch_with_more_keys_than_the_map_makes_the_log_uncleanable(tmp_path, caplog):
    made = Compacted(tmp_path)
    made.append(*((b"%d" % number, b"") for number in range(5000)))
    made.roll()
    assert not made.cleaner.clean_next(Resources(map_bytes=1 << 12), Interruption())
    assert made.cleaner.uncleanable == {TP}
    assert "cannot be compacted" in caplog.text
    assert not made.cleaner.clean_next(SMALL, Interruption())
    assert made.cleaner.clean_next(Resources(), Interruption())
    assert not made.cleaner.clean_next(Resources(), Interruption())


def test_a_log_that_a_setting_kept_from_being_compacted_is_tried_again_when_one_has_changed(tmp_path, caplog):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.roll()
    bad = Resources(load_factor=0)
    for _ in range(3):
        assert not made.cleaner.clean_next(bad, Interruption())
    assert caplog.text.count("cannot be compacted") == 1
    made.log.config = replace(CONFIG, delete_retention_ms=7)
    assert not made.cleaner.clean_next(bad, Interruption())
    assert caplog.text.count("cannot be compacted") == 2
    assert made.cleaner.clean_next(SMALL, Interruption())
    assert records(made.log) == [(1, b"a", b"2")]


def test_a_tombstone_stays_until_its_horizon_and_no_older_value_comes_back(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"), (b"b", b"2"))
    made.append((b"a", None), log_time=NOW + 7)
    made.clean()
    assert records(made.log) == [(1, b"b", b"2"), (2, b"a", None)]
    dated = [batch for batch in batches_of(made.log) if batch.delete_horizon_ms is not None]
    assert [batch.delete_horizon_ms for batch in dated] == [NOW + HOUR_MS]
    assert next(r.timestamp for r in iterate(made.log.read_bytes(2, 1000))) == NOW + 7
    made.clock.advance(HOUR_MS - 1)
    made.append((b"c", b"3"))
    made.clean()
    assert (2, b"a", None) in records(made.log)
    made.clock.advance(1)
    made.append((b"d", b"4"))
    made.clean()
    assert [key for _, key, _ in records(made.log)] == [b"b", b"c", b"d"]


def test_a_horizon_does_not_move_with_later_rounds(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", None), (b"b", b"1"), codec=3)
    made.clean()
    made.clock.advance(1000)
    made.append((b"b", b"2"))
    made.clean()
    assert [b.delete_horizon_ms for b in batches_of(made.log) if b.delete_horizon_ms] == [NOW + HOUR_MS]


def test_the_last_batch_of_a_producer_stays_without_records(tmp_path):
    made = Compacted(tmp_path)
    for sequence in range(3):
        made.append((b"a", b"x"), producer_id=7, producer_epoch=2, base_sequence=sequence)
    made.append((b"a", b"y"))
    made.clean()
    kept = [batch for batch in batches_of(made.log) if batch.producer_id == 7]
    assert [(b.base_offset, b.count, b.producer_epoch, b.last_sequence) for b in kept] == [(2, 0, 2, 2)]
    assert records(made.log) == [(3, b"a", b"y")]


def test_sequences_survive_compaction_and_a_restart_without_snapshots(tmp_path):
    made = Compacted(tmp_path)
    for sequence in range(3):
        made.append((b"a", b"x"), producer_id=7, producer_epoch=2, base_sequence=sequence)
    made.append((b"a", b"y"))
    made.clean()
    made.logs.close()
    for name in made.files(".snapshot"):
        os.unlink(f"{made.log.folder}/{name}")
    again = Compacted(tmp_path)
    entry = again.log.producers.get(7)
    assert (entry.epoch, entry.last_sequence) == (2, 2)


def test_aborted_records_go_and_committed_ones_are_compacted(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"old"), (b"b", b"kept"))
    made.append(
        (b"a", b"aborted"), (b"b", b"aborted"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0
    )
    made.end(0, producer=1)
    made.append((b"c", b"1"), transactional=True, producer_id=2, producer_epoch=0, base_sequence=0)
    made.end(1, producer=2)
    made.append((b"a", b"new"))
    made.clean()
    assert [(key, value) for _, key, value in records(made.log)] == [(b"b", b"kept"), (b"c", b"1"), (b"a", b"new")]


def test_nothing_of_an_open_transaction_is_compacted(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.roll()
    made.append((b"a", b"2"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    made.roll()
    made.append((b"a", b"3"))
    made.roll()
    assert made.clean()
    assert [value for _, _, value in records(made.log)] == [b"1", b"2", b"3"]
    made.end(0, producer=1)
    made.clean()
    assert [value for _, _, value in records(made.log)] == [b"3"]


def test_a_marker_behind_the_compacted_part_tells_that_its_records_are_aborted(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    made.roll()
    made.end(0, producer=1)
    assert made.clean(roll=False)
    assert records(made.log) == [(0, b"a", b"1")]


def test_a_marker_and_its_index_entry_stay_while_a_batch_of_the_transaction_does(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    made.end(0, producer=1)
    made.append((b"b", b"1"))
    made.clean()
    kept = batches_of(made.log)
    assert [(b.is_control, b.count) for b in kept if b.producer_id == 1] == [(False, 0), (True, 1)]
    assert [(a.producer_id, a.first_offset, a.last_offset) for a in made.log.aborted_transactions(0, 2)] == [(1, 0, 1)]


def test_a_marker_without_a_batch_goes_after_its_horizon(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    made.end(1, producer=1)
    made.append((b"a", b"2"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=1)
    made.end(1, producer=1)
    made.append((b"a", b"3"))
    states = []
    for number in range(4):
        made.append((b"%d" % number, b"x"))
        made.clean()
        states.append([(b.base_offset, b.delete_horizon_ms is not None) for b in batches_of(made.log) if b.is_control])
        made.clock.advance(HOUR_MS)
    assert states[0] == [(1, False), (3, False)]
    assert states[1] == [(1, True), (3, False)]
    assert states[2] == [(3, False)]
    assert states[3] == [(3, False)]


def test_small_segments_become_one_and_large_ones_stay_apart(tmp_path):
    made = Compacted(
        tmp_path, LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=4000, min_cleanable_dirty_ratio=0.0)
    )
    for number in range(40):
        made.append((b"key %d" % number, bytes(500)))
    made.roll()
    assert len(made.log.segments) > 5
    made.append(*((b"key %d" % number, b"") for number in range(40)))
    made.clean()
    made.append((b"x", b""))
    made.clean()
    sizes = [segment.size for segment in made.log.segments]
    assert len(sizes) == 2
    assert max(sizes) <= 4000


def test_indexes_of_a_compacted_segment_find_every_offset_and_time(tmp_path):
    made = Compacted(tmp_path)
    for number in range(200):
        made.append((b"%d" % (number % 150), b"%d" % number), log_time=NOW + number)
    made.clean()
    for offset, _, value in records(made.log):
        assert next(iterate(made.log.read_bytes(offset, 1))).offset == offset
        assert first_record_since(made.log, NOW + int(value)).offset == offset
    assert len(made.log.segments[0].offset_index) > 10


def test_a_gap_is_read_from_the_next_record(tmp_path):
    made = Compacted(tmp_path)
    for value in (b"1", b"2", b"3"):
        made.append((b"a", value))
    made.append((b"b", b"4"))
    made.clean()
    assert [r.offset for r in iterate(made.log.read_bytes(0, 1))] == [2]


def test_segments_without_a_record_are_passed_over_where_more_follows(tmp_path):
    made = Compacted(
        tmp_path, LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=4000, min_cleanable_dirty_ratio=0.0)
    )
    for _ in range(12):
        made.append((b"a", bytes(3000)))
    made.clean()
    assert len(made.log.segments) == 13
    assert [r.offset for r in iterate(made.log.read_bytes(0, 1 << 20))] == [11]
    assert [r.offset for r in iterate(made.log.read_bytes(5, 1))] == [11]
    assert made.log.read(0, 1 << 20, 5).next_offset == 5


def test_a_reader_keeps_the_old_segment_while_it_reads(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    held = made.log.read(0, 10_000)
    made.clean()
    assert [r.value for r in iterate(held.read())] == [b"1", b"2"]
    assert [value for _, _, value in records(made.log)] == [b"2"]


def test_damage_makes_a_log_uncleanable_and_changes_nothing(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.roll()
    path = made.log.segments[0].path
    with open(path, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"?")
    before = made.storage.read(path)
    assert not made.clean(roll=False)
    assert made.cleaner.uncleanable == {TP}
    assert made.storage.read(path) == before
    assert not made.files(".cleaned", ".swap")


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
def test_a_log_that_is_cut_meanwhile_keeps_what_the_cut_left(tmp_path, turn):
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


def test_retention_may_take_segments_meanwhile(tmp_path):
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


def test_the_checkpoint_has_kafkas_form_and_is_read_at_the_start(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.clean()
    assert (tmp_path / "data" / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    made.logs.close()
    assert Compacted(tmp_path).log.clean_offset == 1


def test_a_clean_offset_beyond_the_end_counts_for_nothing(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.log.clean_offset = 100
    assert made.clean()
    assert len(records(made.log)) == 1


def test_a_log_is_due_by_its_dirty_ratio(tmp_path):
    made = Compacted(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.5))
    for number in range(10):
        made.append((b"%d" % number, bytes(100)))
    assert made.clean()
    made.append((b"x", bytes(100)))
    assert not made.clean()
    for number in range(10):
        made.append((b"y %d" % number, bytes(100)))
    assert made.clean()


def test_young_records_wait_for_the_min_compaction_lag(tmp_path):
    made = Compacted(
        tmp_path,
        LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=1000),
    )
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    assert not made.clean()
    made.clock.advance(1001)
    assert made.clean(roll=False)


def test_old_records_wait_no_longer_than_the_max_compaction_lag(tmp_path):
    made = Compacted(
        tmp_path,
        LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000),
    )
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    assert not made.clean()
    made.clock.advance(1001)
    assert made.clean(roll=False)


def test_a_log_that_is_not_compacted_is_left_alone(tmp_path):
    made = Compacted(tmp_path, LogConfig())
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    assert not made.clean()


def test_snapshots_of_segments_that_were_merged_away_go(tmp_path):
    made = Compacted(tmp_path)
    for number in range(5):
        made.append((b"%d" % number, b""))
        made.roll()
    assert len(made.files(".snapshot")) == 5
    made.clean(roll=False)
    assert len(made.files(".snapshot")) == 1


def test_an_interrupted_compaction_leaves_no_file(tmp_path):
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


def test_a_throttle_makes_up_for_what_was_used():
    throttle = Throttle(1000.0)
    assert throttle.delay(1000, 10.0) == 0.0
    assert throttle.delay(500, 10.0) == pytest.approx(0.5)
    assert throttle.delay(0, 10.5) == pytest.approx(0.0)
    assert throttle.delay(2000, 100.0) == pytest.approx(1.0)


def test_cleanable_is_none_where_nothing_dirty_is_sealed(tmp_path):
    made = Compacted(tmp_path)
    assert cleanable(made.log, NOW) is None
    made.append((b"a", b"1"))
    assert cleanable(made.log, NOW) is None


def test_a_swap_waits_for_a_sync_that_is_at_the_files(tmp_path):
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


def test_aborted_records_go_before_their_index_is_in_its_file(tmp_path):
    """A sealed segment's transaction index is written with the next sync."""
    made = Compacted(tmp_path)
    made.append((b"a", b"old"))
    for number in range(3):
        made.append((b"a", b"aborted"), transactional=True, producer_id=number, producer_epoch=0, base_sequence=0)
        made.end(0, producer=number)
    made.log.log_dir.on_roll = lambda log: None
    made.roll()
    made.log.log_dir.storage.unlink(made.log.segments[0].txn_index.path)
    assert made.clean(roll=False)
    assert records(made.log) == [(0, b"a", b"old")]
    assert len(made.log.aborted_transactions(0, 10)) == 3


def test_the_active_segment_rolls_by_the_max_compaction_lag(tmp_path):
    made = Compacted(
        tmp_path,
        LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000),
    )
    made.append((b"a", b"1"), log_time=NOW)
    made.append((b"a", b"2"), log_time=NOW + 1000)
    assert len(made.log.segments) == 1
    made.append((b"a", b"3"), log_time=NOW + 1001)
    assert len(made.log.segments) == 2


def test_a_cut_lowers_the_checkpoint_at_once(tmp_path):
    made = Compacted(tmp_path)
    for number in range(3):
        made.append((b"%d" % number, b""))
    made.clean()
    made.log.truncate_to(1, NOW)
    assert checkpoints.read_offsets(made.storage, f"{tmp_path}/data/{checkpoints.CLEANER}") == {TP: 1}


def test_a_deletion_holds_behind_an_aborted_transaction_of_the_same_producer_that_an_earlier_round_read(tmp_path):
    made = Compacted(tmp_path)
    sent = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    made.append((b"k", b"1"), base_sequence=0, **sent)
    made.end(1)
    made.append((b"other", b"2"), base_sequence=1, **sent)
    made.end(0)
    assert made.clean()
    made.append((b"k", None), base_sequence=2, **sent)
    made.end(1)
    assert made.clean()
    assert [record[1:] for record in records(made.log)] == [(b"k", None)]
    made.clock.advance(2 * HOUR_MS)
    made.append((b"more", b"3"))
    assert made.clean()
    assert [record[1:] for record in records(made.log)] == [(b"more", b"3")]


def test_a_delete_retention_for_ever_keeps_tombstones(tmp_path):
    made = Compacted(tmp_path, replace(CONFIG, delete_retention_ms=MAX_LONG))
    made.append((b"k", b"1"))
    made.append((b"k", None), log_time=NOW)
    for _ in range(3):
        made.append((b"more", b"2"))
        assert made.clean()
        made.clock.advance(1000 * HOUR_MS)
    assert records(made.log)[0] == (1, b"k", None)
    assert [record.timestamp for record in iterate(made.log.read_bytes(1, 10_000)) if record.key == b"k"] == [NOW]
