"""The power is cut at every moment of a log's history that is full of transactions.

Recovery must keep more than the records (``test_crash``). No record of an aborted transaction whose marker was synced
is ever shown as committed. No record of an open transaction is below the last stable offset. What producers may do next
follows only from the log.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass, field

import pytest

from cy.batch import iterate, scan
from proofs.crash import CrashImage, RecordingStorage, crash_images
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import Origin
from pybroker.log.files.txn_index import TransactionIndex
from pybroker.log.log import Log
from pybroker.log.producers import marker as markers
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, UnsyncedStorage, idempotent, manager

CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=200, retention_ms=-1)
PRODUCERS = 4


@dataclass
class Promise:
    """A promise: everything below ``synced`` is on disk."""

    synced: int
    appended: int = 0


@dataclass
class Open:
    """A transaction of one producer."""

    epoch: int
    offsets: list[int] = field(default_factory=list)


@dataclass
class Life:
    """A log in which several producers write, commit and abort, seeded."""

    storage: RecordingStorage
    log: Log
    choice: random.Random
    running: dict[int, Open] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    fate: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """By the offset of a record: the offset of its marker, and whether the marker committed it."""

    def step(self) -> None:
        producer = self.choice.randrange(PRODUCERS)
        running = self.running.get(producer)
        if running is not None and self.choice.random() < 0.4:
            self.end(producer, running)
        else:
            self.write(producer)
        self.storage.mark(Promise(self.log.recovery_point, self.log.log_end_offset))

    def write(self, producer: int) -> None:
        running = self.running.setdefault(producer, Open(self.epochs.get(producer, 0)))
        records = idempotent(
            len(running.offsets), bytes(40), producer=producer, epoch=running.epoch, transactional=True
        )
        running.offsets.append(self.log.append_as_leader(records, 0, NOW).first_offset)

    def end(self, producer: int, running: Open) -> None:
        committed = self.choice.random() < 0.5
        marker = EndTxnMarker(producer, running.epoch + 1, 0, committed, 2)
        info = self.log.append_as_leader(
            markers.encode(marker, NOW), 0, NOW, origin=Origin.COORDINATOR, transaction_version=2
        )
        self.fate.update(dict.fromkeys(running.offsets, (info.first_offset, committed)))
        self.epochs[producer] = running.epoch + 1
        del self.running[producer]

    def sync(self) -> None:
        self.log.flush()
        self.storage.mark(Promise(self.log.recovery_point, self.log.log_end_offset))


def live(root: str, seed: int = 1) -> Life:
    """Runs transactions across segments, with syncs, checkpoints, a clean stop and a start."""
    storage = RecordingStorage(root)
    logs = manager(f"{root}/data", config=CONFIG, storage=storage)
    logs.load()
    life = Life(storage, logs.get_or_create(TP, TOPIC_ID, CONFIG), random.Random(seed))
    for number in range(45):
        life.step()
        if number % 11 == 10:
            life.sync()
            logs.checkpoint_recovery_points()
    life.log.update_high_watermark(life.log.log_end_offset)
    logs.checkpoint_high_watermarks()
    logs.close()
    again = manager(f"{root}/data", config=CONFIG, storage=storage)
    again.load()
    log = again.get(TP)
    assert log is not None
    life.log = log
    for _ in range(10):
        life.step()
    life.sync()
    for _ in range(4):
        life.step()
    return life


def violation(image: CrashImage, life: Life, root: str) -> str | None:
    """Returns a promise that recovery broke; None if all hold."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    image.write_to(root)
    promises = [promise for promise in image.promises if isinstance(promise, Promise)]
    promise = promises[-1] if promises else Promise(0)
    logs = manager(f"{root}/data", config=CONFIG, storage=UnsyncedStorage())
    logs.load()
    log = logs.get(TP)
    if log is None:
        return "the log is gone" if promise.synced else None
    found = broken(log, life, promise.appended if image.seed == 0 else promise.synced)
    if found is None:
        expected = producers_of(log)
        logs.close()
        again = manager(f"{root}/data", config=CONFIG, storage=UnsyncedStorage())
        again.load()
        log = again.get(TP)
        assert log is not None
        found = broken(log, life, promise.synced)
        if found is None and producers_of(log) != expected:
            found = f"producers are {producers_of(log)} after a clean stop, were {expected}"
    return found


def producers_of(log: Log) -> dict[int, tuple[int, int, int, int]]:
    return {
        e.producer_id: (e.epoch, e.last_sequence, e.last_offset, e.transaction_first_offset)
        for e in log.producers.active()
    }


def broken(log: Log, life: Life, safe: int) -> str | None:
    end = log.log_end_offset
    if end < safe:
        return f"the log ends at {end}, {safe} was promised"
    log.update_high_watermark(end)
    shown = committed(log)
    for offset, (at, committed_then) in life.fate.items():
        if offset < end and at < end and (offset in shown) != committed_then and at < log.last_stable_offset:
            return f"record {offset}, whose marker {at} says {committed_then}, is {offset in shown}"
    undecided = [offset for offset in shown if life.fate.get(offset, (end,))[0] >= end]
    return f"records {undecided} of open transactions are shown" if undecided else None


def committed(log: Log) -> set[int]:
    """Returns the offsets that a read_committed consumer gets."""
    shown: set[int] = set()
    offset, end = log.log_start_offset, log.last_stable_offset
    while offset < end and (part := log.read(offset, 300, end)).size:
        aborted = log.aborted_transactions(part.first_offset, part.next_offset)
        for record, producer in records(part.read()):
            if offset <= record < end and not any(
                each.producer_id == producer and each.first_offset <= record < each.last_offset
                for each in aborted
            ):
                shown.add(record)
        offset = part.next_offset
    return shown


def records(data: bytes) -> list[tuple[int, int]]:
    """Returns offset and producer of the data records."""
    found = []
    for each in scan(data):
        if not each.is_control:
            found += [(r.offset, each.producer_id) for r in iterate(data[each.position : each.end])]
    return found


def test_no_aborted_record_is_shown_whenever_the_power_is_cut(tmp_path):
    life = live(str(tmp_path / "life"))
    assert {says for _, says in life.fate.values()} == {True, False}
    images = 0
    for image in crash_images(life.storage.changes, losses=2, every=5):
        images += 1
        found = violation(image, life, str(tmp_path / "crash"))
        assert found is None, f"prefix {image.prefix}, seed {image.seed}: {found}"
    assert images > 150


def test_a_planted_bug_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(TransactionIndex, "sync", lambda self: None)
    life = live(str(tmp_path / "life"))
    images = crash_images(life.storage.changes, losses=4, every=5)
    assert any(violation(image, life, str(tmp_path / "crash")) for image in images)


@pytest.mark.parametrize("seed", [2, 3])
def test_a_killed_process_loses_no_transaction(tmp_path, seed):
    life = live(str(tmp_path / "life"), seed)
    changes = life.storage.changes
    for image in crash_images(changes, losses=0, every=12):
        found = violation(image, life, str(tmp_path / "crash"))
        assert found is None, f"prefix {image.prefix}: {found}"
