from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from cy.batch import iterate, read_header
from cy.batch.compression import Codec
from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import Origin, UnexpectedOffset
from pybroker.log.tests.helpers import (
    NOW,
    batch,
    contents,
    fill,
    idempotent,
    marker,
    numbered,
    open_log,
)  # fmt: skip
from pybroker.log.timestamps import newest_record
from pyclient.protocol import errors


def test_batches_get_consecutive_offsets_and_the_leader_epoch_in_place(tmp_path):
    log = open_log(tmp_path)
    records = batch(b"a", b"b", b"c")
    first = log.append_as_leader(memoryview(records), 3, NOW)
    second = log.append_as_leader(batch(b"d"), 3, NOW)
    assert (first.first_offset, first.last_offset) == (0, 2)
    assert (second.first_offset, second.last_offset) == (3, 3)
    assert read_header(records).partition_leader_epoch == 3
    assert contents(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert log.leader_epochs.entries == [(3, 0)]


def test_bytes_that_must_not_be_changed_are_copied(tmp_path):
    log = open_log(tmp_path)
    records = bytes(batch(b"a"))
    log.append_as_leader(records, 3, NOW)
    log.append_as_leader(memoryview(records), 3, NOW)
    assert read_header(records).partition_leader_epoch == 0
    assert contents(log) == [(0, b"a"), (1, b"a")]


def test_case_54_wrong_crc_or_size_is_corrupt(tmp_path):
    log = open_log(tmp_path)
    damaged = batch(b"abc")
    damaged[-3] ^= 1
    for records in (damaged, batch(b"abc")[:-1], b"", b"x" * 61):
        with pytest.raises(errors.CorruptMessage):
            log.append_as_leader(bytearray(records), 0, NOW)
    with pytest.raises(errors.InvalidRecord):
        log.append_as_leader(batch(b"a") + batch(b"b"), 0, NOW)
    assert log.log_end_offset == 0


def test_case_54_control_batch_from_a_client_is_invalid(tmp_path):
    log = open_log(tmp_path)
    with pytest.raises(errors.InvalidRecord):
        log.append_as_leader(marker(1), 0, NOW)
    assert log.append_as_leader(marker(1), 0, NOW, origin=Origin.COORDINATOR).first_offset == 0


def test_case_55_null_key_on_a_compacted_topic_names_the_record(tmp_path):
    log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(errors.InvalidRecord) as refused:
        log.append_as_leader(batch(b"a", key=None), 0, NOW)
    assert [index for index, _ in refused.value.record_errors] == [0]


@pytest.mark.parametrize("timestamp", [NOW + 3_600_001, NOW - 1_001])
def test_case_55_timestamp_out_of_range_is_refused(tmp_path, timestamp):
    log = open_log(tmp_path, LogConfig(message_timestamp_before_max_ms=1_000))
    with pytest.raises(errors.InvalidTimestamp):
        log.append_as_leader(batch(b"a", timestamp=timestamp), 0, NOW)


def test_case_56_batch_over_max_message_bytes_or_over_a_segment_is_too_large(tmp_path):
    log = open_log(tmp_path, LogConfig(max_message_bytes=200, segment_bytes=150))
    with pytest.raises(errors.MessageTooLarge):
        log.append_as_leader(batch(bytes(200)), 0, NOW)
    with pytest.raises(errors.RecordListTooLarge):
        log.append_as_leader(batch(bytes(100)), 0, NOW)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_record_that_unpacks_to_more_than_max_decompressed_message_bytes_is_invalid(tmp_path, codec):
    log = open_log(tmp_path, LogConfig(max_decompressed_message_bytes=512))
    with pytest.raises(errors.InvalidRecord, match="record size: 4104 exceeds") as refused:
        log.append_as_leader(batch(b"a", bytes(4096), codec=codec), 0, NOW)
    assert not refused.value.record_errors
    assert log.log_end_offset == 0
    log.append_as_leader(batch(*[bytes(64)] * 64, codec=codec), 0, NOW)
    log.append_as_leader(batch(bytes(4096)), 0, NOW)
    assert log.log_end_offset == 65


def test_case_57_unknown_codec_is_unsupported(tmp_path):
    log = open_log(tmp_path)
    records = batch(b"a")
    records[22] = 5
    from cy.crc32c import crc32c

    records[17:21] = crc32c(records[21:]).to_bytes(4, "big")
    with pytest.raises(errors.UnsupportedCompressionType):
        log.append_as_leader(records, 0, NOW)


def test_log_append_time_becomes_the_timestamp_of_every_record_and_is_returned(tmp_path):
    log = open_log(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    info = log.append_as_leader(batch(b"a", b"b", timestamp=5), 0, NOW)
    assert info.log_append_time_ms == NOW
    assert [record.timestamp for record in iterate(log.read_bytes(0, 1000))] == [NOW, NOW]
    assert newest_record(log).timestamp == NOW


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ({"max_message_bytes": 100_000}, errors.MessageTooLarge),
        ({"max_message_bytes": 1 << 30, "segment_bytes": 100_000}, errors.RecordListTooLarge),
    ],
)
@pytest.mark.parametrize("kind", ["uncompressed", "lz4"])
def test_size_limits_apply_to_a_batch_after_recompression_by_the_topics_codec(tmp_path, kind, limit, error):
    log = open_log(tmp_path, LogConfig(compression_type=kind, **limit))
    records = batch(*[bytes(1_000_000)], codec=Codec.ZSTD)
    assert len(records) < 2000
    if kind == "uncompressed":
        with pytest.raises(error):
            log.append_as_leader(records, 0, NOW)
        assert log.size == log.log_end_offset == 0
    else:
        log.append_as_leader(records, 0, NOW)
        assert log.size < 100_000
    log.append_as_leader(batch(b"small", codec=Codec.ZSTD), 0, NOW)


