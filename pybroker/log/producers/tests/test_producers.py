from __future__ import annotations

import os

import pytest

from cy.crc32c import crc32c
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import Origin
from pybroker.log.expiry import apply_retention
from pybroker.log.files.storage import DataFile
from pybroker.log.files.txn_index import AbortedTransaction
from pybroker.log.producers import producer_snapshot
from pybroker.log.producers.producer_entry import BatchMetadata, ProducerEntry
from pybroker.log.tests.helpers import NOW, batch, fill, idempotent, marker, open_log
from pyclient.protocol import errors

LAST = 0x7FFF_FFFF


@pytest.fixture
def log(tmp_path):
    return open_log(tmp_path)


def append(log, records, **options):
    return log.append_as_leader(records, 0, NOW, **options)


def transactional(sequence, *values, **options):
    return idempotent(sequence, *values, transactional=True, **options)


def end(log, kind, **options):
    return append(log, marker(kind, **options), origin=Origin.COORDINATOR)


def test_case_31_resent_batch_gets_its_first_offset_and_is_not_appended(log):
    infos = [append(log, idempotent(sequence, b"a", b"b")) for sequence in range(0, 14, 2)]
    for number in range(2, 7):
        again = append(log, idempotent(number * 2, b"a", b"b"))
        assert again.duplicate
        assert (again.first_offset, again.last_offset) == (
            infos[number].first_offset,
            infos[number].last_offset,
        )
    assert log.log_end_offset == 14


def test_case_31_batch_older_than_the_window_of_five_is_a_duplicate_sequence(log):
    for sequence in range(7):
        append(log, idempotent(sequence))
    with pytest.raises(errors.DuplicateSequenceNumber):
        append(log, idempotent(1))


@pytest.mark.parametrize("sequence", [4, 2, 1000])
def test_case_31_gap_is_out_of_order(log, sequence):
    append(log, idempotent(0))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        append(log, idempotent(sequence))
    assert log.log_end_offset == 1


def test_case_34_gap_of_one_partition_does_not_stop_the_sequence(log):
    append(log, idempotent(0))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        append(log, idempotent(2))
    assert append(log, idempotent(1)).first_offset == 1


def test_sequences_wrap_to_zero(log):
    append(log, idempotent(LAST - 1, b"a", b"b"))
    append(log, idempotent(0))
    assert append(log, idempotent(LAST - 1, b"a", b"b")).duplicate
    append(log, idempotent(1))
    assert log.log_end_offset == 4


def test_a_batch_may_span_the_wrap(log):
    append(log, idempotent(LAST, b"a", b"b", b"c"))
    append(log, idempotent(2))
    assert append(log, idempotent(LAST, b"a", b"b", b"c")).duplicate


def test_case_33_old_producer_epoch_is_refused(log):
    append(log, idempotent(0, epoch=3))
    with pytest.raises(errors.InvalidProducerEpoch):
        append(log, idempotent(1, epoch=2))


def test_new_epoch_begins_at_sequence_zero(log):
    append(log, idempotent(5, epoch=0))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        append(log, idempotent(6, epoch=1))
    append(log, idempotent(0, epoch=1))
    assert append(log, idempotent(0, epoch=1)).duplicate


def test_unknown_producer_may_begin_anywhere(log):
    assert append(log, idempotent(17)).first_offset == 0


def test_producers_do_not_disturb_each_other(log):
    append(log, idempotent(0, producer=1))
    append(log, idempotent(0, producer=2))
    append(log, batch(b"none"))
    assert append(log, idempotent(1, producer=1)).first_offset == 3
    assert {entry.producer_id: entry.last_sequence for entry in log.producers.active()} == {
        1: 1,
        2: 0,
    }


def test_idle_producers_are_forgotten_but_not_those_in_a_transaction(log):
    append(log, idempotent(0, producer=1))
    append(log, transactional(0, producer=2))
    assert log.producers.remove_expired(NOW + 86_399_999) == 0
    assert log.producers.remove_expired(NOW + 86_400_000) == 1
    assert [entry.producer_id for entry in log.producers.active()] == [2]


LONG_AGO = NOW - 400 * 86_400_000


