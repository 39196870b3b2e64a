from __future__ import annotations

import contextlib
import os
import shutil
import struct

import pytest

from cy.batch import read_header
from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import Origin
from pybroker.log.files import checkpoints
from pybroker.log.files.offset_index import MAX_RELATIVE_OFFSET
from pybroker.log.replay import REACH_BYTES
from pybroker.log.tests.helpers import (
    NOW,
    TP,
    batch,
    contents,
    fill,
    idempotent,
    manager,
    marker,
    numbered,
    open_log,
)  # fmt: skip
from pyclient.protocol import errors

LAST_OFFSET_DELTA = 23
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)


@pytest.fixture
def folder(tmp_path):
    """A log of 60 records in several segments, as a killed process leaves it."""
    log = open_log(tmp_path, CONFIG)
    fill(log, numbered(60), epoch=2)
    return tmp_path / "t-0"


@pytest.mark.parametrize("clean", [False, True])
def test_foreign_files_are_left_alone_and_reported(folder, caplog, clean):
    names = ["x.log.cleaned", "y.log.swap", "backup.index.deleted", "1.log", "\u0663" * 20 + ".log.swap"]
    for name in names:
        (folder / name).write_bytes(b"mine")
    log = open_log(folder.parent, CONFIG, clean=clean)
    assert len(contents(log)) == 60
    assert all((folder / name).read_bytes() == b"mine" for name in names)
    assert all(name in caplog.text for name in names)


def recovered(folder, **options):
    return open_log(folder.parent, CONFIG, clean=False, **options)


def logs(folder):
    return sorted(folder.glob("*.log"))


def last_batch(data):
    """Returns the position of the last batch."""
    begin = end = 0
    while end < len(data):
        begin, end = end, end + read_header(data[end:]).size
    return begin


def test_case_1_a_torn_tail_is_truncated_and_everything_before_it_is_kept(folder):
    whole = logs(folder)[-1].read_bytes()
    last = read_header(whole).base_offset
    size = read_header(whole).size
    for length in (1, 11, 12, 40, 60, 61, size - 1):
        logs(folder)[-1].write_bytes(whole[: size + length])
        log = recovered(folder)
        assert log.log_end_offset == last + 1
        assert [value for _, value in contents(log)] == numbered(60)[: last + 1]
        assert logs(folder)[-1].stat().st_size == size
    assert not list(folder.glob("*quarantined*"))


def test_case_1_space_that_was_never_written_is_truncated(folder):
    with open(logs(folder)[-1], "ab") as file:
        file.write(bytes(5000))
    assert len(contents(recovered(folder))) == 60
    assert not list(folder.glob("*quarantined*"))


def test_case_6_a_last_batch_with_a_wrong_crc_is_truncated(folder):
    data = bytearray(logs(folder)[-1].read_bytes())
    data[-3] ^= 1
    logs(folder)[-1].write_bytes(data)
    log = recovered(folder)
    assert len(contents(log)) == 59
    assert not list(folder.glob("*quarantined*"))
    fill(log, [b"again"])
    assert contents(log)[-1] == (59, b"again")


@pytest.mark.parametrize("point", [0, 59, 60])
def test_case_6_a_damaged_end_offset_truncates_only_the_last_batch(folder, point):
    data = bytearray(logs(folder)[-1].read_bytes())
    begin = last_batch(data)
    struct.pack_into(">i", data, begin + LAST_OFFSET_DELTA, -343_937_212)
    logs(folder)[-1].write_bytes(data)
    log = recovered(folder, recovery_point=point)
    assert [value for _, value in contents(log)] == numbered(60)[:59]
    assert logs(folder)[-1].stat().st_size == begin


