"""What compaction keeps of transactions, and of the state of a log's producers."""

from __future__ import annotations

import os

from pybroker.log.compaction.tests.compacted import HOUR_MS, Compacted, batches_of, records


def test_compaction_keeps_the_last_batch_of_a_producer_without_its_records(tmp_path):
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


def test_aborted_records_are_removed_and_committed_ones_compacted(tmp_path):
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


def test_compaction_removes_aborted_records_whose_marker_is_in_a_later_segment(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"))
    made.append((b"a", b"2"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    made.roll()
    made.end(0, producer=1)
    assert made.clean(roll=False)
    assert records(made.log) == [(0, b"a", b"1")]


def test_compaction_keeps_a_marker_and_its_index_entry_while_a_batch_of_the_transaction_is_left(tmp_path):
    made = Compacted(tmp_path)
    made.append((b"a", b"1"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    made.end(0, producer=1)
    made.append((b"b", b"1"))
    made.clean()
    kept = batches_of(made.log)
    assert [(b.is_control, b.count) for b in kept if b.producer_id == 1] == [(False, 0), (True, 1)]
    assert [(a.producer_id, a.first_offset, a.last_offset) for a in made.log.aborted_transactions(0, 2)] == [(1, 0, 1)]


def test_compaction_removes_a_marker_without_batches_after_its_delete_horizon(tmp_path):
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


def test_compaction_removes_aborted_records_before_the_transaction_index_is_on_disk(tmp_path):
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


def test_an_aborted_transaction_of_an_earlier_round_does_not_hide_a_later_committed_tombstone(tmp_path):
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
