from __future__ import annotations

import struct

import pytest

from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.offset_index import OffsetIndex, OffsetPosition
from pybroker.log.files.storage import Storage
from pybroker.log.files.time_index import TimeIndex, TimestampEntry
from pybroker.log.files.txn_index import AbortedTransaction, TransactionIndex
from pybroker.log.segment.intervals import Intervals


@pytest.fixture
def offsets(tmp_path):
    index = OffsetIndex(Storage(), FileCache(), str(tmp_path), 1000)
    index.start_empty()
    for number in range(1, 6):
        index.add(1000 + number * 10, number * 4096)
    return index


def test_offset_entries_are_two_big_endian_int32(offsets, tmp_path):
    offsets.save()
    data = (tmp_path / "00000000000000001000.index").read_bytes()
    assert [*struct.iter_unpack(">ii", data)] == [(n * 10, n * 4096) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("offset", "found"),
    [(1000, None), (1009, None), (1010, 1), (1019, 1), (1020, 2), (1050, 5), (9999, 5)],
)
def test_a_lookup_returns_the_last_entry_at_or_before_the_offset(offsets, offset, found):
    expected = None if found is None else OffsetPosition(1000 + found * 10, found * 4096)
    assert offsets.lookup(offset) == expected


def test_last_entry_before_a_position_is_found(offsets):
    assert offsets.last_upto(4095) is None
    assert offsets.last_upto(2 * 4096) == OffsetPosition(1020, 2 * 4096)
    assert offsets.last_upto(1 << 30) == OffsetPosition(1050, 5 * 4096)


def test_a_saved_index_is_the_same_when_it_is_read_again(offsets, tmp_path):
    offsets.save()
    again = OffsetIndex(Storage(), FileCache(), str(tmp_path), 1000)
    assert [again.entry(n) for n in range(len(again))] == [offsets.entry(n) for n in range(5)]


def test_a_reopened_index_appends_after_its_entries_on_disk(offsets, tmp_path):
    offsets.save()
    again = OffsetIndex(Storage(), FileCache(), str(tmp_path), 1000)
    again.add(1060, 6 * 4096)
    again.save()
    assert (tmp_path / "00000000000000001000.index").stat().st_size == 6 * 8


def test_a_truncation_removes_index_entries_from_the_file(offsets, tmp_path):
    offsets.save()
    offsets.truncate_to_position(3 * 4096)
    assert offsets.last() == OffsetPosition(1020, 2 * 4096)
    assert (tmp_path / "00000000000000001000.index").stat().st_size == 2 * 8


def test_released_entries_that_are_not_saved_stay_in_memory(offsets):
    offsets.release()
    assert len(offsets) == 5


def test_a_large_index_is_mapped_and_released_by_the_cache_of_open_files(tmp_path):
    cache = FileCache(1)
    for base in (0, 1):
        index = OffsetIndex(Storage(), cache, str(tmp_path), base)
        index.start_empty()
        for number in range(4000):
            index.add(base + number, number)
        index.save()
    first, second = (OffsetIndex(Storage(), cache, str(tmp_path), base) for base in (0, 1))
    assert first.last().offset == 3999
    first.recently_used = False
    assert second.last().offset == 4000
    assert first._entries is None
    assert first.last().offset == 3999


def test_time_index_takes_only_growing_timestamps(tmp_path):
    index = TimeIndex(Storage(), FileCache(), str(tmp_path), 50)
    index.start_empty()
    for timestamp, offset in ((100, 51), (100, 52), (90, 53), (200, 54)):
        index.add(timestamp, offset)
    index.save()
    data = (tmp_path / "00000000000000000050.timeindex").read_bytes()
    assert [*struct.iter_unpack(">qi", data)] == [(100, 1), (200, 4)]
    assert index.lookup(100) is None
    assert index.lookup(101) == TimestampEntry(100, 51)
    assert index.lookup(201) == TimestampEntry(200, 54)
    index.truncate_to_offset(54)
    assert index.last() == TimestampEntry(100, 51)


def test_transaction_index_exists_only_where_there_is_an_aborted_transaction(tmp_path):
    index = TransactionIndex(Storage(), FileCache(), str(tmp_path), 0)
    assert list(index) == []
    assert list(tmp_path.iterdir()) == []
    index.add(AbortedTransaction(7, 1, 5, 6))
    index.add(AbortedTransaction(8, 2, 9, 10))
    index.save()
    data = (tmp_path / "00000000000000000000.txnindex").read_bytes()
    assert [*struct.iter_unpack(">hqqqq", data)] == [(0, 7, 1, 5, 6), (0, 8, 2, 9, 10)]
    assert [each.producer_id for each in index.ended_since(5)] == [7, 8]
    assert [each.producer_id for each in index.ended_since(6)] == [8]
    assert list(index.ended_since(10)) == []
    index.truncate_to_offset(9)
    assert list(index) == [AbortedTransaction(7, 1, 5, 6)]


def test_ranges_that_touch_are_merged():
    ranges = Intervals()
    for start, end in ((10, 20), (30, 40), (20, 30), (50, 60), (5, 12)):
        ranges.add(start, end)
    assert ranges.covers(5, 40)
    assert not ranges.covers(5, 41)
    assert not ranges.covers(45, 55)
    assert ranges.end_of(50) == 60
    ranges.clear()
    assert not ranges.covers(10, 11)