@pytest.mark.parametrize("lost", [("*index",), ("*index", "*.snapshot"), ("*[13579].*index", "*.snapshot")])
@pytest.mark.parametrize("clean", [True, False])
def test_case_2_aborted_transactions_stay_hidden_if_indexes_are_lost(tmp_path, clean, lost):
    log = open_log(tmp_path, CONFIG)
    for number in range(40):
        log.append_as_leader(idempotent(number, b"x" * 50, producer=7, transactional=True), 0, NOW)
        log.append_as_leader(idempotent(2 * number, b"y" * 50, producer=8, transactional=True), 0, NOW)
        if number % 3 == 0:
            log.append_as_leader(marker(number % 2, producer=7), 0, NOW, origin=Origin.COORDINATOR)
        if number % 7 == 0:
            log.append_as_leader(marker(0, producer=8), 0, NOW, origin=Origin.COORDINATOR)
        log.append_as_leader(idempotent(2 * number + 1, b"z", producer=8, transactional=True), 0, NOW)
    end = log.log_end_offset
    told = log.aborted_transactions(0, end)
    assert len(told) > 8
    point = log.log_end_offset
    log.close()
    for path in [path for pattern in lost for path in (tmp_path / "t-0").glob(pattern)]:
        path.unlink()
    again = open_log(tmp_path, CONFIG, clean=clean, recovery_point=point)
    assert again.log_end_offset == end
    assert again.aborted_transactions(0, end) == told


@pytest.mark.parametrize("claimed", [1 << 32, 1 << 40, (1 << 63) - 1])
def test_case_6_a_last_batch_with_a_damaged_offset_is_truncated(folder, claimed):
    """The defect: the CRC does not cover the offset, and no index could hold it, so the log did not open."""
    with open(logs(folder)[-1], "r+b") as file:
        size = read_header(file.read()).size
        file.seek(-size, os.SEEK_END)
        file.write(struct.pack(">q", claimed))
    log = recovered(folder)
    assert len(contents(log)) == 59
    assert not list(folder.glob("*quarantined*"))
    fill(log, [b"again"])
    assert contents(log)[-1] == (59, b"again")


def test_case_7_a_hole_in_the_middle_ends_the_log_and_quarantines_what_follows(folder):
    second = logs(folder)[1]
    data = bytearray(second.read_bytes())
    size = read_header(data).size
    data[size + 80] ^= 1
    second.write_bytes(data)
    later = {path.name: path.read_bytes() for path in logs(folder)[2:]}
    log = recovered(folder)
    assert log.log_end_offset == int(second.stem) + 1
    assert [value for _, value in contents(log)] == numbered(60)[: log.log_end_offset]
    assert (folder / f"{second.name}.quarantined-{size}").read_bytes() == data[size:]
    for name, content in later.items():
        assert (folder / f"{name}.quarantined-0").read_bytes() == content
    assert len(logs(folder)) == 2


def test_case_7_broken_framing_followed_by_data_is_quarantined(folder):
    last = logs(folder)[-1]
    data = bytearray(last.read_bytes())
    size = read_header(data).size
    data[size + 16] = 9
    last.write_bytes(data)
    log = recovered(folder)
    assert log.log_end_offset == int(last.stem) + 1
    assert (folder / f"{last.name}.quarantined-{size}").read_bytes() == data[size:]


def test_case_8_damage_below_the_recovery_point_stays_and_is_detected_on_read(folder):
    first = logs(folder)[0]
    data = bytearray(first.read_bytes())
    data[-3] ^= 1
    first.write_bytes(data)
    log = recovered(folder, recovery_point=30)
    assert log.log_end_offset == 60
    damaged = log.segments[1].base_offset - 1
    with pytest.raises(errors.CorruptMessage):
        log.read(damaged, 1000)
    assert read_header(log.read(damaged + 1, 1000).read()).base_offset == damaged + 1


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"abc", b"\xff" * 48])
def test_case_2_indexes_are_rebuilt_after_an_unclean_stop(folder, suffix, content):
    good = {path.name: path.read_bytes() for path in folder.glob(f"*.{suffix}")}
    for path in folder.glob(f"*.{suffix}"):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    log = recovered(folder)
    assert len(contents(log)) == 60
    log.close()
    rebuilt = {path.name: path.read_bytes() for path in folder.glob(f"*.{suffix}")}
    sealed = sorted(good)[:-1]
    assert [rebuilt[name] for name in sealed] == [good[name] for name in sealed]


