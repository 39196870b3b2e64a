"""Syncs of a log on threads, while the loop's thread appends to it, rolls and cuts it: in every order.

What is on the disk is known from the calls of the storage: a ``sync`` covers what was written before it began, a
``sync_folder`` the names that were there. After every step

* the recovery point, and what its checkpoint file says, is not beyond what is on the disk;
* whom the group commit has told that records are safe, they are.
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
from pybroker.clock import ManualClock
from pybroker.log import checkpoints, durability, index_file, log_dir, log_files
from pybroker.log.appending import Origin
from pybroker.log.cleaned_segment import SWAP_SUFFIX
from pybroker.log.cleaner import Cleaner
from pybroker.log.compaction import Resources
from pybroker.log.config import LogConfig
from pybroker.log.group_commit import GroupCommit
from pybroker.log.interruption import Interruption
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.storage import TEMPORARY_SUFFIX, DataFile, Storage
from pybroker.log.tests.helpers import NOW, TOPIC_ID, TP, batch, idempotent, marker
from pybroker.log.throttle import Throttle
from pybroker.testing.interleaving import Interleaving, Schedule, Seeded, Switches

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
TRACED = (durability, log_files)


class Disk(Storage):
    """Real files, and what of them would survive a loss of power."""

    def __init__(self) -> None:
        self.run: Interleaving | None = None
        self.changes = 0
        self.synced: dict[int, int] = {}
        """Bytes of each file, by inode, that are on the disk."""
        self.names: dict[str, set[tuple[str, int]]] = {}
        """Name and inode of what each folder has on the disk."""

    def step(self) -> None:
        if self.run is not None:
            self.run.step()
        self.changes += 1

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self.step()
        is_new = not os.path.exists(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        file = _File(os.open(path, flags, 0o644), path, self)
        if is_new:  # the inode may be that of a file that is gone
            self.synced[file.inode] = 0
            self.names.setdefault(os.path.dirname(path), set()).discard((os.path.basename(path), file.inode))
        return file

    def rename(self, source: str, target: str) -> None:
        """A compacted segment stands for the old ones, whichever of the two names a crash leaves."""
        self.step()
        super().rename(source, target)
        if source.endswith(SWAP_SUFFIX):
            folder, name = os.path.split(target)
            self.names.setdefault(folder, set()).add((name, os.stat(target).st_ino))
        elif source.endswith(TEMPORARY_SUFFIX):  # the name is new, and the inode may be that of a file that is gone
            folder, name = os.path.split(target)
            self.names.setdefault(folder, set()).discard((name, os.stat(target).st_ino))

    def sync_folder(self, path: str) -> None:
        found = _names(path)
        self.step()
        self.names[path] = found
        self.step()

    def has(self, path: str, size: int) -> bool:
        """Whether the file would be there, with that many bytes at least."""
        folder, name = os.path.split(path)
        inode = os.stat(path).st_ino
        return (name, inode) in self.names.get(folder, set()) and self.synced.get(inode, 0) >= size


class _File(DataFile):
    __slots__ = ("_disk", "inode")

    def __init__(self, fd: int, path: str, disk: Disk) -> None:
        super().__init__(fd, path)
        self._disk = disk
        self.inode = os.fstat(fd).st_ino

    def write(self, data: Any, position: int) -> None:
        self._disk.step()
        self._disk.synced[self.inode] = min(self._disk.synced.get(self.inode, 0), position)
        super().write(data, position)

    def truncate(self, size: int) -> None:
        self._disk.step()
        self._disk.synced[self.inode] = min(self._disk.synced.get(self.inode, 0), size)
        super().truncate(size)

    def sync(self) -> None:
        """What is written, or cut, while it runs, is not synced by it."""
        self._disk.step()
        size = self._disk.synced[self.inode] = self.size()
        self._disk.step()
        assert self._disk.synced[self.inode] <= size


def _names(path: str) -> set[tuple[str, int]]:
    with os.scandir(path) as entries:
        return {(entry.name, entry.stat().st_ino) for entry in entries}


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
            [str(root)], self.disk, lambda topic: CONFIG, ManualClock(NOW), cluster_id="cluster", node_id=1
        )
        self.logs.load()
        self.log: Log = self.logs.get_or_create(TP, TOPIC_ID, CONFIG)
        self.cleaner = Cleaner(self.logs, ManualClock(NOW), Throttle(), self.in_turn)
        """One for all its threads, as a broker has: no two of them compact a log at a time."""
        self.commit = GroupCommit(self.log, self.on_pool)
        self.promised: list[tuple[int, int]] = []
        """Which records were told to be safe: the offset below which, and the log's cuts by then."""
        self.checked: tuple[int, ...] = ()
        self.epoch = 0
        self.sequence = 0
        for _ in range(10):
            self.append()
        self.disk.run = self.run

    # What the loop's thread does

    def append(self) -> None:
        self.log.append_as_leader(batch(key=b"%d" % random.Random(self.sequence).randrange(3)), self.epoch, NOW)
        self.sequence += 1

    def abort(self) -> None:
        sequence, producer = 0, 1000 + self.log.log_end_offset
        self.log.append_as_leader(idempotent(sequence, producer=producer, transactional=True), self.epoch, NOW)
        self.log.append_as_leader(marker(0, producer=producer), self.epoch, NOW, origin=Origin.COORDINATOR)

    def wait(self) -> None:
        """As acks=all with flush.acks waits."""
        end, cuts = self.log.log_end_offset, self.log.truncations

        def done(error: Exception | None) -> None:
            if error is None and cuts == self.log.truncations:
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
        """Each of the deeds in one turn of the loop."""

        def work() -> None:
            for deed in deeds:
                with self.loop:
                    deed()

        return work

    # What the threads of the pool do

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
        self.log.save_lagging_files()
        self.log.log_dir.checkpoint_recovery_points()

    def clean(self) -> None:
        self.cleaner.clean_next(Resources(1 << 16), _Patient(self.run))
        assert not self.cleaner.uncleanable

    def in_turn(self, work: Callable[[], Any]) -> Any:
        with self.loop:
            self.log.update_high_watermark(self.log.log_end_offset)
            return work()

    # What must be so

    def check(self) -> None:
        """Everything below the recovery point is on the disk, whatever says so."""
        now = (self.disk.changes, self.log.recovery_point, self.log.truncations, len(self.promised))
        if now == self.checked:
            return
        self.checked = now
        points = [self.log.recovery_point]
        path = self.log.log_dir.file(checkpoints.RECOVERY_POINT)
        if os.path.exists(path):
            points.append(checkpoints.read_offsets(self.disk, path).get(TP, 0))
        points += [end for end, cuts in self.promised if cuts == self.log.truncations]
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
    """Lets others run instead of waiting."""

    def __init__(self, run: Interleaving) -> None:
        super().__init__()
        self._run = run

    def wait(self, seconds: float) -> None:
        self._run.step()


