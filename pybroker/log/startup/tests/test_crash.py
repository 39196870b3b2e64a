"""The power is cut at every moment of a log's history, in every way that a disk allows.

Recovery must keep each promise. A run is recorded once. Every prefix of its writes, syncs and
renames, each with several losses of unsynced data, becomes a disk on which the logs are
opened again. The message names a failing image by (prefix, seed).
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field

import pytest

from cy.batch import iterate
from proofs.crash import CrashImage, RecordingStorage, crash_images
from pybroker.config.log_config import LogConfig
from pybroker.log.expiry import apply_retention
from pybroker.log.files import checkpoints
from pybroker.log.log import Log
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, UnsyncedStorage, batch, contents, idempotent, manager

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, retention_ms=-1)


@dataclass
class Promise:
    """A promise to a client: these records are safe."""

    synced: int
    """The offset below which all records were acknowledged after a sync."""
    start: int
    """Records before it may be gone."""
    values: dict[int, bytes]
    """The values in the log, by offset."""
    appended: int = 0
    """The log's end. A killed process loses no record below it."""


@dataclass
class Life:
    """A log with its writes and its promises."""

    storage: RecordingStorage
    log: Log
    values: dict[int, bytes] = field(default_factory=dict)
    ever: dict[int, set[bytes]] = field(default_factory=dict)
    synced: int = 0
    sequence: int = 0

    def append(self, count: int, *, epoch: int = 0) -> None:
        for _ in range(count):
            value = b"%d in epoch %d" % (self.sequence, epoch) + bytes(60)
            info = self.log.append_as_leader(idempotent(self.sequence, value, producer=epoch), epoch, NOW)
            self.sequence += 1
            self.values[info.first_offset] = value
            self.ever.setdefault(info.first_offset, set()).add(value)
        self.promise()

    def sync(self) -> None:
        self.synced = self.log.flush()
        self.promise()

    def truncate(self, offset: int) -> None:
        self.synced = min(self.synced, offset)
        self.promise(appended=offset)
        self.log.truncate_to(offset, NOW)
        self.values = {at: value for at, value in self.values.items() if at < offset}
        self.sequence = 0
        self.promise()

    def promise(self, appended: int | None = None) -> None:
        appended = self.log.log_end_offset if appended is None else appended
        self.storage.mark(Promise(self.synced, self.log.log_start_offset, dict(self.values), appended))


def live(root: str) -> Life:
    """Appends, syncs, rolls, truncates, deletes, stops cleanly and starts again."""
    storage = RecordingStorage(root)
    logs = manager(f"{root}/data", config=CONFIG, storage=storage)
    logs.load()
    life = Life(storage, logs.get_or_create(TP, TOPIC_ID, CONFIG))
    life.append(5)
    life.sync()
    life.append(20)
    logs.checkpoint_recovery_points()
    life.append(3)
    life.truncate(15)
    life.append(10, epoch=1)
    life.sync()
    life.log.update_high_watermark(life.log.log_end_offset)
    life.log.raise_log_start_offset(12)
    apply_retention(life.log, NOW)
    logs.checkpoint_log_start_offsets()
    logs.checkpoint_high_watermarks()
    life.append(6, epoch=1)
    logs.close()
    life.synced = life.log.log_end_offset
    life.promise()
    again = manager(f"{root}/data", config=CONFIG, storage=storage)
    again.load()
    log = again.get(TP)
    assert log is not None
    life.log = log
    life.append(4, epoch=1)
    life.sync()
    life.append(2, epoch=1)
    return life