def test_case_2_orphaned_index_files_are_removed(folder):
    for suffix in ("index", "timeindex", "txnindex"):
        (folder / f"00000000000000000999.{suffix}").write_bytes(b"")
    recovered(folder)
    assert not list(folder.glob("00000000000000000999*"))


def test_case_3_leftovers_of_compaction_and_deletion_are_removed(folder):
    for name in ("00000000000000000000.log.cleaned", "00000000000000000005.index.deleted", "partition.metadata.tmp"):
        (folder / name).write_bytes(b"x")
    assert len(contents(recovered(folder))) == 60
    assert {path.suffix for path in folder.iterdir()} <= {
        ".log", ".index", ".timeindex", ".snapshot", ""
    }  # fmt: skip


def test_case_3_finished_swap_replaces_the_segments_that_it_was_made_from(tmp_path):
    log = open_log(tmp_path, CONFIG)
    fill(log, numbered(40))
    second, third = (segment.base_offset for segment in log.segments.snapshot()[1:3])
    log.close()
    cleaned = batch(b"kept", base_offset=3) + batch(b"kept too", base_offset=second + 2)
    (tmp_path / "t-0" / "00000000000000000000.log.swap").write_bytes(cleaned)
    log = open_log(tmp_path, CONFIG)
    assert [segment.base_offset for segment in log.segments][:2] == [0, third]
    rest = [(offset, numbered(40)[offset]) for offset in range(third, 40)]
    assert contents(log) == [(3, b"kept"), (second + 2, b"kept too"), *rest]


def test_case_9_a_recovery_point_beyond_the_log_end_is_lowered_to_it(folder):
    assert recovered(folder, recovery_point=1000).recovery_point == 60
    assert open_log(folder.parent, CONFIG, recovery_point=1000).recovery_point == 60


def test_case_9_log_that_ends_before_its_start_is_reset_to_its_start(folder):
    log = recovered(folder, log_start_offset=100, high_watermark=120)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    fill(log, [b"a"])
    log.close()
    assert contents(open_log(folder.parent, CONFIG, log_start_offset=100)) == [(100, b"a")]


def test_high_watermark_and_log_start_come_from_the_checkpoints(folder):
    log = recovered(folder, log_start_offset=5, high_watermark=40)
    assert (log.log_start_offset, log.high_watermark) == (5, 40)


@pytest.mark.parametrize("content", [None, b"", b"0\n1\nx y\n"])
def test_epochs_missing_from_the_epoch_file_are_read_from_the_log(tmp_path, content):
    log = open_log(tmp_path)
    fill(log, numbered(3), epoch=1)
    fill(log, numbered(3), epoch=4)
    log.close()
    path = tmp_path / "t-0/leader-epoch-checkpoint"
    assert path.read_text() == "0\n2\n1 0\n4 3\n"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert open_log(tmp_path).leader_epochs.entries == [(1, 0), (4, 3)]


def test_epochs_written_since_the_last_sync_are_read_from_the_log(tmp_path):
    log = open_log(tmp_path)
    fill(log, numbered(3), epoch=1)
    log.flush()
    fill(log, numbered(3), epoch=4)
    log = open_log(tmp_path, clean=False, recovery_point=3)
    assert log.leader_epochs.entries == [(1, 0), (4, 3)]


def test_producers_are_replayed_from_the_snapshot_before_the_recovery_point(tmp_path):
    log = open_log(tmp_path, CONFIG)
    for sequence in range(50):
        log.append_as_leader(idempotent(sequence, bytes(50)), 0, NOW)
    for point in (0, 20, 50):
        log = open_log(tmp_path, CONFIG, clean=False, recovery_point=point)
        assert log.producers.get(7).last_sequence == 49
        assert log.append_as_leader(idempotent(49, bytes(50)), 0, NOW).duplicate
        with pytest.raises(errors.DuplicateSequenceNumber):
            log.append_as_leader(idempotent(30, bytes(50)), 0, NOW)