def test_a_follower_makes_segments_whose_indexes_can_hold_the_offsets_that_compaction_has_left(tmp_path):
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1, cleanup_policy=frozenset({"compact"})))
    far = [0, 3_000_000_000, 3_000_000_001, 6_000_000_000, 6_000_000_001]
    log.append_as_follower(b"".join(bytes(batch(b"v", base_offset=offset)) for offset in far[1:]), 0, NOW)
    assert [offset for offset, _ in contents(log)] == far[1:]
    assert all(segment.size for segment in log.segments if segment.base_offset)
    log.close()
    log = open_log(tmp_path)
    assert [offset for offset, _ in contents(log)] == far[1:]
    assert log.log_end_offset == far[-1] + 1


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
        ("uncompressed", 0),
    ],
)
def test_the_topics_compression_type_replaces_the_producers(tmp_path, kind, codec):
    log = open_log(tmp_path, LogConfig(compression_type=kind))
    for producers in (Codec.NONE, Codec.ZSTD):
        log.append_as_leader(batch(b"x" * 1000, codec=producers), 0, NOW)
    stored = log.read_bytes(0, 10_000)
    first = read_header(stored)
    assert first.codec == codec
    assert read_header(stored, first.end).codec == codec
    assert contents(log) == [(0, b"x" * 1000), (1, b"x" * 1000)]


def test_segments_are_named_by_the_offset_they_begin_with_and_roll_by_size(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_bytes=1000))
    fill(log, numbered(30))
    names = sorted(path.name for path in (tmp_path / "t-0").glob("*.log"))
    assert names[0] == "00000000000000000000.log"
    assert [int(name[:20]) for name in names] == [segment.base_offset for segment in log.segments]
    assert len(names) > 3
    assert all(segment.size <= 1000 for segment in log.segments)
    for name in names:
        stem = name.removesuffix(".log")
        assert (tmp_path / "t-0" / f"{stem}.index").exists()
        assert (tmp_path / "t-0" / f"{stem}.timeindex").exists()


