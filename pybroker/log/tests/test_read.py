from __future__ import annotations

import os
import struct
import zlib

import pytest

from cy.batch import Builder, first_since, iterate, read_header, set_log_append_time
from cy.wire.sendfile import FileSlice
from pybroker.config.log_config import LogConfig
from pybroker.log.expiry import apply_retention
from pybroker.log.files.storage import DataFile
from pybroker.log.tests.helpers import NOW, batch, contents, fill, numbered, open_files, open_log
from pybroker.log.timestamps import first_record_since, newest_record
from pyclient.protocol import errors


@pytest.fixture
def log(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_bytes=20_000))
    fill(log, numbered(500))
    return log


def reopened(log, **options):
    log.close()
    return open_log(log.log_dir.path, log.config, **options)


def test_every_offset_is_found_wherever_it_lies(log):
    for opened in (log, reopened(log)):
        for offset in range(499, -1, -1):
            part = opened.read(offset, 200)
            assert read_header(part.read()).base_offset == offset
            assert part.next_offset == offset + 1


def test_a_second_read_of_a_segment_checks_no_bytes_again(log, monkeypatch):
    def read(file, length, position):
        raise AssertionError(f"{length} bytes of {file.path} are read")

    again = reopened(log)
    with monkeypatch.context() as patch:
        patch.setattr(DataFile, "read", read)
        with pytest.raises(AssertionError, match="are read"):
            again.read(0, 100_000)
    part = again.read(0, 100_000)
    with monkeypatch.context() as patch:
        patch.setattr(DataFile, "read", read)
        assert again.read(0, 100_000).size == part.size > 0


@pytest.mark.parametrize("second", [368_769, 368_796])
def test_s73_offsets_are_found_through_the_right_segments(tmp_path, second):
    """The look-up in Kafka's documents: segments 0, 368769 (368796 in the other document) and 737337."""
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    bases = (0, second, 737_337)
    for base, end in zip(bases, (second, 737_337, 737_400), strict=True):
        for offset in (*range(base, base + 60), end - 1):
            records = batch(b"%d" % offset, base_offset=offset, timestamp=NOW + base)
            log.append_as_follower(records, 0, NOW)
    names = sorted(path.name for path in (tmp_path / "t-0").glob("*.log"))
    assert names == [f"{base:020d}.log" for base in bases]
    for offset in (368_776, 368_801):
        part = log.read(offset, 1000)
        records = {record.offset: record.value for record in iterate(part.read())}
        if offset >= second:
            assert part.records.file.path.endswith(f"{second:020d}.log")
            assert records[offset] == b"%d" % offset
        else:
            assert min(records) == second - 1


def test_a_read_in_a_compaction_gap_returns_the_next_batch(tmp_path):
    log = open_log(tmp_path)
    log.append_as_follower(batch(b"a", base_offset=3), 0, NOW)
    log.append_as_follower(batch(b"b", base_offset=90), 0, NOW)
    assert read_header(log.read(50, 1000).read()).base_offset == 90


def test_a_read_at_an_offset_inside_a_batch_returns_the_whole_batch(tmp_path):
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"a", b"b", b"c"), 0, NOW)
    assert read_header(log.read(1, 1000).read()).base_offset == 0


@pytest.mark.parametrize("offset", [-1, 501])
def test_offset_outside_the_log_is_out_of_range(log, offset):
    with pytest.raises(errors.OffsetOutOfRange):
        log.read(offset, 1000)


def test_a_read_at_the_log_end_or_from_the_upper_bound_returns_nothing(log):
    assert log.read(500, 1000).size == 0
    assert log.read(300, 1000, upper_bound=300).size == 0
    assert log.read(400, 1000, upper_bound=300).size == 0


