"""Cuts the power at every moment of a recorded run, in every way that a file system allows.

``RecordingStorage`` does real work and notes each change in order. ``crash_images`` then takes
every prefix of that record and yields what a disk may hold if the machine stops there:

* *File content*: what was synced is there. Of the writes and truncations since, any may be lost; a
  write may be torn. Pages reach the disk in any order, so a later write may be there without an
  earlier one, with zeros between.
* *Names*: creations, renames and removals in a folder reach the disk in order; those before the
  last ``sync_folder`` are there, of those since only a first part. A synced file whose name was
  not synced may be gone.
* A process that is killed, rather than a machine, loses nothing: that is the first image of every
  prefix.

The choice is made by a seeded generator: an image is named by (prefix, seed) and can be made
again. Run recovery on each image and check what was promised; ``mark`` notes such a promise (an
acknowledgement) between the changes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pybroker.log.storage import Bytes, DataFile, Storage


class Change(NamedTuple):
    """One recorded operation: ``create write truncate sync rename unlink folder remove
    sync_folder mark``.
    """

    kind: str
    path: str
    position: int = 0
    data: bytes = b""
    target: str = ""
    mark: object = None


class RecordingStorage(Storage):
    """Real files below ``root``.

    Every change is appended to ``changes``, with paths relative to ``root``.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self.changes: list[Change] = []

    def note(self, kind: str, path: str, **details: object) -> None:
        """Appends a change."""
        self.changes.append(Change(kind, os.path.relpath(path, self._root), **details))  # type: ignore[arg-type]

    def mark(self, promise: object) -> None:
        """From here on ``promise`` holds, whatever happens."""
        self.changes.append(Change("mark", "", mark=promise))

    def open(self, path: str, *, create: bool = False) -> DataFile:
        if create and not os.path.exists(path):
            self.note("create", path)
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return RecordingFile(os.open(path, flags, 0o644), path, self)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.note("rename", source, target=os.path.relpath(target, self._root))

    def unlink(self, path: str) -> None:
        if os.path.exists(path):
            self.note("unlink", path)
        super().unlink(path)

    def sync_folder(self, path: str) -> None:
        self.note("sync_folder", path)

    def make_folder(self, path: str) -> None:
        if not os.path.exists(path):
            self.note("folder", path)
        super().make_folder(path)

    def remove_folder(self, path: str) -> None:
        super().remove_folder(path)
        self.note("remove", path)


class RecordingFile(DataFile):
    """A file of a ``RecordingStorage``."""

    __slots__ = ("_storage",)

    def __init__(self, fd: int, path: str, storage: RecordingStorage) -> None:
        super().__init__(fd, path)
        self._storage = storage

    def write(self, data: Bytes, position: int) -> None:
        super().write(data, position)
        self._storage.note("write", self.path, position=position, data=bytes(data))

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self._storage.note("truncate", self.path, position=size)

    def sync(self) -> None:
        self._storage.note("sync", self.path)


class Inode:
    """A file's content, apart from its name."""

    def __init__(self) -> None:
        self.synced = b""
        self.pending: list[Change] = []

    def content(self, choice: random.Random | None) -> bytes:
        """What may be on the disk; without a ``choice``, everything."""
        data = bytearray(self.synced)
        mode = choice.choice(("none", "all", "first", "some")) if choice else "all"
        kept = (
            choice.randint(0, len(self.pending))
            if choice and mode == "first"
            else len(self.pending)
        )
        for number, change in enumerate(self.pending):
            if (
                mode == "none"
                or number > kept
                or (mode == "some" and choice and choice.random() < 0.5)
            ):
                continue
            torn = choice is not None and (
                number == kept or (mode == "some" and choice.random() < 0.3)
            )
            _apply(data, change, choice.randint(0, len(change.data)) if choice and torn else None)
        return bytes(data)


def _apply(data: bytearray, change: Change, length: int | None) -> None:
    if change.kind == "truncate":
        del data[change.position :]
        return
    written = change.data if length is None else change.data[:length]
    data.extend(bytes(max(0, change.position - len(data))))
    data[change.position : change.position + len(written)] = written