def violation(image: CrashImage, life: Life, root: str) -> str | None:
    """Returns a promise that recovery broke; None if all hold."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    image.write_to(root)
    for name in (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK, checkpoints.LOG_START):
        if os.path.exists(f"{root}/data/{name}"):
            with open(f"{root}/data/{name}", "rb") as file:
                checkpoints.decode_lines(file.read(), 3)
    promises = [promise for promise in image.promises if isinstance(promise, Promise)]
    promise = promises[-1] if promises else Promise(0, 0, {})
    for _ in range(2):
        logs = manager(f"{root}/data", config=CONFIG, storage=UnsyncedStorage())
        logs.load()
        log = logs.get(TP)
        if log is None:
            return "the log is gone" if promise.synced or (promise.appended and not image.seed) else None
        found = broken(log, promise, life, killed=image.seed == 0)
        if found:
            return found
    logs.close()
    return None


def broken(log: Log, promise: Promise, life: Life, *, killed: bool) -> str | None:
    safe = promise.appended if killed else promise.synced
    if log.log_end_offset < safe:
        return f"the log ends at {log.log_end_offset}, {safe} was promised"
    if not log.log_start_offset <= log.high_watermark <= log.log_end_offset >= log.recovery_point:
        return f"offsets are out of order: {log}"
    expected = offset = log.log_start_offset
    while (part := log.read(offset, 1000)).size:
        for record in iterate(part.read()):
            if record.offset < offset:
                continue
            if record.offset != expected:
                return f"offset {record.offset} follows {expected - 1}"
            if record.offset < safe and record.value != promise.values.get(record.offset, record.value):
                return f"record {record.offset} was acknowledged as another one"
            if record.value not in life.ever[record.offset]:
                return f"record {record.offset} was never written so"
            expected += 1
        offset = part.next_offset
    if expected != log.log_end_offset:
        return f"reading stops at {expected}, the log ends at {log.log_end_offset}"
    for entry in log.producers.active():
        if entry.last_offset >= log.log_end_offset:
            return f"producer {entry.producer_id} is known beyond the end"
    return None


@pytest.mark.parametrize("every", [8, pytest.param(2, marks=pytest.mark.nightly)])
def test_case_13_nothing_synced_is_lost_whenever_the_power_is_cut(tmp_path, every):
    life = live(str(tmp_path / "life"))
    images = 0
    for image in crash_images(life.storage.changes, losses=3, every=every):
        images += 1
        found = violation(image, life, str(tmp_path / "crash"))
        assert found is None, f"prefix {image.prefix}, seed {image.seed}: {found}"
    assert images > 800 // every


def test_case_13_a_gap_in_the_offsets_never_hides_lost_records(tmp_path):
    storage = RecordingStorage(str(tmp_path / "life"))
    logs = manager(tmp_path / "life/data", config=CONFIG, storage=storage)
    logs.load()
    log = logs.get_or_create(TP, TOPIC_ID, CONFIG)
    log.log_dir.on_roll = lambda log: None  # the sync in the background may come at any time, or never
    far, written = 3 << 30, []
    for offset in (0, 1, 2, far, far + 1, far + 2, 2 * far, 2 * far + 1):
        log.append_as_follower(batch(b"%d" % offset, base_offset=offset), 0, NOW)
        written.append((offset, b"%d" % offset))
        storage.mark(len(written))
    for number, image in enumerate(crash_images(storage.changes, losses=5)):
        root = tmp_path / str(number)
        image.write_to(str(root))
        again = manager(root / "data", config=CONFIG, storage=UnsyncedStorage())
        again.load()
        opened = again.get(TP)
        found = contents(opened) if opened else []
        assert found == written[: len(found)], f"prefix {image.prefix}, seed {image.seed}"
        assert image.seed or len(found) >= max(image.promises, default=0), f"prefix {image.prefix}: {found}"
        shutil.rmtree(root)


def test_crash_images_are_the_same_for_the_same_seed(tmp_path):
    life = live(str(tmp_path / "life"))
    changes = life.storage.changes
    first, second = (list(crash_images(changes, losses=1, every=40)) for _ in range(2))
    assert [image.files for image in first] == [image.files for image in second]


class AckBeforeSync(Life):
    """The planted bug: the acknowledgement leaves before the sync."""

    def sync(self) -> None:
        self.synced = self.log.log_end_offset
        self.promise()
        self.log.flush()


class NoNamesSynced(Life):
    """The planted bug: data is synced, the names of the files are not."""

    def sync(self) -> None:
        self.log.files.durability.names_synced = True
        self.log.log_dir.names_synced = True
        super().sync()


@pytest.mark.parametrize("bug", [AckBeforeSync, NoNamesSynced])
def test_a_planted_bug_is_found(tmp_path, monkeypatch, bug):
    monkeypatch.setattr("pybroker.log.startup.tests.test_crash.Life", bug)
    life = live(str(tmp_path / "life"))
    images = crash_images(life.storage.changes, losses=3)
    assert any(violation(image, life, str(tmp_path / "crash")) for image in images)