def test_a_read_returns_only_whole_batches_within_max_bytes(log):
    size = log.read(0, 1).size
    part = log.read(0, 10 * size + size // 2)
    assert part.size == 10 * size
    assert part.next_offset == 10
    assert [record.offset for record in iterate(part.read())] == list(range(10))


def test_a_read_returns_a_larger_first_batch_whole_unless_told_otherwise(log):
    assert log.read(7, 1).next_offset == 8
    assert log.read(7, 1, min_one=False).size == 0


@pytest.mark.parametrize("bound", [1, 77, 130, 131, 499])
def test_a_read_returns_no_record_at_or_beyond_the_upper_bound(log, bound):
    offset = 0
    while (part := log.read(offset, 1 << 20, upper_bound=bound)).size:
        assert all(record.offset < bound for record in iterate(part.read()))
        offset = part.next_offset
    assert offset == bound


def test_a_file_slice_is_readable_after_retention_removes_its_segment(log):
    part = log.read(0, 1000)
    assert isinstance(part.records, FileSlice)
    log.config = LogConfig(retention_ms=0, segment_bytes=20_000)
    log.update_high_watermark(500)
    assert apply_retention(log, NOW + 10**9) > 0
    assert next(iterate(part.records.read())).offset == 0


def test_files_are_opened_again_after_the_cache_has_closed_them(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_bytes=1000), limit=2)
    fill(log, numbered(100))
    assert len(log.log_dir.cache) <= 2
    assert len(contents(log)) == 100
    assert len(open_files(tmp_path)) <= 3


# Damage


def flip(log, offset):
    """Flips a bit of the value at ``offset`` in the file."""
    segment = log.segments[log.segments.find(offset)]
    position = segment.batch_reaching(offset).end - 3
    with open(segment.path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def test_case_8_record_damaged_on_disk_is_corrupt_and_those_around_it_are_not(log):
    log.close()
    flip(log, 42)
    log = open_log(log.log_dir.path, log.config)
    part = log.read(30, 1 << 20)
    assert part.next_offset == 42
    for _ in range(2):
        with pytest.raises(errors.CorruptMessage):
            log.read(42, 1 << 20)
    assert next(iterate(log.read(43, 1000).read())).offset == 43


def test_case_8_damage_while_the_broker_runs_is_detected(log):
    assert len(contents(log)) == 500
    flip(log, 42)
    os.utime(log.segments[0].path, ns=(2**62, 2**62))
    with pytest.raises(errors.CorruptMessage):
        log.read(42, 1000)


def test_case_8_damage_is_detected_once_checked_bytes_are_no_longer_trusted(log):
    modified = os.stat(log.segments[0].path).st_mtime_ns
    flip(log, 42)
    os.utime(log.segments[0].path, ns=(modified, modified))
    log.files.distrust()
    with pytest.raises(errors.CorruptMessage):
        log.read(42, 1000)


@pytest.mark.parametrize(
    "again", [lambda log: log.read(30, 100), lambda log: fill(log, [b"more"])], ids=["read", "append"]
)
def test_case_8_damage_is_detected_after_the_file_was_closed_and_reopened(log, again):
    assert len(contents(log)) == 500
    modified = os.stat(log.segments[0].path).st_mtime_ns
    flip(log, 42)
    os.utime(log.segments[0].path, ns=(modified, modified))
    log.files.release()
    again(log)
    with pytest.raises(errors.CorruptMessage):
        log.read(42, 1000)


def test_case_8_damage_is_detected_after_the_file_was_reopened_for_a_truncation(log):
    assert len(contents(log)) == 500
    modified = os.stat(log.segments[0].path).st_mtime_ns
    flip(log, 42)
    os.utime(log.segments[0].path, ns=(modified, modified))
    log.files.release()
    with log.segments[0].held(), pytest.raises(errors.CorruptMessage):
        log.read(42, 1000)


def test_bytes_are_checked_once_and_then_trusted(tmp_path, monkeypatch):
    log = open_log(tmp_path)
    fill(log, numbered(100))
    log = reopened(log)
    from pybroker.log.segment import slicing

    checks = []
    real = slicing.walk_verified
    monkeypatch.setattr(slicing, "walk_verified", lambda *args: checks.append(args) or real(*args))
    contents(log)
    assert checks
    checks.clear()
    assert len(contents(log)) == 100
    fill(log, [b"new"])
    log.read(100, 1000)
    assert checks == []


@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "shifted", "garbage"])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_case_2_missing_or_corrupt_index_is_rebuilt(log, damage, suffix):
    log.close()
    path = log.segments[0].path.removesuffix("log") + suffix
    with open(path, "rb") as file:
        good = file.read()
    changed = {
        "empty": b"",
        "torn": good[:-3],
        "shifted": good[8:] + good[:8],
        "garbage": b"\1" * len(good),
    }
    os.unlink(path)
    if damage != "missing":
        with open(path, "wb") as file:
            file.write(changed[damage])
    log = open_log(log.log_dir.path, log.config)
    for offset in (0, 42, 77, 120):
        assert read_header(log.read(offset, 10).read()).base_offset == offset
    assert first_record_since(log, NOW).offset == 0
    assert len(contents(log)) == 500