@dataclass
class Disk:
    """The state of a disk after a prefix of the changes."""

    names: dict[str, Inode | None] = field(default_factory=dict)
    """Path → file, or None for a folder: as a running process sees it."""
    durable: dict[str, Inode | None] = field(default_factory=dict)
    """As it is on the disk for sure."""
    pending: dict[str, list[Change]] = field(default_factory=dict)
    """Folder → changes of names in it that may be lost."""

    def apply(self, change: Change) -> None:
        """The next change happens."""
        if change.kind in ("write", "truncate"):
            self._file(change.path).pending.append(change)
        elif change.kind == "sync":
            inode = self._file(change.path)
            inode.synced, inode.pending = inode.content(None), []
        elif change.kind == "sync_folder":
            for waiting in self.pending.pop(change.path, []):
                _rename_all(self.durable, waiting, self._inodes)
        elif change.kind != "mark":
            if change.kind == "create":
                self._inodes[id(change)] = Inode()
            _rename_all(self.names, change, self._inodes)
            self.pending.setdefault(os.path.dirname(change.path) or ".", []).append(change)

    def __post_init__(self) -> None:
        self._inodes: dict[int, Inode] = {}

    def _file(self, path: str) -> Inode:
        inode = self.names[path]
        assert inode is not None, path
        return inode

    def image(self, choice: random.Random | None) -> dict[str, bytes | None]:
        """Path → content (None for a folder) of a disk that may be found.

        Without a ``choice``, nothing is lost.
        """
        names = dict(self.names if choice is None else self.durable)
        if choice is not None:
            for waiting in self.pending.values():
                for change in waiting[
                    : choice.choice((0, len(waiting), choice.randint(0, len(waiting))))
                ]:
                    _rename_all(names, change, self._inodes)
        contents: dict[str, bytes | None] = {}
        for path, inode in sorted(names.items()):
            parent = os.path.dirname(path)
            if not parent or parent in contents:
                contents[path] = inode.content(choice) if inode else None
        return contents


def _rename_all(names: dict[str, Inode | None], change: Change, inodes: dict[int, Inode]) -> None:
    if change.kind == "create":
        names[change.path] = inodes[id(change)]
    elif change.kind == "folder":
        names[change.path] = None
    elif change.kind == "unlink":
        names.pop(change.path, None)
    elif change.kind == "remove":
        for path in [path for path in names if f"{path}/".startswith(f"{change.path}/")]:
            del names[path]
    elif change.kind == "rename":
        for path in [path for path in names if f"{path}/".startswith(f"{change.path}/")]:
            names[change.target + path.removeprefix(change.path)] = names.pop(path)


class CrashImage(NamedTuple):
    """One possible disk after a crash."""

    prefix: int
    seed: int
    """0: the process was killed, nothing is lost."""
    files: dict[str, bytes | None]
    promises: list[object]
    """The marks before the crash."""

    def write_to(self, root: str) -> None:
        """Makes the disk below ``root``."""
        for path, content in self.files.items():
            target = os.path.join(root, path)
            if content is None:
                os.makedirs(target, exist_ok=True)
            else:
                with open(target, "wb") as file:
                    file.write(content)


def crash_images(changes: list[Change], *, losses: int, every: int = 1) -> Iterator[CrashImage]:
    """For every ``every``-th prefix of ``changes``: the disk of a killed process, and
    ``losses`` disks of a machine that stopped.
    """
    disk, promises = Disk(), []
    for prefix, change in enumerate(changes):
        disk.apply(change)
        if change.kind == "mark":
            promises.append(change.mark)
        if prefix % every == 0 or prefix == len(changes) - 1:
            yield CrashImage(prefix, 0, disk.image(None), list(promises))
            for seed in range(1, losses + 1):
                choice = random.Random(f"{prefix}/{seed}")
                yield CrashImage(prefix, seed, disk.image(choice), list(promises))