def test_segment_rolls_when_the_records_are_segment_ms_apart(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for timestamp in (NOW, NOW + 1000, NOW + 1001):
        log.append_as_leader(batch(b"a", timestamp=timestamp), 0, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segment_of_records_without_timestamps_rolls_by_the_clock(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for now in (NOW, NOW + 1000, NOW + 1001):
        log.append_as_leader(batch(b"a", timestamp=-1), 0, now)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segment_rolls_when_its_index_is_full(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_index_bytes=36, index_interval_bytes=100))
    fill(log, numbered(30))
    assert len(log.segments) > 5
    assert all(len(segment.offset_index.entries) <= 36 for segment in log.segments)


@pytest.mark.parametrize("index_bytes", [4, 12, 20])
def test_an_index_without_room_for_two_entries_gives_each_batch_a_segment_as_in_kafka(tmp_path, index_bytes):
    log = open_log(tmp_path, LogConfig(segment_index_bytes=index_bytes, index_interval_bytes=0))
    fill(log, numbered(5))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3, 4]


def test_an_index_entry_is_added_about_every_index_interval_bytes(tmp_path):
    log = open_log(tmp_path)
    fill(log, numbered(1000))
    entries = len(log.active_segment.offset_index)
    assert log.size / 4096 * 0.9 < entries <= log.size / 4096


def test_offset_that_does_not_fit_an_index_entry_begins_a_new_segment(tmp_path):
    log = open_log(tmp_path)
    far, farther = 5 + (1 << 31), 7 + (1 << 32)
    for offset in (5, far, farther):
        log.append_as_follower(batch(b"%d" % offset, base_offset=offset), 0, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 6, farther]
    assert contents(log) == [(5, b"5"), (far, b"%d" % far), (farther, b"%d" % farther)]


def test_configuration_may_change_at_any_time(tmp_path):
    log = open_log(tmp_path)
    fill(log, numbered(5))
    log.config = replace(log.config, segment_bytes=500, max_message_bytes=180)
    fill(log, numbered(5))
    assert len(log.segments) > 2
    with pytest.raises(errors.MessageTooLarge):
        log.append_as_leader(batch(bytes(150)), 0, NOW)


# Followers


def test_follower_stores_the_leaders_bytes_and_epochs(tmp_path):
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    fill(leader, numbered(20), epoch=1)
    fill(leader, numbered(20), epoch=4)
    while follower.log_end_offset < leader.log_end_offset:
        part = leader.read(follower.log_end_offset, 1000)
        follower.append_as_follower(part.read(), 4, NOW)
    assert (tmp_path / "a/t-0/00000000000000000000.log").read_bytes() == (
        tmp_path / "b/t-0/00000000000000000000.log"
    ).read_bytes()
    assert follower.leader_epochs.entries == leader.leader_epochs.entries == [(1, 0), (4, 20)]


def test_followers_batches_are_spread_over_segments_by_size(tmp_path):
    leader = open_log(tmp_path / "a")
    fill(leader, numbered(50))
    follower = open_log(tmp_path / "b", LogConfig(segment_bytes=1000, index_interval_bytes=200))
    follower.append_as_follower(leader.read_bytes(0, 1 << 20), 0, NOW)
    assert len(follower.segments) > 5
    assert all(segment.size <= 1000 for segment in follower.segments)
    assert contents(follower) == contents(leader)


def test_a_follower_accepts_gaps_of_a_compacted_log_but_no_offset_twice(tmp_path):
    log = open_log(tmp_path)
    log.append_as_follower(batch(b"a", base_offset=3), 0, NOW)
    log.append_as_follower(batch(b"b", base_offset=9), 0, NOW)
    assert log.log_end_offset == 10
    with pytest.raises(UnexpectedOffset):
        log.append_as_follower(batch(b"c", base_offset=9), 0, NOW)


def test_a_batch_cut_by_the_end_of_the_response_is_left_out(tmp_path):
    log = open_log(tmp_path)
    data = batch(b"a") + batch(b"b", base_offset=1)
    info = log.append_as_follower(data[:-5], 0, NOW)
    assert (info.first_offset, info.last_offset) == (0, 0)
    assert log.append_as_follower(data[-60:-5][:10], 0, NOW) is None


def test_case_26_batches_newer_than_the_requested_epoch_are_left_out(tmp_path):
    log = open_log(tmp_path)
    of_this, of_next = batch(b"a", epoch=5), batch(b"b", base_offset=1, epoch=6)
    assert log.append_as_follower(of_next, 5, NOW) is None
    info = log.append_as_follower(of_this + of_next + batch(b"c", base_offset=2, epoch=5), 5, NOW)
    assert (info.first_offset, info.last_offset) == (0, 0)
    assert log.leader_epochs.entries == [(5, 0)]
    log.append_as_follower(of_next, 6, NOW)
    assert contents(log) == [(0, b"a"), (1, b"b")]


def test_a_damaged_batch_from_the_leader_is_refused(tmp_path):
    log = open_log(tmp_path)
    damaged = batch(b"abc")
    damaged[-3] ^= 1
    with pytest.raises(errors.CorruptMessage):
        log.append_as_follower(damaged, 0, NOW)


# Disk errors


def test_case_11_a_write_cut_short_by_a_full_disk_is_undone_and_takes_the_log_dir_offline(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    fill(log, [b"a"])
    size = log.size
    storage.space_left = 30
    failures = []
    log.log_dir.on_failure = failures.append
    with pytest.raises(errors.KafkaStorageError):
        log.append_as_leader(batch(b"b"), 0, NOW)
    assert failures == [log.log_dir]
    assert log.log_end_offset == 1
    assert (tmp_path / "t-0/00000000000000000000.log").stat().st_size == size
    storage.heal()
    with pytest.raises(errors.KafkaStorageError):
        log.append_as_leader(batch(b"c"), 0, NOW)
    with pytest.raises(errors.KafkaStorageError):
        log.read(0, 100)
    assert contents(open_log(tmp_path, clean=False)) == [(0, b"a")]


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC])
def test_case_11_failed_write_is_a_storage_error(tmp_path, number):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    storage.fail("write", number)
    with pytest.raises(errors.KafkaStorageError):
        log.append_as_leader(batch(b"b"), 0, NOW)
    assert log.log_dir.offline