def test_in_flight_batches_are_known_even_if_each_is_in_its_own_segment(tmp_path):
    config = LogConfig(segment_bytes=100)
    log = open_log(tmp_path, config)
    for sequence in range(8):
        log.append_as_leader(idempotent(sequence), 0, NOW)
    log.flush()
    recovered = open_log(tmp_path, config, clean=False, recovery_point=8)
    for sequence in range(3, 8):
        again = recovered.append_as_leader(idempotent(sequence), 0, NOW)
        assert (again.duplicate, again.first_offset) == (True, sequence)
    assert recovered.log_end_offset == 8


def test_in_flight_batches_are_known_even_if_a_long_segment_ends_between_them(tmp_path):
    """The segment's snapshot has only the last batch, and the segment is too long to be read as a whole."""
    config = LogConfig(segment_bytes=REACH_BYTES + 100_000)
    log = open_log(tmp_path, config)
    sequence = 0
    while len(log.segments) < 2:
        log.append_as_leader(idempotent(sequence, bytes(9_000)), 0, NOW)
        sequence += 1
    log.flush()
    recovered = open_log(tmp_path, config, clean=False, recovery_point=sequence)
    for again in range(sequence - 5, sequence):
        appended = recovered.append_as_leader(idempotent(again, bytes(9_000)), 0, NOW)
        assert (appended.duplicate, appended.first_offset) == (True, again)
    with pytest.raises(errors.DuplicateSequenceNumber):
        recovered.append_as_leader(idempotent(sequence - 6, bytes(9_000)), 0, NOW)
    assert recovered.log_end_offset == sequence


@pytest.mark.parametrize("segment_bytes", [100, 1_000_000])
def test_batches_resent_after_a_clean_stop_are_recognised(
    tmp_path, segment_bytes
):
    """The snapshot at the log's end has only the last batch of each producer. Kafka takes the others for a gap."""
    config = LogConfig(segment_bytes=segment_bytes)
    log = open_log(tmp_path, config)
    for sequence in range(8):
        for producer in (7, 8):
            log.append_as_leader(idempotent(sequence, producer=producer), 0, NOW)
    log.close()
    reopened = open_log(tmp_path, config, recovery_point=16)
    for sequence in range(7, 2, -1):
        for producer in (7, 8):
            again = reopened.append_as_leader(idempotent(sequence, producer=producer), 0, NOW)
            assert (again.duplicate, again.first_offset) == (True, 2 * sequence + producer - 7)
    with pytest.raises(errors.DuplicateSequenceNumber):
        reopened.append_as_leader(idempotent(2), 0, NOW)
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        reopened.append_as_leader(idempotent(9), 0, NOW)
    assert reopened.append_as_leader(idempotent(8), 0, NOW).first_offset == 16


def test_if_a_segment_overlaps_the_next_one_the_next_is_quarantined(folder):
    first, second = logs(folder)[:2]
    first.write_bytes(first.read_bytes() + batch(b"x", base_offset=int(second.stem)))
    log = recovered(folder)
    assert log.log_end_offset == int(second.stem)
    assert (folder / f"{second.name}.quarantined-0").exists()