@pytest.mark.parametrize("timestamp", [LONG_AGO, NOW + 3_600_000])
@pytest.mark.parametrize("stop", ["none", "clean", "kill", "cut"])
def test_a_producer_is_forgotten_a_day_after_its_last_append_whatever_its_timestamps(tmp_path, timestamp, stop):
    log = open_log(tmp_path)
    append(log, idempotent(0, timestamp=timestamp))
    append(log, idempotent(1, timestamp=timestamp))
    log = after(log, tmp_path, stop)
    assert log.producers.remove_expired(NOW + 86_399_999) == 0
    again = append(log, idempotent(0, timestamp=timestamp))
    assert (again.first_offset, again.duplicate) == (0, True)
    assert log.producers.remove_expired(NOW + 86_400_000) == 1


def after(log, root, stop):
    """Returns the log after this kind of stop. The tests' clock sets the times of its files."""
    os.utime(log.active_segment.path, (NOW / 1000, NOW / 1000))
    if stop == "clean":
        log.close()
    if stop == "cut":
        log.truncate_to(1, NOW)
        append(log, idempotent(1))
    return open_log(root, clean=stop == "clean") if stop in ("clean", "kill") else log


def test_a_follower_counts_a_producers_idle_time_from_its_own_append(tmp_path):
    log = open_log(tmp_path)
    log.append_as_follower(bytes(idempotent(0, timestamp=LONG_AGO)), 0, NOW)
    assert log.producers.remove_expired(NOW + 86_399_999) == 0
    assert log.producers.remove_expired(NOW + 86_400_000) == 1


# Cuts

SEGMENT = 2000