@pytest.mark.parametrize("entry", [(0x7FFF_FFFF, 0x7FFF_FFFF), (0x7FFF_FFFF, 0), (0x7FFF_FFFF, 80)])
def test_case_2_a_wrong_index_does_not_define_the_end_of_the_log(log, entry):
    """No look-up meets an index entry beyond all offsets, but the search for the log's end begins behind it."""
    log.close()
    path = log.segments[-1].path.removesuffix("log") + "index"
    with open(path, "rb") as file:
        entries = len(file.read()) // 8
    assert entries
    with open(path, "wb") as file:
        file.write(struct.pack(">ii", *entry) * entries)
    log = open_log(log.log_dir.path, log.config)
    assert log.log_end_offset == 500
    fill(log, [b"more"])
    assert len(contents(log)) == 501


# Time


@pytest.fixture
def timed(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_bytes=2000, index_interval_bytes=200))
    for number in range(100):
        log.append_as_leader(batch(b"%d" % number, b"x", timestamp=NOW + number * 10), 0, NOW)
    return log


@pytest.mark.parametrize("number", [0, 1, 37, 55, 99])
def test_first_record_as_new_as_a_timestamp_is_found(timed, number):
    for log in (timed, reopened(timed)):
        assert first_record_since(log, NOW + number * 10)[:2] == (NOW + number * 10, number * 2)
        assert first_record_since(log, NOW + number * 10 - 9)[:2] == (
            NOW + number * 10,
            number * 2,
        )
    assert first_record_since(log, NOW + 991) is None


def test_search_by_time_begins_at_the_log_start(timed):
    timed.update_high_watermark(200)
    timed.raise_log_start_offset(101)
    assert first_record_since(timed, NOW)[:2] == (NOW + 500, 101)


def test_newest_record_is_the_first_with_the_greatest_timestamp(tmp_path):
    log = open_log(tmp_path)
    assert newest_record(log) is None
    for timestamp in (NOW, NOW + 50, NOW + 20, NOW + 50):
        log.append_as_leader(batch(b"a", timestamp=timestamp), 7, NOW)
    assert newest_record(log) == (NOW + 50, 1, 7)


def test_a_search_by_time_ends_at_a_record_that_has_become_too_large(tmp_path):
    """The search reads only as far as necessary, as in Kafka: it finds an earlier record of the same batch."""
    log = open_log(tmp_path)
    builder = Builder(codec=4)
    for number, value in enumerate((b"small", bytes(4096), b"small")):
        builder.append(NOW + number, b"k", value)
    log.append_as_leader(bytearray(builder.build()), 0, NOW)
    log.config = LogConfig(max_decompressed_message_bytes=512)
    assert first_record_since(log, NOW).offset == 0
    with pytest.raises(errors.InvalidRecord):
        first_record_since(log, NOW + 2)
    with pytest.raises(errors.InvalidRecord):
        newest_record(log)
    log.config = LogConfig()
    assert newest_record(log).offset == first_record_since(log, NOW + 2).offset == 2


