"""The power is cut, or the process killed, at every moment of moves between log dirs, deletions and re-creations.

From any state of the two disks, a start finds each log that was not deleted, with all promised records. It finds no log
that was deleted. The rules of loss are those of ``proofs.crash``; the two dirs lose data independently.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from cy.batch import iterate
from proofs.crash import CrashImage, RecordingStorage, crash_images
from proofs.simulator.machines.disk import Disk, SimulatedInode, SimulatedStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.tests.helpers import NOW, TP, batch, manager

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=200, retention_ms=-1)
FIRST, SECOND = b"\1" * 16, b"\2" * 16


@dataclass(frozen=True)
class Promise:
    """A promise that holds for the log from now on."""

    topic_id: bytes | None = None
    """The id of the log's topic. None: no log exists, or none need exist."""
    deleted: frozenset[bytes] = frozenset()
    """Topics whose logs must not come back."""
    values: tuple[bytes, ...] = ()
    """The values by offset. A killed process loses none of them."""
    synced: int = 0
    """The offset below which a power cut loses no record."""
    start: int = 0
    """Records below this offset were deleted, and stay deleted after a kill."""


@dataclass
class Life:
    """Two log dirs, and the operations on them."""

    root: str
    storage: RecordingStorage
    logs: LogManager
    promise: Promise = field(default_factory=Promise)
    written: dict[bytes, list[bytes]] = field(default_factory=dict)
    """All values of a topic, by offset."""

    @property
    def log(self) -> Log:
        log = self.logs.get(TP)
        assert log is not None
        return log

    def create(self, topic_id: bytes, log_dir: str) -> None:
        self.logs.get_or_create(TP, topic_id, CONFIG, f"{self.root}/{log_dir}")
        self.say(topic_id=topic_id, values=(), synced=0, start=0)

    def append(self, count: int) -> None:
        topic_id = self.log.topic_id
        for _ in range(count):
            values = self.written.setdefault(topic_id, [])
            values.append(b"%d of %d" % (len(values), topic_id[0]) + bytes(60))
            self.log.append_as_leader(batch(values[-1]), 3, NOW)
            self.say(values=tuple(values))

    def sync(self) -> None:
        self.say(synced=self.log.flush())

    def delete_records(self, offset: int) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.raise_log_start_offset(offset)
        self.log.log_dir.checkpoint_log_start_offsets()
        self.say(start=offset)

    def delete(self) -> None:
        topic_id = self.log.topic_id
        self.say(topic_id=None, values=(), synced=0, start=0)
        self.logs.delete(TP)
        self.say(topic_id=None, deleted=frozenset({topic_id}), values=(), synced=0, start=0)

    def move(self, target: str, meanwhile: Callable[[], object] = lambda: None, *, is_synced: bool = True) -> None:
        """Moves the log. With ``is_synced``, it is also synced before the end of the move."""
        move = self.logs.move(TP, f"{self.root}/{target}")
        assert move is not None
        move.copy()
        meanwhile()
        move.copy()
        self.append(1)
        self.sync()  # records acknowledged by this are in the old folder, and not in the synced part of the copy
        assert move.switch()
        self.append(2)
        if is_synced:
            self.sync()
        self.append(1)
        move.settle()

    def say(self, **changes: object) -> None:
        self.promise = replace(self.promise, **changes)
        self.storage.mark(self.promise)


def live(root: str) -> Life:
    """Moves a log there and back while it is written, deletes it, makes it again, and moves it again."""
    storage = RecordingStorage(root)
    logs = manager(f"{root}/a", f"{root}/b", config=CONFIG, storage=storage)
    logs.load()
    life = Life(root, storage, logs)
    life.create(FIRST, "a")
    life.append(12)
    life.sync()
    life.append(3)
    life.move("b", lambda: life.append(10))
    life.append(2)
    life.sync()
    life.append(2)
    life.delete_records(7)
    life.move("a", lambda: life.append(1))
    life.append(1)
    life.delete()
    life.create(SECOND, "a")
    life.append(5)
    life.sync()
    life.move("b", is_synced=False)
    life.append(2)
    life.logs.close()
    return life


def violation(image: CrashImage, life: Life) -> str | None:
    """Returns a promise that a start broke, None if all hold. The disk is in memory, because there are thousands."""
    disk = Disk()
    for path, content in image.files.items():
        disk.add(path, None if content is None else SimulatedInode(content))
    promise = next((mark for mark in reversed(image.promises) if isinstance(mark, Promise)), Promise())
    for attempt in range(2):
        logs = manager("a", "b", config=CONFIG, storage=SimulatedStorage(disk, lambda: NOW, lambda: None))
        logs.load()
        found = broken(logs, promise, life, killed=image.seed == 0) or remains(disk)
        if found:
            return f"start {attempt}: {found}"
    return None


def broken(logs: LogManager, promise: Promise, life: Life, *, killed: bool) -> str | None:
    log = logs.get(TP)
    safe = len(promise.values) if killed else promise.synced
    if log is None:
        return "the log is gone" if safe else None
    if log.topic_id in promise.deleted:
        return "a deleted log is back"
    if log.topic_id != promise.topic_id:  # deleted or made again after the promise, or its id was not on the disk
        return "the log is another one" if safe else None
    if log.log_end_offset < safe:
        return f"the log ends at {log.log_end_offset}, {safe} was promised"
    if killed and not promise.start <= log.log_start_offset <= len(promise.values):
        return f"the log starts at {log.log_start_offset}, not at {promise.start}"
    for offset, value in records(log):
        if value != life.written[log.topic_id][offset]:
            return f"offset {offset} has {value!r}"
    return None


def records(log: Log) -> Iterator[tuple[int, bytes | None]]:
    """Yields offset and value of every record in the files."""
    for segment in log.segments:
        for record in iterate(segment.read_bytes(0, segment.size)):
            yield record.offset, record.value


def remains(disk: Disk) -> str | None:
    """Returns what should not be on the disk after a start, None if all is right."""
    folders = [f"{each}/{name}" for each in "ab" for name in disk.children.get(each, ()) if "." not in name[:1]]
    folders = [name for name in folders if disk.names[name] is None]
    return f"{folders} stay" if len(folders) > 1 or not all(name.endswith("/t-0") for name in folders) else None


def recorded(root: str) -> Life:
    """Runs ``live`` with the same names of folders each time, because an image depends on the order of names."""
    choice = random.Random(1)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=choice.getrandbits(128), version=4))
        return live(root)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Returns the recorded life, which is recorded only once."""
    return recorded(str(tmp_path_factory.mktemp("life")))


def test_a_crash_image_can_be_repeated_from_its_prefix_and_seed(life, tmp_path):
    again = recorded(str(tmp_path / "again"))
    first, second = (crash_images(each.storage.changes, losses=2) for each in (life, again))
    for one, other in zip(first, second, strict=True):
        assert one == other


@pytest.mark.parametrize(
    ("losses", "every"),
    [
        pytest.param(1, 4, id="gate"),
        pytest.param(3, 1, id="3", marks=pytest.mark.nightly),
        pytest.param(40, 1, id="40", marks=[pytest.mark.campaign, pytest.mark.timeout(1_800)]),
    ],
)
def test_no_crash_loses_a_log_that_moves_or_brings_back_one_that_was_deleted(life, losses, every):
    images = 0
    for image in crash_images(life.storage.changes, losses=losses, every=every):
        images += 1
        found = violation(image, life)
        assert found is None, f"prefix {image.prefix}, seed {image.seed}: {found}"
    assert images > 300 * losses // every
