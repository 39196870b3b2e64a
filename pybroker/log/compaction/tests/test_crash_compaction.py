"""Case 3: the power is cut at every moment of a compaction. No key is lost, and no deleted one comes back."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

import pytest

from cy.batch import iterate, scan
from proofs.crash import CrashImage, RecordingStorage, crash_images
from pybroker.config.log_config import LogConfig
from pybroker.log.compaction.tests.compacted import HOUR_MS, Compacted
from pybroker.log.log import Log
from pybroker.log.segment.cleaned_segment import CleanedSegment
from pybroker.log.tests.helpers import TP, UnsyncedStorage, manager

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=2500,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=HOUR_MS,
)
RECORD = 40


@dataclass
class Promise:
    """The state of the log that was promised to a client."""

    latest: dict[bytes, bytes | None]
    """Every key's last value below ``end``, None for a tombstone."""
    end: int
    """The offset below which all records were acknowledged after a sync."""
    history: list[tuple[int, bytes, bytes | None]]
    """(offset, key, value) of everything that was ever written."""

    def may_be(self, key: bytes, value: bytes | None) -> bool:
        """Returns whether a reader may find this as the last value of ``key``."""
        return value == self.latest.get(key) or (key, value) in {
            (later, what) for offset, later, what in self.history if offset >= self.end
        }


def live(root: str) -> list:
    """Writes, compacts over several segments, deletes by tombstones whose horizon passes, and aborts.

    Returns the recorded changes of the storage.
    """
    storage = RecordingStorage(root)
    made = Compacted(root, CONFIG, storage=storage)
    latest: dict[bytes, bytes | None] = {}
    history: list[tuple[int, bytes, bytes | None]] = []

    def put(key: bytes, value: bytes | None) -> None:
        history.append((made.append((key, value), log_time=made.clock.now_ms()), key, value))
        latest[key] = value

    def promise() -> Promise:
        return Promise(dict(latest), made.log.log_end_offset, history)

    def sync() -> None:
        made.log.flush()
        storage.mark(promise())

    for round_number in range(3):
        for number in range(24):
            put(b"key %d" % (number % 9), b"%d in round %d" % (number, round_number) + bytes(RECORD))
        put(b"key %d" % round_number, None)
        put(b"once %d" % round_number, bytes(RECORD))
        _abort(made, round_number)
        sync()
        for number in range(9):
            put(b"key %d" % number, b"not synced in round %d" % round_number)
        made.log.log_dir.on_roll = lambda log: None
        made.roll()
        storage.mark("compacting")
        assert made.clean(roll=False)
        storage.mark("compacted")
        made.clock.advance(HOUR_MS + 1)
    put(b"last", b"x")
    sync()
    made.logs.close()
    storage.mark(promise())
    return storage.changes


def _abort(made: Compacted, number: int) -> None:
    made.append((b"key 0", b"aborted"), transactional=True, producer_id=5, producer_epoch=number, base_sequence=0)
    made.end(0, producer=5, epoch=number)


def view(log: Log) -> dict[bytes, bytes | None]:
    """Key → last value, as a read_committed consumer sees it; raises AssertionError on a broken log."""
    found: dict[bytes, bytes | None] = {}
    aborted = log.aborted_transactions(0, log.log_end_offset)
    offset, last = log.log_start_offset, -1
    while (part := log.read(offset, 1000)).size:
        data = part.read()
        hidden = [
            batch
            for batch in scan(data, check_crcs=True)
            if batch.is_control
            or (
                batch.is_transactional
                and any(
                    a.producer_id == batch.producer_id and a.first_offset <= batch.base_offset <= a.last_offset
                    for a in aborted
                )
            )
        ]
        for record in iterate(data):
            if record.offset < offset or any(b.base_offset <= record.offset <= b.last_offset for b in hidden):
                continue
            assert record.offset > last, f"offset {record.offset} follows {last}"
            last = record.offset
            found[record.key] = record.value
        offset = part.next_offset
    assert offset == log.log_end_offset, f"reading stops at {offset}, {log}"
    return found


def violation(image: CrashImage, root: str) -> str | None:
    """Returns a promise that recovery broke; None if all hold."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    image.write_to(root)
    promises = [promise for promise in image.promises if isinstance(promise, Promise)]
    if not promises:
        return None
    promise = promises[-1]
    for _ in range(2 if image.seed == 0 else 1):
        logs = manager(f"{root}/data", config=CONFIG, storage=UnsyncedStorage())
        logs.load()
        log = logs.get(TP)
        if log is None or log.log_end_offset < promise.end:
            return f"{log} ends before {promise.end}"
        found = _broken(log, promise)
        if found is not None:
            return found
    return None


def _broken(log: Log, promise: Promise) -> str | None:
    try:
        found = view(log)
    except AssertionError as error:
        return str(error)
    for key in promise.latest.keys() | found.keys():
        if not promise.may_be(key, found.get(key)):
            return f"{key!r} is {found.get(key)!r}, promised was {promise.latest.get(key)!r}"
    names = os.listdir(log.folder)
    left = [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    return f"{left} are left" if left else None


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_case_3_no_key_is_lost_or_resurrected_whenever_a_compaction_is_interrupted(tmp_path, every):
    changes = live(str(tmp_path / "life"))
    images = 0
    for image in crash_images(changes, losses=1, every=every):
        names_changed = changes[image.prefix].kind in ("rename", "unlink", "sync_folder")
        if "compacting" not in image.promises[-1:] or not (names_changed or image.prefix % 8 == 0):
            continue
        images += 1
        found = violation(image, str(tmp_path / "crash"))
        assert found is None, f"prefix {image.prefix}, seed {image.seed}: {found}"
    assert images > 150 // every


def _no_swap(self: CleanedSegment) -> None:
    """The planted bug: no trace of a swap until it is over."""


def _straight_to_final(self: CleanedSegment) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        self._storage.rename(self._path(suffix, ".cleaned"), self._stem + suffix)


def test_a_planted_swap_without_swap_files_is_detected(tmp_path, monkeypatch):
    monkeypatch.setattr(CleanedSegment, "to_swap", _no_swap)
    monkeypatch.setattr(CleanedSegment, "to_final", _straight_to_final)
    changes = live(str(tmp_path / "life"))
    images = crash_images(changes, losses=1, every=2)
    assert any(violation(image, str(tmp_path / "crash")) for image in images)