@pytest.fixture
def long_log(tmp_path):
    """A segment with many batches of three producers. The last few batches are not committed."""
    log = open_log(tmp_path)
    for number in range(SEGMENT):
        append(log, idempotent(number // 3, bytes(500), producer=number % 3))
    log.update_high_watermark(SEGMENT - 20)
    return log


def bytes_read(monkeypatch, work):
    read, sizes = DataFile.read, []

    def counted(self, length, position):
        sizes.append(length)
        return read(self, length, position)

    with monkeypatch.context() as patched:
        patched.setattr(DataFile, "read", counted)
        work()
    return sum(sizes)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_truncation_of_uncommitted_records_does_not_read_the_segment(long_log, tmp_path, monkeypatch, is_restarted):
    log = long_log
    if is_restarted:
        log = open_log(tmp_path, clean=False, high_watermark=SEGMENT - 20)
    assert bytes_read(monkeypatch, lambda: log.truncate_to(SEGMENT - 10, NOW)) < log.size / 10
    assert {e.producer_id: e.last_offset for e in log.producers.active()} == {
        offset % 3: offset for offset in range(SEGMENT - 13, SEGMENT - 10)
    }
    for offset in range(SEGMENT - 10 - 5 * 3, SEGMENT - 10):
        assert append(log, idempotent(offset // 3, bytes(500), producer=offset % 3)).first_offset == offset
    assert append(log, idempotent((SEGMENT - 10) // 3, producer=(SEGMENT - 10) % 3)).first_offset == SEGMENT - 10


def test_a_truncation_below_the_journal_reads_the_log(long_log, monkeypatch):
    assert bytes_read(monkeypatch, lambda: long_log.truncate_to(100, NOW)) > 5000
    assert {e.producer_id: e.last_offset for e in long_log.producers.active()} == {0: 99, 1: 97, 2: 98}


def test_a_truncation_restores_epochs_transactions_and_producers(log):
    append(log, transactional(0, producer=1))
    append(log, transactional(0, producer=2))
    end(log, 1, producer=2)
    before = state(log), log.producers.first_unstable_offset
    end(log, 1, producer=1, epoch=1)
    append(log, transactional(0, producer=1, epoch=1))
    append(log, transactional(1, producer=2))
    append(log, transactional(0, producer=3))
    end(log, 0, producer=3)
    append(log, transactional(1, producer=3))
    end(log, 1, producer=3)
    assert log.truncate_to(3, NOW)
    assert (state(log), log.producers.first_unstable_offset) == before
    assert log.producers.get(3) is None
    assert log.producers.get(1).transaction_first_offset == 0


# Across restarts


def state(log):
    return {
        e.producer_id: (e.epoch, e.last_sequence, e.last_offset, e.transaction_first_offset)
        for e in log.producers.active()
    }


def test_duplicates_are_detected_after_a_clean_restart_from_the_snapshot(tmp_path, log):
    append(log, idempotent(0, b"a", b"b"))
    append(log, idempotent(2, producer=7))
    append(log, transactional(0, producer=9, epoch=4))
    expected = state(log)
    log.close()
    assert (tmp_path / "t-0/00000000000000000004.snapshot").exists()
    log = open_log(tmp_path)
    assert state(log) == expected
    assert append(log, idempotent(2)).duplicate


@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "flipped", "version"])
def test_case_10_a_missing_or_corrupt_snapshot_is_rebuilt_from_the_log(tmp_path, damage):
    log = open_log(tmp_path, LogConfig(segment_bytes=300))
    for sequence in range(10):
        append(log, idempotent(sequence, b"abc"))
    append(log, transactional(0, producer=9))
    expected = state(log)
    log.close()
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        data = bytearray(path.read_bytes())
        path.unlink()
        if damage == "flipped":
            data[12] ^= 1
        changed = {"empty": b"", "torn": data[:-3], "flipped": data, "version": b"\0\2" + data[2:]}
        if damage != "missing":
            path.write_bytes(changed[damage])
    log = open_log(tmp_path)
    assert state(log) == expected
    assert log.producers.first_unstable_offset == 10
    assert append(log, idempotent(7, b"abc")).duplicate


def test_case_32_followers_know_the_producers_too(tmp_path, log):
    for sequence in range(3):
        append(log, idempotent(sequence))
    follower = open_log(tmp_path / "other")
    follower.append_as_follower(log.read_bytes(0, 1 << 20), 0, NOW)
    assert append(follower, idempotent(1)).duplicate
    assert append(follower, idempotent(3)).first_offset == 3


def test_a_snapshot_is_taken_when_a_segment_rolls_and_goes_with_its_segment(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_bytes=300, retention_ms=1000))
    for sequence in range(10):
        append(log, idempotent(sequence, b"abc"))
    snapshots = {int(path.stem) for path in (tmp_path / "t-0").glob("*.snapshot")}
    assert snapshots == {segment.base_offset for segment in log.segments} - {0}
    log.update_high_watermark(8)
    apply_retention(log, NOW + 2000)
    snapshots = {int(path.stem) for path in (tmp_path / "t-0").glob("*.snapshot")}
    assert min(snapshots) >= log.first_segment_offset


def test_snapshot_has_kafkas_layout():
    entry = ProducerEntry(7, 2)
    entry.add(BatchMetadata(9, 40, 4, NOW - 5), NOW)
    entry.coordinator_epoch = 3
    entry.transaction_first_offset = 36
    data = producer_snapshot.encode([entry])
    assert data[:2] == b"\0\1"
    assert int.from_bytes(data[2:6], "big") == crc32c(data[6:])
    fields = [(7, 8), (2, 2), (9, 4), (40, 8), (4, 4), (NOW, 8), (3, 4), (36, 8)]
    assert data[6:] == b"\0\0\0\1" + b"".join(value.to_bytes(size, "big") for value, size in fields)
    (again,) = producer_snapshot.decode(data)
    assert again.batches == [BatchMetadata(9, 40, 4, NOW)]
    assert again.seen_ms == NOW
    assert again.transaction_first_offset == 36


# Transactions


def test_last_stable_offset_stays_before_an_open_transaction(log):
    append(log, batch(b"before"))
    append(log, transactional(0))
    append(log, batch(b"after"))
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    end(log, 1)
    assert log.last_stable_offset == 1
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4


def test_last_stable_offset_waits_for_the_first_of_several_transactions(log):
    append(log, transactional(0, producer=1))
    append(log, transactional(0, producer=2))
    end(log, 1, producer=2)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0
    end(log, 0, producer=1)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4


def test_aborted_transactions_that_overlap_a_range_are_returned(tmp_path, log):
    append(log, transactional(0, producer=1))
    append(log, transactional(0, producer=2))
    end(log, 0, producer=1)
    end(log, 1, producer=2)
    append(log, batch(b"later"))
    append(log, transactional(1, producer=1))
    end(log, 0, producer=1)
    first, second = AbortedTransaction(1, 0, 2, 1), AbortedTransaction(1, 5, 6, 7)
    log.flush()
    for found in (log, open_log(tmp_path), open_log(tmp_path, clean=False)):
        assert found.aborted_transactions(0, 7) == [first, second]
        assert found.aborted_transactions(3, 5) == []
        assert found.aborted_transactions(0, 3) == [first]
        assert found.aborted_transactions(6, 7) == [second]


def test_case_40_plain_write_inside_an_open_transaction_is_refused(log):
    append(log, transactional(0))
    with pytest.raises(errors.InvalidTxnState):
        append(log, idempotent(1))


def test_case_36_marker_of_a_replaced_coordinator_is_fenced(log):
    append(log, transactional(0))
    end(log, 1, coordinator_epoch=5)
    append(log, transactional(1))
    with pytest.raises(errors.TransactionCoordinatorFenced):
        end(log, 1, coordinator_epoch=4)


def test_marker_of_an_old_producer_epoch_is_refused_and_of_a_newer_one_fences(log):
    append(log, transactional(0, epoch=2))
    with pytest.raises(errors.InvalidProducerEpoch):
        end(log, 1, epoch=1)
    end(log, 0, epoch=3)
    with pytest.raises(errors.InvalidProducerEpoch):
        append(log, transactional(1, epoch=2))
    append(log, transactional(0, epoch=3))


def test_truncation_restores_producers_and_transactions(log):
    append(log, transactional(0))
    fill(log, [b"x"])
    end(log, 1)
    append(log, transactional(1))
    log.truncate_to(2, NOW)
    assert log.producers.first_unstable_offset == 0
    assert log.producers.get(7).last_sequence == 0
    assert append(log, transactional(1)).first_offset == 2


def test_a_batch_that_ends_beyond_the_last_sequence_is_not_a_duplicate(log):
    append(log, idempotent(0, b"a", b"b", b"c"))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        append(log, idempotent(1, b"b", b"c", b"d"))
    with pytest.raises(errors.DuplicateSequenceNumber):
        append(log, idempotent(0, b"a", b"b"))


def test_a_batch_before_the_first_known_one_is_not_a_duplicate(log):
    append(log, idempotent(5))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        append(log, idempotent(4))
    assert append(log, idempotent(5)).duplicate


def test_a_batch_before_the_last_one_of_a_snapshot_is_still_a_duplicate(tmp_path, log):
    for sequence in range(4):
        append(log, idempotent(sequence))
    log.close()
    log = open_log(tmp_path)
    for sequence in (3, 0, 1, 2):
        again = append(log, idempotent(sequence))
        assert (again.duplicate, again.first_offset) == (True, sequence)


def test_a_marker_without_records_is_remembered_and_blocks_no_producer(log):
    end(log, 0, epoch=4, coordinator_epoch=2)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 1
    with pytest.raises(errors.InvalidProducerEpoch):
        append(log, transactional(0, epoch=3))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        append(log, transactional(1, epoch=4))
    append(log, transactional(0, epoch=4))


def test_transaction_across_segments_is_in_the_index_of_its_marker(tmp_path):
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for sequence in range(6):
        append(log, transactional(sequence, b"value"))
    end(log, 0)
    fill(log, [bytes(60)] * 4)
    expected = AbortedTransaction(7, 0, 6, 7)
    log.flush()
    for found in (log, open_log(tmp_path), open_log(tmp_path, clean=False)):
        assert len(found.segments) > 3
        for start in range(7):
            assert found.aborted_transactions(start, start + 1) == [expected] * (start < 7)
        assert found.aborted_transactions(7, 9) == []


def test_many_aborted_transactions_are_found_again_after_a_recovery(tmp_path):
    log = open_log(tmp_path)
    expected = []
    for number in range(300):
        producer, stable = number % 7, log.log_end_offset
        append(log, transactional(0, producer=producer, epoch=number))
        end(log, number % 2, producer=producer, epoch=number + 1, coordinator_epoch=number)
        if number % 2 == 0:
            expected.append(AbortedTransaction(producer, stable, stable + 1, stable + 2))
    log.flush()
    assert log.aborted_transactions(0, log.log_end_offset) == expected
    again = open_log(tmp_path, clean=False)
    assert again.aborted_transactions(0, log.log_end_offset) == expected
    assert again.aborted_transactions(300, 304) == [each for each in expected if 300 <= each.last_offset < 305]
    assert state(again) == state(log)
    assert {e.coordinator_epoch for e in again.producers.active()} == set(range(293, 300))


@pytest.mark.parametrize("damage", [65, 70, 76])
def test_a_start_truncates_the_log_at_a_damaged_marker(tmp_path, damage):
    log = open_log(tmp_path)
    append(log, transactional(0))
    end(log, 0)
    path = tmp_path / "t-0/00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-78 + damage] ^= 0x3F
    path.write_bytes(data)
    assert open_log(tmp_path, clean=False).log_end_offset == 1


def test_deleted_records_of_an_open_transaction_do_not_hold_the_last_stable_offset(log):
    append(log, transactional(0))
    fill(log, [b"a", b"b"])
    log.update_high_watermark(3)
    log.raise_log_start_offset(2)
    assert log.last_stable_offset == 2
    end(log, 0)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4
