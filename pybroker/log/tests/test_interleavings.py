"""Syncs of a log on threads, while the loop's thread appends to it, rolls and truncates it, in every order.

The calls of the storage show what is on the disk. When a ``sync`` ends, it covers the bytes that were written before it
began; a ``sync_folder`` covers the names that existed then. Neither undoes what a later one has brought to the disk.
After every step

* neither the recovery point nor its checkpoint file is beyond the records on the disk;
* all records are on the disk that the group commit has reported as safe.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cy.batch import scan
from proofs.interleaving import Interleaving, Schedule, Seeded, Switches
from pybroker.clock import ManualClock
from pybroker.config.log_config import LogConfig
from pybroker.log import durability, log_files
from pybroker.log.appending import Origin
from pybroker.log.compaction.cleaner import Cleaner
from pybroker.log.compaction.compaction import Resources
from pybroker.log.compaction.throttle import Throttle
from pybroker.log.dirs import log_dir
from pybroker.log.files import checkpoints, index_file
from pybroker.log.files.storage import DataFile, Storage
from pybroker.log.group_commit import GroupCommit
from pybroker.log.interruption import Interruption
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.segment.cleaned_segment import CLEANED_SUFFIX, SWAP_SUFFIX
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, batch, idempotent, marker

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
TRACED = (durability, log_files)


class Disk(Storage):
    """Real files, with a record of the data that would survive a power loss.

    A file is identified by the number that it got when it was made, because its inode may be used again.
    """

    def __init__(self) -> None:
        self.run: Interleaving | None = None
        self.changes = 0
        self.synced: dict[int, int] = {}
        """How many bytes of each file are on the disk."""
        self.syncing: dict[int, list[list[int]]] = {}
        """How many bytes of each file the running syncs will bring to the disk."""
        self.names: dict[str, set[tuple[str, int]]] = {}
        """The names and files that each folder has on the disk."""
        self._numbers = count()
        self._files: dict[int, int] = {}
        """The numbers of files, by inode."""
        self._told: dict[str, int] = {}
        """For each folder, the sync that set its names: among the ended ones, the sync that began last."""

    def step(self) -> None:
        if self.run is not None:
            self.run.step()
        self.changes += 1

    def inode(self, stat: os.stat_result) -> int:
        return stat.st_ino

    def file(self, stat: os.stat_result) -> int:
        return self._files[self.inode(stat)]

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self.step()
        is_new = not os.path.exists(path)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        if is_new:
            self._files[self.inode(os.fstat(fd))] = next(self._numbers)
        return _File(fd, path, self)

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    def sync_folder(self, path: str) -> None:
        """When it ends, the names that existed at its beginning are on the disk, unless a later sync ended first."""
        began, found = next(self._numbers), self._names(path)
        self.step()
        if began > self._told.get(path, -1):
            self._told[path], self.names[path] = began, found
        self.step()

    def _names(self, path: str) -> set[tuple[str, int]]:
        with os.scandir(path) as entries:
            return {(entry.name, self.file(entry.stat())) for entry in entries if entry.is_file()}

    def has(self, path: str, size: int) -> bool:
        """Returns whether the file would survive with at least so many bytes.

        A compacted segment counts for the old ones, with each of the names that a crash may leave. The old names only
        change when it is ready to be swapped in.
        """
        folder, name = os.path.split(path)
        file = self.file(os.stat(path))
        names = {(name + state, file) for state in ("", SWAP_SUFFIX, CLEANED_SUFFIX)}
        return bool(names & self.names.get(folder, set())) and self.synced.get(file, 0) >= size


class _File(DataFile):
    __slots__ = ("_disk", "_number")

    def __init__(self, fd: int, path: str, disk: Disk) -> None:
        super().__init__(fd, path)
        self._disk = disk
        self._number = disk.file(os.fstat(fd))

    def _changes_from(self, position: int) -> None:
        """Notes that bytes from ``position`` on are not on disk, and that no running sync writes them."""
        self._disk.synced[self._number] = min(self._disk.synced.get(self._number, 0), position)
        for size in self._disk.syncing.get(self._number, ()):
            size[0] = min(size[0], position)

    def write(self, data: Any, position: int) -> None:
        self._disk.step()
        self._changes_from(position)
        super().write(data, position)

    def truncate(self, size: int) -> None:
        self._disk.step()
        self._changes_from(size)
        super().truncate(size)

    def sync(self) -> None:
        """When it ends, all bytes are on the disk that existed at its beginning and have not changed since."""
        self._disk.step()
        size = [self.size()]
        under_way = self._disk.syncing.setdefault(self._number, [])
        under_way.append(size)
        self._disk.step()
        under_way.remove(size)
        self._disk.synced[self._number] = max(self._disk.synced.get(self._number, 0), size[0])


class Scenario:
    """A log with threads around it."""

    def __init__(self, root: Path, schedule: Schedule, monkeypatch: Any) -> None:
        self.disk = Disk()
        self.run = Interleaving(schedule, self.check, TRACED)
        cooperative = SimpleNamespace(Lock=self.run.lock, RLock=self.run.lock)
        for module in (durability, log_dir):
            monkeypatch.setattr(module, "threading", cooperative)
        monkeypatch.setattr(index_file, "_saving", self.run.lock())
        self.loop = self.run.lock()
        self.logs = LogManager(
            [str(root)], self.disk, CONFIG, ManualClock(NOW), cluster_id="cluster", node_id=1
        )
        self.logs.load()
        self.log: Log = self.logs.get_or_create(TP, TOPIC_ID, CONFIG)
        self.cleaner = Cleaner(self.logs, ManualClock(NOW), Throttle(), self.in_turn)
        """The only cleaner of all threads, as in a broker: no two of them compact a log at a time."""
        self.commit = GroupCommit(self.log, self.on_pool)
        self.promised: list[tuple[int, int]] = []
        """The reports of safe records: the offset below which records are safe, and the truncations by then."""
        self.checked: tuple[int, ...] = ()
        self.epoch = 0
        self.sequence = 0
        for _ in range(10):
            self.append()
        self.disk.run = self.run

    # Actions of the loop's thread

    def append(self) -> None:
        self.log.append_as_leader(batch(key=b"%d" % random.Random(self.sequence).randrange(3)), self.epoch, NOW)
        self.sequence += 1

    def abort(self) -> None:
        sequence, producer = 0, 1000 + self.log.log_end_offset
        self.log.append_as_leader(idempotent(sequence, producer=producer, transactional=True), self.epoch, NOW)
        self.log.append_as_leader(marker(0, producer=producer), self.epoch, NOW, origin=Origin.COORDINATOR)

    def wait(self) -> None:
        """Waits like acks=all with flush.acks."""
        end, cuts = self.log.log_end_offset, self.log.files.durability.truncations

        def done(error: Exception | None) -> None:
            if error is None and cuts == self.log.files.durability.truncations:
                self.promised.append((end, cuts))

        if self.commit.wait(end, done):
            done(None)

    def cut(self) -> None:
        self.log.truncate_to(max(1, self.log.log_end_offset - 4), NOW)
        self.epoch += 1

    def start_over(self) -> None:
        self.log.truncate_fully_and_start_at(self.log.log_end_offset - 1, NOW)
        self.epoch += 1

    def roll(self) -> None:
        self.log.roll(NOW)

    def on_loop(self, *deeds: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that does each of the actions in one turn of the loop."""

        def work() -> None:
            for deed in deeds:
                with self.loop:
                    deed()

        return work

    # Actions of the pool's threads

    def on_pool(self, work: Callable[[], object], done: Callable[[Exception | None], None]) -> None:
        def run() -> None:
            error: Exception | None = None
            try:
                work()
            except Exception as failure:
                error = failure
            with self.loop:
                done(error)

        self.run.start("group commit", run)

    def checkpoint(self) -> None:
        self.log.files.save_lagging()
        self.log.log_dir.checkpoint_recovery_points()

    def clean(self) -> None:
        self.cleaner.clean_next(Resources(1 << 16), _Patient(self.run))
        assert not self.cleaner.uncleanable

    def in_turn(self, work: Callable[[], Any]) -> Any:
        with self.loop:
            self.log.update_high_watermark(self.log.log_end_offset)
            return work()

    # Invariants

    def check(self) -> None:
        """Checks that everything below each recovery point is on disk."""
        now = (self.disk.changes, self.log.recovery_point, self.log.files.durability.truncations, len(self.promised))
        if now == self.checked:
            return
        self.checked = now
        points = [self.log.recovery_point]
        path = self.log.log_dir.file(checkpoints.RECOVERY_POINT)
        if os.path.exists(path):
            points.append(checkpoints.read_offsets(self.disk, path).get(TP, 0))
        points += [end for end, cuts in self.promised if cuts == self.log.files.durability.truncations]
        self.check_synced(max(points))

    def check_synced(self, point: int) -> None:
        for segment in self.log.segments.snapshot():
            if segment.base_offset < point and os.path.exists(segment.path):
                data = Path(segment.path).read_bytes()
                sizes = [b.position + b.size for b in scan(data) if b.base_offset < point]
                if sizes:
                    assert self.disk.has(segment.path, sizes[-1]), f"{segment.path} is not synced up to {point}"
        if not self.loop.is_held:
            assert point <= self.log.log_end_offset, f"{point} is said to be synced, {self.log} ends before"