# Old formats


def message(offset: int, value: bytes, magic: int, timestamp: int = NOW) -> bytes:
    """Returns a message of format 0 or 1 as Kafka's documents describe it: offset, size, CRC, magic,
    attributes, key, value.
    """
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_s79_messages_of_old_formats_are_read_as_v2_batches_and_new_ones_follow(tmp_path, magic):
    open_log(tmp_path).close()
    path = tmp_path / "t-0/00000000000000000000.log"
    path.write_bytes(b"".join(message(n, b"%d" % n, magic) for n in range(50)))
    log = open_log(tmp_path, clean=False)
    assert log.log_end_offset == 50
    fill(log, [b"new"])
    assert contents(log) == [(n, b"%d" % n) for n in range(50)] + [(50, b"new")]
    assert read_header(log.read(0, 1000).read()).magic == 2
    assert next(record for record in iterate(log.read(33, 1000).read()) if record.offset == 33).value == b"33"
    damaged = bytearray(path.read_bytes())
    damaged[len(message(0, b"0", magic)) - 1] ^= 1
    path.write_bytes(damaged)
    os.utime(path, ns=(2**62, 2**62))
    with pytest.raises(errors.CorruptMessage):
        log.read(0, 1000)


@pytest.mark.parametrize("claimed", [7, 12, 400, 1 << 40])
def test_case_8_a_batch_with_a_damaged_offset_is_not_served(tmp_path, claimed):
    """The CRC does not cover the base offset. The neighbouring batches show the damage, though not always which of the
    two offsets is wrong.
    """
    log = open_log(tmp_path)
    fill(log, numbered(40))
    size = log.active_segment.size // 40
    path = log.active_segment.path
    log.close()
    with open(path, "r+b") as file:
        file.seek(10 * size)
        file.write(struct.pack(">q", claimed))
    log = open_log(tmp_path)
    for max_bytes in (1, 3 * size, 100 * size):
        assert log.read(8, max_bytes).next_offset in (9, 10)
        found = [record.offset for record in iterate(log.read(5, max_bytes).read())]
        assert found == list(range(5, 5 + len(found)))
        with pytest.raises(errors.CorruptMessage):
            log.read(10, max_bytes)
    assert [record.offset for record in iterate(log.read(30, 100 * size).read())] == list(range(30, 40))


def test_a_search_by_time_reads_nothing_below_the_log_start(tmp_path, monkeypatch):
    log = open_log(tmp_path, LogConfig(segment_bytes=400_000))
    for number in range(3000):
        log.append_as_leader(batch(*[bytes(20)] * 10, timestamp=NOW + number), 0, NOW)
    assert len(log.segments) > 2
    log.update_high_watermark(log.log_end_offset)
    start = log.segments[2].base_offset - 25
    log.raise_log_start_offset(start)
    read, sizes = DataFile.read, []
    monkeypatch.setattr(DataFile, "read", lambda self, n, at: sizes.append(n) or read(self, n, at))
    for timestamp in (0, NOW, NOW + 10):
        assert first_record_since(log, timestamp).offset == start
    assert first_record_since(log, NOW + start // 10 + 1).offset == start // 10 * 10 + 10
    assert sum(sizes) < 200_000


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("append_time", [False, True])
def test_the_first_record_of_a_batch_as_new_as_a_timestamp_is_found(codec, append_time):
    builder = Builder(codec=codec)
    times = [5, 3, 9, 7, 9, 2]
    for timestamp in times:
        builder.append(timestamp, b"k", b"v")
    records = bytearray(builder.build(100))
    if append_time:
        set_log_append_time(records, 6)
    for timestamp in range(12):
        for offset in (0, 102, 103, 105, 107):
            found = [(r.timestamp, r.offset) for r in iterate(records) if r.offset >= offset]
            expected = next((each for each in found if each[0] >= timestamp), None)
            assert first_since(records, timestamp, offset, 100) == expected
