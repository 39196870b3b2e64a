"""A process without descriptors refuses requests; its disks have not failed.

The tests check one property for each operation of the log and each of its steps: from that step on, no file can be
opened. Then no log dir fails, a refused operation has changed nothing, and it works when descriptors are back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cy.batch import assign
from proofs.faulty_storage import FaultyStorage
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import Origin
from pybroker.log.compaction.tests.compacted import Compacted, records
from pybroker.log.expiry import apply_retention
from pybroker.log.files import checkpoints, partition_metadata
from pybroker.log.files.storage import OutOfDescriptors, Storage
from pybroker.log.log import Log
from pybroker.log.manager import NoLogDir
from pybroker.log.segment.segment import UNKNOWN_TIMESTAMP
from pybroker.log.tests.helpers import (
    NOW,
    TOPIC_ID,
    TP,
    UnsyncedStorage,
    batch,
    contents,
    idempotent,
    manager,
    marker,
    open_files,
    open_log,
)
from pybroker.log.timestamps import first_record_since
from pyclient.protocol import errors

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=0)
OTHER_ID = b"\2" * 16
FOREIGN = "notes.txt"


class Synced(FaultyStorage):
    """A storage that records which files and folders are on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.done: set[str] = set()

    def check(self, kind, path):
        super().check(kind, path)
        if kind == "sync":
            self.done.add(path)

    def sync_folder(self, path):
        self.check("sync_folder", path)
        self.with_descriptor(lambda: None)
        self.done.add(path)