class _Patient(Interruption):
    """An interruption that lets other threads run instead of waiting."""

    def __init__(self, run: Interleaving) -> None:
        super().__init__()
        self._run = run

    def wait(self, seconds: float) -> None:
        self._run.step()


def played(root: Path, schedule: Schedule, play: Callable[[Scenario], None]) -> int:
    """Runs a scenario once, by this schedule. Returns the number of steps."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        scenario = Scenario(root, schedule, monkeypatch)
        with scenario.run:
            play(scenario)
        return scenario.run.steps


class SmallDisk(Disk):
    """A disk with one inode, so that each new file has an inode that was used before."""

    def inode(self, stat: os.stat_result) -> int:
        return 1


def meanwhile(disk: Disk, *works: Callable[[], object]) -> None:
    """Does ``works`` at the next steps of the disk, one at each step."""
    rest = list(works)

    def step() -> None:
        if rest:
            rest.pop(0)()

    disk.run = SimpleNamespace(step=step)  # type: ignore[assignment]


def test_a_folder_sync_that_ends_late_does_not_undo_a_later_one(tmp_path):
    disk, path = Disk(), str(tmp_path / "a")

    def make_and_sync() -> None:
        file = disk.open(path, create=True)
        file.sync()
        disk.sync_folder(str(tmp_path))
        assert disk.has(path, 0)

    meanwhile(disk, make_and_sync)
    disk.sync_folder(str(tmp_path))
    assert disk.has(path, 0)


def test_a_folder_sync_covers_no_file_created_after_its_start(tmp_path):
    disk, path = Disk(), str(tmp_path / "a")
    meanwhile(disk, lambda: disk.open(path, create=True))
    disk.sync_folder(str(tmp_path))
    assert not disk.has(path, 0)
    disk.sync_folder(str(tmp_path))
    assert disk.has(path, 0)


def test_a_folder_sync_does_not_cover_a_file_created_again_meanwhile(tmp_path):
    disk, path = SmallDisk(), str(tmp_path / "a")

    def make_anew() -> None:
        disk.unlink(path)
        disk.open(path, create=True)

    disk.open(path, create=True).sync()
    disk.sync_folder(str(tmp_path))
    assert disk.has(path, 0)
    meanwhile(disk, make_anew)
    disk.sync_folder(str(tmp_path))
    assert not disk.has(path, 0)


def test_a_folder_sync_covers_the_files_that_exist_from_its_start_to_its_end(tmp_path):
    disk, path = Disk(), str(tmp_path / "a")
    file = disk.open(path, create=True)
    disk.sync_folder(str(tmp_path))
    file.write(b"abc", 0)
    held: list[bool] = []
    meanwhile(disk, lambda: None, lambda: held.append(disk.has(path, 1)), lambda: None)
    file.sync()
    assert (held, disk.has(path, 3)) == ([False], True)
    meanwhile(disk, lambda: None, lambda: file.write(b"xy", 1))
    file.sync()
    assert (disk.has(path, 1), disk.has(path, 2)) == (True, False)


def cut_and_append(scenario: Scenario) -> None:
    """Syncs the log, while a new leader truncates it and it grows again."""
    scenario.run.start("sync", scenario.log.flush)
    scenario.run.start("loop", scenario.on_loop(scenario.cut, scenario.append, scenario.append, scenario.wait))


def anything(choice: random.Random) -> Callable[[Scenario], None]:
    """Returns a scenario of a few random actions of the loop, and some threads."""

    def play(scenario: Scenario) -> None:
        deeds = [scenario.append, scenario.wait, scenario.cut, scenario.roll, scenario.abort, scenario.start_over]
        chosen = choice.choices(deeds, weights=(6, 6, 4, 3, 3, 1), k=choice.randint(4, 12))
        scenario.run.start("loop", scenario.on_loop(*chosen))
        threads: list[Callable[[], object]] = [
            scenario.log.flush,
            scenario.log.flush_sealed,
            scenario.checkpoint,
            scenario.clean,
        ]
        for work in choice.choices(threads, k=choice.randint(1, 3)):
            scenario.run.start(getattr(work, "__name__", "thread"), work)

    return play


SCENARIOS = [cut_and_append]


@pytest.mark.parametrize("play", SCENARIOS)
def test_no_order_of_sync_and_truncation_covers_unsynced_records(tmp_path, play):
    """Tries every schedule in which one thread runs up to some step, and then the other one to its end."""
    numbers = count()

    def steps_of(switches: dict[int, int], first: int) -> int:
        return played(tmp_path / str(next(numbers)), Switches(switches, first), play)

    for first in range(2):
        for one in range(1, steps_of({}, first)):
            steps_of({one: 1 - first}, first)


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_no_order_of_threads_covers_unsynced_records(tmp_path, first):
    for seed in range(first, first + 40):
        try:
            played(tmp_path / str(seed), Seeded(seed), anything(random.Random(seed)))
        except BaseException as error:
            error.add_note(f"schedule {seed}")
            raise
