"""What compaction leaves of a log."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from cy.batch import iterate
from pybroker.config.log_config import MAX_LONG, LogConfig
from pybroker.log.compaction.cleanable import cleanable
from pybroker.log.compaction.compaction import Resources
from pybroker.log.compaction.tests.compacted import CONFIG, HOUR_MS, SMALL, Compacted, batches_of, records
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.files import checkpoints
from pybroker.log.interruption import Interruption
from pybroker.log.tests.helpers import NOW, TP
from pybroker.log.timestamps import first_record_since


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


def test_a_batch_that_loses_no_record_keeps_its_bytes(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"), (b"b", b"2"), codec=4)
    before = made.log.read_bytes(0, 10_000)
    made.append((b"c", b"3"))
    made.clean()
    assert made.log.read_bytes(0, len(before)) == before


def test_random_logs_are_compacted_as_a_simple_model_predicts(tmp_path):
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


def test_a_full_offset_map_ends_the_compaction_round_and_the_next_round_continues(tmp_path):
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


def test_a_batch_with_more_keys_than_the_offset_map_holds_makes_the_log_uncleanable(tmp_path, caplog):
    made = Compacted(tmp_path)
    made.append(*((b"%d" % number, b"") for number in range(5000)))
    made.roll()
    assert not made.cleaner.clean_next(Resources(map_bytes=1 << 12), Interruption())
    assert made.cleaner.uncleanable == {TP}
    assert "cannot be compacted" in caplog.text
    assert not made.cleaner.clean_next(SMALL, Interruption())
    assert made.cleaner.clean_next(Resources(), Interruption())
    assert not made.cleaner.clean_next(Resources(), Interruption())


def test_an_uncleanable_log_is_tried_again_after_a_setting_changes(tmp_path, caplog):
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


def test_a_tombstone_stays_until_its_delete_horizon_and_no_older_value_returns(tmp_path):
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


def test_later_compaction_rounds_do_not_move_a_delete_horizon(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", None), (b"b", b"1"), codec=3)
    made.clean()
    made.clock.advance(1000)
    made.append((b"b", b"2"))
    made.clean()
    assert [b.delete_horizon_ms for b in batches_of(made.log) if b.delete_horizon_ms] == [NOW + HOUR_MS]


def test_compaction_merges_small_segments_and_leaves_large_ones_separate(tmp_path):
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


def test_a_read_in_a_compaction_gap_begins_at_the_next_record(tmp_path):
    made = Compacted(tmp_path)
    for value in (b"1", b"2", b"3"):
        made.append((b"a", value))
    made.append((b"b", b"4"))
    made.clean()
    assert [r.offset for r in iterate(made.log.read_bytes(0, 1))] == [2]


def test_a_read_skips_empty_segments_if_records_follow(tmp_path):
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


def test_a_corrupt_record_makes_a_log_uncleanable_and_changes_no_file(tmp_path):
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


def test_the_cleaner_checkpoint_has_kafkas_format_and_is_read_at_the_start(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.clean()
    assert (tmp_path / "data" / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    made.logs.close()
    assert Compacted(tmp_path).log.clean_offset == 1


def test_a_cleaner_checkpoint_beyond_the_log_end_is_ignored(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"))
    made.log.clean_offset = 100
    assert made.clean()
    assert len(records(made.log)) == 1


def test_a_log_is_compacted_when_its_dirty_ratio_is_high_enough(tmp_path):
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


def test_snapshots_of_merged_segments_are_removed(tmp_path):
    made = Compacted(tmp_path)
    for number in range(5):
        made.append((b"%d" % number, b""))
        made.roll()
    assert len(made.files(".snapshot")) == 5
    made.clean(roll=False)
    assert len(made.files(".snapshot")) == 1


def test_the_throttle_delays_by_the_bytes_used_so_far():
    throttle = Throttle(1000.0)
    assert throttle.delay(1000, 10.0) == 0.0
    assert throttle.delay(500, 10.0) == pytest.approx(0.5)
    assert throttle.delay(0, 10.5) == pytest.approx(0.0)
    assert throttle.delay(2000, 100.0) == pytest.approx(1.0)


def test_a_log_without_sealed_dirty_segments_is_not_cleanable(tmp_path):
    made = Compacted(tmp_path)
    assert cleanable(made.log, NOW) is None
    made.append((b"a", b"1"))
    assert cleanable(made.log, NOW) is None


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


def test_a_truncation_lowers_the_checkpoint_at_once(tmp_path):
    made = Compacted(tmp_path)
    for number in range(3):
        made.append((b"%d" % number, b""))
    made.clean()
    made.log.truncate_to(1, NOW)
    assert checkpoints.read_offsets(made.storage, f"{tmp_path}/data/{checkpoints.CLEANER}") == {TP: 1}


def test_tombstones_stay_if_delete_retention_ms_is_endless(tmp_path):
    made = Compacted(tmp_path, replace(CONFIG, delete_retention_ms=MAX_LONG))
    made.append((b"k", b"1"))
    made.append((b"k", None), log_time=NOW)
    for _ in range(3):
        made.append((b"more", b"2"))
        assert made.clean()
        made.clock.advance(1000 * HOUR_MS)
    assert records(made.log)[0] == (1, b"k", None)
    assert [record.timestamp for record in iterate(made.log.read_bytes(1, 10_000)) if record.key == b"k"] == [NOW]