def played(root: Path, schedule: Schedule, play: Callable[[Scenario], None]) -> int:
    """One run; how many steps it took."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        scenario = Scenario(root, schedule, monkeypatch)
        with scenario.run:
            play(scenario)
        return scenario.run.steps


def cut_and_append(scenario: Scenario) -> None:
    """A sync, and a new leader meanwhile: the log is cut and grows again."""
    scenario.run.start("sync", scenario.log.flush)
    scenario.run.start("loop", scenario.on_loop(scenario.cut, scenario.append, scenario.append, scenario.wait))


def anything(choice: random.Random) -> Callable[[Scenario], None]:
    """A few deeds of the loop, and some threads."""

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
def test_no_order_of_a_sync_and_a_cut_vouches_for_what_is_not_on_the_disk(tmp_path, play):
    """Every schedule in which one thread runs up to some step, then the other one to its end."""
    numbers = count()

    def steps_of(switches: dict[int, int], first: int) -> int:
        return played(tmp_path / str(next(numbers)), Switches(switches, first), play)

    for first in range(2):
        for one in range(1, steps_of({}, first)):
            steps_of({one: 1 - first}, first)


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_no_order_of_threads_vouches_for_what_is_not_on_the_disk(tmp_path, first):
    for seed in range(first, first + 40):
        try:
            played(tmp_path / str(seed), Seeded(seed), anything(random.Random(seed)))
        except BaseException as error:
            error.add_note(f"schedule {seed}")
            raise