def test_case_11_an_unreadable_age_of_a_segment_takes_the_log_dir_offline(tmp_path):
    storage = FaultyStorage()
    fill(open_log(tmp_path, storage=storage), [b"a"])
    log = open_log(tmp_path, storage=storage)
    storage.fail("open")
    with pytest.raises(errors.KafkaStorageError):
        log.append_as_leader(batch(b"b"), 0, NOW)
    assert log.log_dir.offline
    assert log.log_end_offset == 1


def test_the_topic_id_is_synced_again_after_an_unclean_stop(tmp_path):
    open_log(tmp_path).set_topic_id(b"i" * 16)
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage, clean=False)
    fill(log, [b"a"])
    log.flush()
    assert ("sync", str(tmp_path / "t-0/partition.metadata")) in storage.calls


def test_case_12_failed_sync_is_never_tried_again(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    fill(log, [b"a"])
    storage.fail("sync")
    with pytest.raises(errors.KafkaStorageError):
        log.flush()
    storage.heal()
    syncs = storage.count("sync")
    for _ in range(3):
        with pytest.raises(errors.KafkaStorageError):
            log.flush()
    assert storage.count("sync") == syncs
    assert log.recovery_point == 0


def test_flush_messages_syncs_every_so_many_records(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, LogConfig(flush_messages=3), storage=storage)
    points = []
    for value in numbered(7):
        fill(log, [value])
        points.append(log.recovery_point)
    assert points == [0, 0, 3, 3, 3, 6, 6]


def test_flush_syncs_data_then_names_then_moves_the_recovery_point(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    fill(log, [b"a"])
    storage.calls.clear()
    assert log.flush() == 1
    kinds = [(kind, path.removeprefix(str(tmp_path))) for kind, path in storage.calls]
    assert kinds[0] == ("sync", "/t-0/00000000000000000000.log")
    assert kinds[-2:] == [("sync_folder", "/t-0"), ("sync_folder", "")]
    storage.calls.clear()
    fill(log, [b"b"])
    log.flush()
    assert [kind for kind, _ in storage.calls] == ["write", "sync"]


def test_small_append_is_one_write(tmp_path):
    storage = FaultyStorage()
    log = open_log(tmp_path, storage=storage)
    fill(log, [b"a"])
    storage.calls.clear()
    fill(log, [b"b"])
    assert [kind for kind, _ in storage.calls] == ["write"]


def test_idempotent_batches_are_appended_in_sequence(tmp_path):
    log = open_log(tmp_path)
    for sequence in range(0, 30, 3):
        log.append_as_leader(idempotent(sequence, b"a", b"b", b"c"), 0, NOW)
    assert log.log_end_offset == 30
