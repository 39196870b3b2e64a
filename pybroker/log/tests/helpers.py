"""Helpers of the tests of the log."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from typing import Any

from cy.batch import Builder, iterate
from pybroker.clock import ManualClock
from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files.checkpoints import Checkpointed
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.storage import DataFile, Storage
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.moving.move import Move
from pybroker.log.startup.recovery import load
from pybroker.topic_partition import TopicPartition

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))




def open_files(folder: object) -> list[str]:
    """Returns the files below the folder that this process has open."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile, by another thread
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(name for name in names if name.startswith(f"{folder}/"))


class CountedLock:
    """A lock that counts its requests. One more request than acquisitions means that a thread waits."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = lock or threading.Lock()
        self.asked = 0

    def acquire(self, blocking: bool = True) -> bool:
        self.asked += 1
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class UnsyncedFile(DataFile):
    """A file whose syncs cost nothing."""

    __slots__ = ()

    def sync(self) -> None:
        pass


class UnsyncedStorage(Storage):
    """Real files, whose syncs cost nothing."""

    def open(self, path: str, *, create: bool = False) -> DataFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return UnsyncedFile(os.open(path, flags, 0o644), path)

    def sync_folder(self, path: str) -> None:
        pass


def batch(
    *values: bytes,
    timestamp: int = NOW,
    key: bytes | None = b"k",
    base_offset: int = 0,
    epoch: int = 0,
    **options: object,
) -> bytearray:
    """Returns a v2 batch of records with these values; ``options`` are those of ``Builder``."""
    builder = Builder(**options)
    for value in values or (b"v",):
        builder.append(timestamp, key, value)
    return bytearray(builder.build(base_offset, epoch))


def idempotent(sequence: int, *values: bytes, producer: int = 7, epoch: int = 0, **options: object) -> bytearray:
    """Returns a batch of an idempotent producer."""
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **options)


def marker(kind: int, *, producer: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    """Returns a transaction marker; kind 0 aborts, 1 commits."""
    builder = Builder(producer_id=producer, producer_epoch=epoch, transactional=True, control=True)
    builder.append(NOW, b"\0\0" + kind.to_bytes(2, "big"), b"\0\0" + coordinator_epoch.to_bytes(4, "big"))
    return bytearray(builder.build())


def open_log(
    root: object,
    config: LogConfig | None = None,
    *,
    storage: Storage | None = None,
    clean: bool = True,
    name: str = "t-0",
    limit: int = 100,
    **checkpointed: int,
) -> Log:
    """Opens the log in ``root/t-0``, and creates it if necessary."""
    storage = storage or Storage()
    log_dir = LogDir(storage, FileCache(limit), str(root))
    folder = log_dir.file(name)
    storage.make_folder(folder)
    log = load(
        log_dir,
        TP,
        folder,
        config or LogConfig(),
        Checkpointed(**checkpointed),
        clean=clean,
        now_ms=NOW,
    )
    log_dir.logs[TP] = log
    return log


def fill(log: Log, values: Iterable[bytes], *, epoch: int = 0) -> None:
    """Appends a batch per value."""
    for value in values:
        log.append_as_leader(batch(value), epoch, NOW)


def numbered(count: int, size: int = 100) -> list[bytes]:
    """Returns values that begin with their number, and so differ."""
    return [b"%06d " % number + bytes(size - 7) for number in range(count)]


def contents(log: Log, *, max_bytes: int = 10_000) -> list[tuple[int, bytes]]:
    """Returns (offset, value) of every record, read as a consumer does."""
    found: list[tuple[int, bytes]] = []
    offset = log.log_start_offset
    while (part := log.read(offset, max_bytes)).size:
        found += [(r.offset, r.value or b"") for r in iterate(part.read()) if r.offset >= offset]
        assert part.next_offset > offset
        offset = part.next_offset
    return found


def manager(
    *dirs: object,
    config: LogConfig | None = None,
    storage: Storage | None = None,
    **options: object,
) -> LogManager:
    """Returns a manager of the log dirs, without loading them."""
    used = config or LogConfig()
    options = {"cluster_id": "cluster", "node_id": 1} | options
    return LogManager(
        [str(path) for path in dirs],
        storage or Storage(),
        used,
        ManualClock(NOW),
        **options,
    )


def complete(move: Move) -> None:
    """Runs a move to its end."""
    move.copy()
    while not move.switch():
        move.copy()
    move.settle()