def test_a_compaction_gap_is_not_quarantined_before_the_configuration_is_known(tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base, end in ((0, 5), (10, 20), (20, 25)):
        data = b"".join(batch(b"x", base_offset=offset) for offset in range(base, end))
        (folder / f"{base:020d}.log").write_bytes(data)
    (tmp_path / checkpoints.CLEANER).write_text("0\n1\nt 0 20\n")
    logs = manager(tmp_path, config=CONFIG)
    logs.load()
    assert [offset for offset, _ in contents(logs.get(TP))] == [*range(5), *range(10, 25)]
    assert not list(folder.glob("*quarantined*"))


FAR = 3 << 30
JUMPS = {
    "one": (0, FAR),
    "two": (0, 1, FAR, FAR + 1, 2 * FAR, 2 * FAR + 1),
    "at the start": (FAR, FAR + 1),
    "as far as an index reaches": (0, 9, 20, 20 + MAX_RELATIVE_OFFSET, 30 + MAX_RELATIVE_OFFSET),
    "one farther": (0, 9, 11 + MAX_RELATIVE_OFFSET, 12 + MAX_RELATIVE_OFFSET),
}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("jump", JUMPS)
def test_a_followers_log_with_a_gap_in_its_offsets_is_complete_after_a_kill(tmp_path, jump, together, clean):
    batches = [batch(b"%d" % offset, base_offset=offset) for offset in JUMPS[jump]]
    log = open_log(tmp_path)
    for data in [b"".join(batches)] if together else batches:
        log.append_as_follower(data, 0, NOW)
    expected = [(offset, b"%d" % offset) for offset in JUMPS[jump]]
    assert contents(log) == expected
    for point in (0, *(offset + 1 for offset in JUMPS[jump])):
        copy = tmp_path / str(point)
        shutil.copytree(tmp_path / "t-0", copy / "t-0")
        assert contents(open_log(copy, clean=clean, recovery_point=point)) == expected
        assert not list((copy / "t-0").glob("*quarantined*"))


@pytest.mark.parametrize("damage", ["before", "behind", "offset"])
def test_an_offset_gap_is_a_hole_if_records_before_or_after_it_are_lost(tmp_path, damage):
    log = open_log(tmp_path)
    for offset in (0, 1, FAR):
        log.append_as_follower(batch(b"%d" % offset, base_offset=offset), 0, NOW)
    assert log.recovery_point == 2
    first, second = logs(tmp_path / "t-0")
    if damage == "before":
        first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    else:
        data = bytearray(second.read_bytes())
        data[-3 if damage == "behind" else 7] ^= 1
        second.write_bytes(data)
    log = open_log(tmp_path, clean=False, recovery_point=2 if damage != "before" else log.recovery_point)
    assert contents(log) == [(0, b"0"), (1, b"1")][: 1 if damage == "before" else 2]
    assert (tmp_path / "t-0" / f"{second.name}.quarantined-0").exists()


def test_case_5_recovery_can_be_interrupted_anywhere_and_repeated(tmp_path):
    original = tmp_path / "original"
    log = open_log(original, CONFIG)
    for sequence in range(40):
        log.append_as_leader(idempotent(sequence, bytes(90)), 0, NOW)
    last = logs(original / "t-0")[-1]
    last.write_bytes(last.read_bytes()[:-7])
    for step in range(1, 60):
        shutil.copytree(original, tmp_path / str(step))
        storage = FaultyStorage()
        left = [step]

        def crash(path, left=left):
            left[0] -= 1
            return left[0] < 0

        for kind in ("write", "truncate", "unlink", "rename", "sync"):
            storage.fail(kind, where=crash)
        with contextlib.suppress(errors.KafkaStorageError):
            open_log(tmp_path / str(step), CONFIG, storage=storage, clean=False)
        log = open_log(tmp_path / str(step), CONFIG, clean=False)
        assert len(contents(log)) == 39
        assert log.producers.get(7).last_sequence == 38


def test_clean_start_reads_no_segment_but_the_end_of_the_last(tmp_path):
    log = open_log(tmp_path, CONFIG)
    fill(log, numbered(60))
    log.close()
    storage = FaultyStorage()
    open_log(tmp_path, CONFIG, storage=storage)
    opened = [path for kind, path in storage.calls if kind == "open"]
    assert set(opened) == {log.active_segment.path}
    assert storage.count("write") == storage.count("sync") == 0


def test_clean_stop_leaves_no_open_file(tmp_path):
    log = open_log(tmp_path, CONFIG)
    fill(log, numbered(60))
    contents(log)
    log.close()
    assert len(log.log_dir.cache) == 0
    assert log.recovery_point == 60
