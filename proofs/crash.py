"""Cuts the power at every moment of a recorded run, in every way that a file system allows.

``RecordingStorage`` does real work and notes each change in order. ``crash_images`` then takes
every prefix of that record and yields what a disk may hold if the machine stops there:

* *File content*: synced data are there. Any write or truncation since the sync may be lost; a write may be torn. Pages
  reach the disk in any order, so a later write may be there without an earlier one, with zeros between.
* *Names*: creations, renames and removals in a folder reach the disk in order. Those before the last ``sync_folder``
  are there; of the later ones, only the first few may be there. A synced file whose name was not synced may be missing.
* A process that is killed, rather than a machine, loses nothing: that is the first image of every
  prefix.

A seeded generator makes the choice, so (prefix, seed) names an image, which can be made again. Run recovery on each
image and check the promises; ``mark`` notes a promise (an acknowledgement) between the changes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pybroker.log.files.storage import Bytes, DataFile, Stamp, Storage

IMAGED_NS = 0
"""Every file of an image has this modification time. So a log that is complete in the image looks as it did when it was
closed.
"""
LOST, TORN = 0.5, 0.3
"""If only some changes reach the disk: the probability that a change is lost, and that one that reaches the disk is
torn.
"""


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
        """Appends a change to the recording."""
        self.changes.append(Change(kind, os.path.relpath(path, self._root), **details))  # type: ignore[arg-type]

    def mark(self, promise: object) -> None:
        """Notes that ``promise`` must hold from here on."""
        self.changes.append(Change("mark", "", mark=promise))

    def open(self, path: str, *, create: bool = False) -> DataFile:
        if create and not os.path.exists(path):
            self.note("create", path)
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return RecordingFile(os.open(path, flags, 0o600), path, self)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.note("rename", source, target=os.path.relpath(target, self._root))

    def unlink(self, path: str) -> None:
        if os.path.exists(path):
            self.note("unlink", path)
        super().unlink(path)

    def sync_folder(self, path: str) -> None:
        self.note("sync_folder", path)

    def stamps(self, path: str) -> Mapping[str, Stamp]:
        return {name: (size, IMAGED_NS) for name, size in self.files(path).items()}

    def make_folder(self, path: str) -> None:
        if not os.path.exists(path):
            self.note("folder", path)
        super().make_folder(path)

    def remove_folder(self, path: str) -> None:
        for name in self.files(path) if os.path.exists(path) else ():
            self.unlink(f"{path}/{name}")
        super().remove_folder(path)
        self.note("remove", path)


class RecordingFile(DataFile):
    """A file whose writes and syncs a ``RecordingStorage`` notes."""

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
    """A file's content, which can have several names or none."""

    def __init__(self) -> None:
        self.synced = b""
        self.pending: list[Change] = []

    def apply(self, change: Change) -> None:
        """Applies a write, a truncation or a sync."""
        if change.kind == "sync":
            self.synced, self.pending = self.content(None), []
        else:
            self.pending.append(change)

    def content(self, choice: random.Random | None) -> bytes:
        """Returns the bytes that may be on the disk; without a ``choice``, all of them."""
        data = bytearray(self.synced)
        for change in self.pending if choice is None else _surviving(self.pending, choice):
            _apply(data, change)
        return bytes(data)


def _surviving(pending: list[Change], choice: random.Random) -> Iterator[Change]:
    """Returns those changes since the last sync that reach the disk, whole or torn."""
    losses = choice.choice(("none reaches it", "all reach it", "the first reach it", "some reach it"))
    if losses == "all reach it":
        yield from pending
    elif losses == "the first reach it":
        count = choice.randint(0, len(pending))
        yield from pending[:count]
        yield from (_torn(change, choice) for change in pending[count : count + 1])
    elif losses == "some reach it":
        for change in pending:
            if choice.random() >= LOST:
                yield _torn(change, choice) if choice.random() < TORN else change


def _torn(change: Change, choice: random.Random) -> Change:
    """Keeps only the first bytes of a write. A truncation happens completely or not at all."""
    return change._replace(data=change.data[: choice.randint(0, len(change.data))])