class World:
    """A log of twenty records in several segments, with producers and two aborted transactions; no file of it is open.
    A second log dir is empty.
    """

    def __init__(self, root: Path, *, is_deep: bool = False, config: LogConfig = CONFIG) -> None:
        self.root, self.config = root, config
        self.storage = Synced()
        self.logs = manager(root / "a", root / "b", config=config, storage=self.storage)
        self.logs.load()
        log = self.logs.get_or_create(TP, TOPIC_ID, config, f"{root}/a")
        log.append_as_leader(idempotent(0, b"x" * 90, producer=9, transactional=True), 0, NOW)
        log.append_as_leader(marker(0, producer=9), 0, NOW, origin=Origin.COORDINATOR)
        for number in range(16):
            log.append_as_leader(idempotent(number, b"%d" % number * 40), number // 5, NOW + number)
        log.append_as_leader(idempotent(0, b"y", producer=8, transactional=True), 4, NOW)
        log.append_as_leader(marker(0, producer=8), 4, NOW, origin=Origin.COORDINATOR)
        log.append_as_leader(idempotent(1, b"z", producer=8, transactional=True), 4, NOW)
        log.flush()
        log.files.save_lagging()
        log.update_high_watermark(21)
        log.clean_offset = 12
        self.logs.checkpoint_recovery_points()
        if is_deep:  # the journal does not reach back
            log.producers._journal.begin_at(log.log_end_offset)
        self.is_enough = False
        """True if the operation needed no descriptor any longer when they were back."""
        self.idle()

    @property
    def log(self) -> Log:
        """The log with the name, taken back if it was set aside."""
        return self.logs.get_or_create(TP, TOPIC_ID, self.config)

    def idle(self) -> None:
        for segment in self.log.segments:
            segment.files.forget()
            segment._max_timestamp = UNKNOWN_TIMESTAMP  # as a start leaves it

    def heal(self) -> None:
        """Makes descriptors available again."""
        self.is_enough = self.storage.heal()
        assert not self.logs.offline_dirs

    def told(self) -> tuple[object, ...]:
        """Returns the state of the log: its ends, producers and transactions."""
        log = self.log
        producers = sorted((each.producer_id, each.next_sequence, each.epoch) for each in log.producers.active())
        aborted = [each for segment in log.segments for each in segment.txn_index]
        return log.topic_id, log.log_start_offset, log.log_end_offset, log.size, producers, aborted, contents(log)

    def told_by_a_start(self) -> tuple[object, ...]:
        """Returns the state after a start on a copy of the disk, as after a kill."""
        copy = Path(f"{self.root}-copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.root, copy)
        again = manager(copy / "a", copy / "b", config=CONFIG, storage=UnsyncedStorage())
        again.load()
        log = again.get_or_create(TP, TOPIC_ID, CONFIG)
        return log.topic_id, log.log_start_offset, log.log_end_offset, contents(log)


def every_step(root: Path, prepare: Callable[[World], object] = lambda world: None, **options: Any) -> Iterator[World]:
    """Yields a world in which the first opening of a file fails, one in which the second fails, and so on until none
    fails.
    """
    for step in count():
        world = World(root / str(step), **options)
        prepare(world)
        world.storage.descriptors_left = step
        yield world
        if world.is_enough:
            return


def is_refused(act: Callable[[World], object], world: World) -> bool:
    try:
        act(world)
    except errors.KafkaStorageError:
        return True
    return False


def append(world: World) -> None:
    world.log.append_as_leader(batch(b"n" * 400), 5, NOW)


def abort(world: World) -> None:
    world.log.append_as_leader(marker(0, producer=8), 4, NOW, origin=Origin.COORDINATOR)


def read(world: World) -> None:
    assert len(contents(world.log)) == 21
    assert world.log.read_bytes(5, 1000)
    assert len(world.log.aborted_transactions(0, 21)) == 2
    assert first_record_since(world.log, NOW)


def retention(world: World) -> None:
    world.log.config = LogConfig(segment_bytes=600, retention_ms=1000)
    apply_retention(world.log, NOW + 10_000)


def set_aside(world: World) -> None:
    world.logs.set_aside(*world.logs.take_out([TP]), "it is nobody's")


def create(world: World) -> None:
    log = world.logs.get_or_create(TP._replace(partition=1), OTHER_ID, CONFIG)
    assert partition_metadata.read(Storage(), log.folder) == OTHER_ID


def move(world: World) -> None:
    Path(world.log.folder, FOREIGN).touch()
    running = world.logs.moving_to(TP) or world.logs.move(TP, f"{world.root}/b")
    assert running is not None
    if not running.has_switched:
        running.copy()
        assert running.switch()
    running.settle()
    assert os.listdir(world.root / "b" / str(TP)).count(FOREIGN) == 1


def as_follower(records: bytearray, world: World) -> None:
    assign(records, 21, 5)
    world.log.append_as_follower(records, 5, NOW)


OPERATIONS: dict[str, Callable[[World], object]] = {
    "append": append,
    "append as a follower": lambda world: as_follower(batch(b"n" * 400), world),
    "abort": abort,
    "abort as a follower": lambda world: as_follower(marker(0, producer=8), world),
    "read": read,
    "retention": retention,
    "close": lambda world: world.log.close(),
    "cut": lambda world: world.log.truncate_to(11, NOW),
    "deep cut": lambda world: world.log.truncate_to(11, NOW),
    "cut of a segment": lambda world: world.log.truncate_to(19, NOW),
    "deep cut of a segment": lambda world: world.log.truncate_to(19, NOW),
    "cut of almost all": lambda world: world.log.truncate_to(1, NOW),
    "start over": lambda world: world.log.truncate_fully_and_start_at(0, NOW),
    "start over within": lambda world: world.log.truncate_fully_and_start_at(7, NOW),
    "start over beyond": lambda world: world.log.truncate_fully_and_start_at(40, NOW),
    "create": create,
    "move": move,
    "take back": lambda world: world.log,
}
PREPARED = {"take back": set_aside}
OPTIONS: dict[str, dict[str, Any]] = {
    "deep cut": {"is_deep": True},
    "deep cut of a segment": {"is_deep": True},
    "move": {"config": replace(CONFIG, segment_bytes=1500)},
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_without_a_free_descriptor_changes_nothing_and_succeeds_later(tmp_path, name):
    act, prepare, options = OPERATIONS[name], PREPARED.get(name, lambda world: None), OPTIONS.get(name, {})
    whole = World(tmp_path / "whole", **options)
    before, before_by_a_start = whole.told(), whole.told_by_a_start()
    whole.idle()
    prepare(whole)
    act(whole)
    expected, expected_by_a_start = whole.told(), whole.told_by_a_start()
    recovery_point = whole.log.log_dir.read_checkpoint(checkpoints.RECOVERY_POINT).get(TP, 0)
    refusals = 0
    for world in every_step(tmp_path, prepare, **options):
        refused = is_refused(act, world)
        world.heal()
        if refused:
            refusals += 1
            assert world.told() == before
            assert world.told_by_a_start() == before_by_a_start
            act(world)
        assert world.told() == expected
        assert world.told_by_a_start() == expected_by_a_start
        assert world.log.log_dir.read_checkpoint(checkpoints.RECOVERY_POINT).get(TP, 0) <= recovery_point
    assert refusals


def test_an_index_that_cannot_be_written_is_written_later(tmp_path):
    config = LogConfig(index_interval_bytes=0)
    for world in every_step(tmp_path, config=config):
        appended = next((number for number in range(100) if is_refused(append, world)), 100)
        world.heal()
        told = world.told()
        assert world.log.log_end_offset == 21 + appended
        world.log.close()
        assert len(open_log(world.root / "a", config).active_segment.offset_index) == world.log.log_end_offset - 1
        assert world.told() == told


def unsynced(world: World) -> None:
    world.log.append_as_leader(marker(0, producer=8), 5, NOW, origin=Origin.COORDINATOR)
    world.log.topic_id = bytes(16)
    world.log.set_topic_id(TOPIC_ID)
    world.log.update_high_watermark(15)
    world.log.raise_log_start_offset(15)
    world.log.log_dir.names_synced = False
    world.log.files.release()
    world.storage.done.clear()


def flush(world: World) -> None:
    world.log.flush()
    world.log.keep_start()


def test_the_next_sync_covers_what_a_sync_without_descriptors_left_out(tmp_path):
    whole = World(tmp_path / "whole")
    unsynced(whole)
    flush(whole)
    names = {os.path.relpath(path, whole.root) for path in whole.storage.done}
    assert {"a", "a/t-0", "a/t-0/partition.metadata"} < names
    for world in every_step(tmp_path, unsynced):
        refused = is_refused(flush, world)
        world.heal()
        assert refused or world.log.recovery_point == 22
        flush(world)
        assert {os.path.relpath(path, world.root) for path in world.storage.done} == names
        assert world.log.recovery_point == 22


def test_a_log_that_cannot_be_renamed_to_a_stray_becomes_one_later(tmp_path):
    whole = World(tmp_path / "whole")
    for world in every_step(tmp_path):
        with contextlib.suppress(errors.KafkaStorageError):
            set_aside(world)
        world.logs.forget_deleted()
        world.heal()
        world.logs.checkpoint_recovery_points()
        assert [stray.note.why for stray in world.logs.strays] == ["it is nobody's"]
        assert world.told_by_a_start()[-1] == contents(whole.log)
        assert world.told() == whole.told()


def test_a_new_topic_waits_until_the_old_log_of_its_name_is_a_stray(tmp_path):
    world = World(tmp_path)
    world.storage.descriptors_left = 0
    with pytest.raises(errors.KafkaStorageError):
        set_aside(world)
    with pytest.raises(errors.KafkaStorageError):
        world.logs.get_or_create(TP, OTHER_ID, CONFIG)
    world.heal()
    assert world.logs.get_or_create(TP, OTHER_ID, CONFIG).log_end_offset == 0
    assert [stray.topic_id for stray in world.logs.strays] == [TOPIC_ID]


@pytest.mark.parametrize("kind", ["open", "sync_folder"])
def test_a_log_deleted_without_free_descriptors_loses_its_files_once_its_deletion_is_durable(tmp_path, kind):
    world = World(tmp_path)
    log = world.log
    world.storage.fail(kind, errno.EMFILE)
    world.logs.delete(TP)
    world.heal()
    assert not (tmp_path / "a" / str(TP)).exists()
    assert Path(log.folder).exists() == (kind == "sync_folder")
    world.logs.get_or_create(TP, OTHER_ID, CONFIG, f"{tmp_path}/a")
    world.logs.delete(TP)
    assert not [path for path in (tmp_path / "a").iterdir() if path.is_dir()]


def test_a_start_without_descriptors_opens_a_log_dir_completely_or_not_at_all(tmp_path):
    """A start is not repeated: a log dir is offline if one of its logs could not be opened."""
    whole = World(tmp_path / "whole")
    for step in count():
        world = World(tmp_path / str(step))
        again = manager(world.root / "a", config=CONFIG, storage=world.storage)
        world.storage.descriptors_left = step
        with contextlib.suppress(NoLogDir):
            again.load()
        is_enough = world.storage.heal()
        found = again.get(TP)
        assert bool(again.offline_dirs) or (found is not None and contents(found) == contents(whole.log))
        assert world.told_by_a_start() == whole.told_by_a_start()
        if is_enough:
            break
    assert again.online_dirs


def test_a_compaction_without_descriptors_is_repeated(tmp_path):
    for step in count():
        storage = FaultyStorage()
        made = Compacted(tmp_path / str(step), storage=storage)
        for number in range(4):
            made.append((b"a", b"%d" % number))
        made.roll()
        made.log.files.release()
        storage.descriptors_left = step
        made.clean(roll=False)
        is_enough = storage.heal()
        assert not made.log.log_dir.offline
        assert not made.cleaner.uncleanable
        assert records(made.log)[-1][2] == b"3"
        made.clean(roll=False)
        assert [value for _, _, value in records(made.log)] == [b"3"]
        made.logs.close()
        assert [value for _, _, value in records(Compacted(tmp_path / str(step)).log)] == [b"3"]
        if is_enough:
            break


def test_an_index_with_unwritten_entries_is_complete_after_a_move(tmp_path):
    for world in every_step(tmp_path):
        refused = is_refused(abort, world)
        world.heal()
        if refused:
            abort(world)
        world.log.roll(NOW)
        move(world)
        world.logs.close()
        again = manager(world.root / "a", world.root / "b", config=CONFIG)
        again.load()
        assert len(again.get(TP).aborted_transactions(0, 22)) == 3


def test_a_disk_error_still_takes_the_log_dir_offline(tmp_path):
    world = World(tmp_path)
    world.storage.fail("open", errno.EIO)
    assert is_refused(append, world)
    assert world.logs.offline_dirs == [world.log.log_dir]


class Scarce(Storage):
    """Allows at most ``most`` open files below ``root``."""

    def __init__(self, root: Path, most: int, number: int) -> None:
        self.root, self.most, self.number = root, most, number

    def with_descriptor(self, take):
        def take_one():
            if len(open_files(self.root)) >= self.most:
                raise OSError(self.number, os.strerror(self.number), "file")
            return take()

        return super().with_descriptor(take_one)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_idle_files_are_closed_to_open_another(tmp_path, number):
    storage = Scarce(tmp_path, 6, number)
    log = open_log(tmp_path, CONFIG, storage=storage)
    storage.make_room = log.log_dir.cache.make_room
    for index in range(100):
        log.append_as_leader(batch(b"%d" % index * 100), 0, NOW)
    assert len(contents(log)) == 100
    storage.most = 0
    log.files.release()
    with pytest.raises(OutOfDescriptors) as raised:
        log.active_segment.files.open()
    assert (raised.value.errno, raised.value.filename) == (number, "file")