def _apply(data: bytearray, change: Change) -> None:
    if change.kind == "truncate":
        del data[change.position :]
        return
    data.extend(bytes(max(0, change.position - len(data))))
    data[change.position : change.position + len(change.data)] = change.data


class Folder:
    """The names in a folder. A folder that is renamed keeps its content, synced or not."""

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Folder] = {}
        """The names that a running process sees."""
        self._durable: dict[str, Inode | Folder] = {}
        self._pending: list[dict[str, Inode | Folder | None]] = []
        """The changes since the last sync, in order. None: the name was removed."""

    def change(self, names: dict[str, Inode | Folder | None]) -> None:
        """Changes all ``names`` at once."""
        self._pending.append(names)
        _change(self.entries, names)

    def sync(self) -> None:
        """Makes the names durable."""
        self._durable, self._pending = dict(self.entries), []

    def found(self, choice: random.Random | None) -> dict[str, Inode | Folder]:
        """Returns the names that may be on the disk; without a ``choice``, all of them."""
        if choice is None:
            return self.entries
        names = dict(self._durable)
        count = len(self._pending)
        for change in self._pending[: choice.choice((0, count, choice.randint(0, count)))]:
            _change(names, change)
        return names


def _change(names: dict[str, Inode | Folder], change: dict[str, Inode | Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """The state of a disk after the first changes."""

    def __init__(self) -> None:
        self._root = Folder()

    def apply(self, change: Change) -> None:
        """Applies the next change."""
        if change.kind == "mark":
            return
        if change.kind == "sync_folder":
            self._folder(change.path).sync()
            return
        parent, name = self._folder(os.path.dirname(change.path)), os.path.basename(change.path)
        node = parent.entries.get(name)
        if change.kind == "create":
            parent.change({name: Inode()})
        elif change.kind == "folder":
            parent.change({name: Folder()})
        elif change.kind in ("unlink", "remove"):
            parent.change({name: None})
        elif change.kind == "rename":
            assert os.path.dirname(change.target) == os.path.dirname(change.path), change
            parent.change({name: None, os.path.basename(change.target): node})
        else:
            assert isinstance(node, Inode), change
            node.apply(change)

    def _folder(self, path: str) -> Folder:
        found = self._root
        for name in [name for name in path.split("/") if name not in ("", ".")]:
            child = found.entries.get(name)
            if child is None:  # a parent folder that was created with its child
                found.change({name: Folder()})
                found.sync()
                child = found.entries[name]
            assert isinstance(child, Folder), path
            found = child
        return found

    def image(self, choice: random.Random | None) -> dict[str, bytes | None]:
        """Maps each path to its content (None for a folder) on a possible disk. Without a ``choice``, nothing is lost.
        """
        contents: dict[str, bytes | None] = {}
        _collect(self._root, "", choice, contents)
        return contents


def _collect(folder: Folder, prefix: str, choice: random.Random | None, contents: dict[str, bytes | None]) -> None:
    for name, node in sorted(folder.found(choice).items()):
        path = prefix + name
        contents[path] = node.content(choice) if isinstance(node, Inode) else None
        if isinstance(node, Folder):
            _collect(node, f"{path}/", choice, contents)


class CrashImage(NamedTuple):
    """One possible disk after a crash."""

    prefix: int
    seed: int
    """0: the process was killed, and nothing is lost."""
    files: dict[str, bytes | None]
    promises: list[object]
    """The marks before the crash."""

    def write_to(self, root: str) -> None:
        """Writes the disk below ``root``."""
        for path, content in self.files.items():
            target = os.path.join(root, path)
            if content is None:
                os.makedirs(target, exist_ok=True)
            else:
                with open(target, "wb") as file:
                    file.write(content)
                os.utime(target, ns=(IMAGED_NS, IMAGED_NS))


def crash_images(changes: list[Change], *, losses: int, every: int = 1) -> Iterator[CrashImage]:
    """Yields, for every ``every``-th prefix of ``changes``, the disk of a killed process and ``losses`` disks of a
    stopped machine.
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
