"""The disk of a machine, in memory: the state that processes see, the durable state, and what a power cut leaves.

It loses what ``proofs.crash`` says. Synced data stay. Any write since then may be lost or torn. Names in a folder reach
the disk in order. A process that is killed loses nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from proofs.crash import Change, Inode
from pybroker.log.dirs.folders import DELETE_SUFFIX
from pybroker.log.files.storage import Bytes, DataFile, Stamp, Storage


class SimulatedInode(Inode):
    """A file. ``data`` is what processes see."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__()
        self.data = bytearray(data)
        self.synced = data
        self.modified_ms = 0


class Naming(NamedTuple):
    """A change of names that may not be on the disk yet. ``target`` None removes the name."""

    path: str
    node: SimulatedInode | None
    target: str | None = None


Files = dict[str, SimulatedInode | None]
"""A part of a disk, by path."""


class Disk:
    """Files by path. A folder is an entry whose file is None."""

    def __init__(self) -> None:
        self.names: dict[str, SimulatedInode | None] = {}
        self.children: dict[str, dict[str, None]] = {}
        self.durable: dict[str, SimulatedInode | None] = {}
        self.unsafe: dict[str, list[Callable[[dict[str, SimulatedInode | None]], None]]] = {}
        """By folder: the changes of names since its last sync."""
        self.full: set[str] = set()
        """Nothing can be written below these paths."""
        self.on_removal: Callable[[str], object] = lambda path: None
        """Called before a process removes a folder, or renames it to mark its removal."""

    # Names

    def add(self, path: str, node: SimulatedInode | None) -> None:
        """Adds a file or a folder."""
        folder, _, name = path.rpartition("/")
        self.names[path] = node
        self.children.setdefault(folder, {})[name] = None
        if node is None:
            self.children.setdefault(path, {})

        def again(names: dict[str, SimulatedInode | None]) -> None:
            names[path] = node

        self.unsafe.setdefault(folder, []).append(again)

    def remove(self, path: str) -> None:
        """Removes a file or a folder with everything in it."""
        for name in list(self.children.get(path, ())):
            self.remove(f"{path}/{name}")
        folder, _, name = path.rpartition("/")
        self.names.pop(path, None)
        self.children.get(folder, {}).pop(name, None)
        self.children.pop(path, None)
        self.unsafe.setdefault(folder, []).append(lambda names: _drop(names, path))

    def rename(self, source: str, target: str) -> None:
        """Renames a file or a folder."""
        folder, _, name = source.rpartition("/")
        for path in [path for path in self.names if path == source or path.startswith(source + "/")]:
            node = self.names.pop(path)
            moved = target + path[len(source) :]
            parent, _, child = moved.rpartition("/")
            self.names[moved] = node
            self.children.setdefault(parent, {})[child] = None
            if node is None:
                self.children[moved] = {}
                self.children.pop(path, None)
        self.children.get(folder, {}).pop(name, None)
        self.unsafe.setdefault(folder, []).append(lambda names: _move(names, source, target))

    def sync_names(self, folder: str) -> None:
        """Makes the folder's names durable."""
        for change in self.unsafe.pop(folder.rstrip("/"), ()):
            change(self.durable)

    # Mounting

    def detach(self, path: str) -> Files:
        """Takes away what is below the path, as when a disk is removed. The removed disk has all that was written."""
        prefix = path + "/"
        self.sync_names(path.rpartition("/")[0])
        for folder in [each for each in self.unsafe if each == path or each.startswith(prefix)]:
            self.sync_names(folder)
        files = {each: node for each, node in self.names.items() if each.startswith(prefix)}
        for each in files:
            del self.names[each]
            self.durable.pop(each, None)
            self.children.pop(each, None)
        if path in self.children:
            self.children[path] = {}
        return files

    def attach(self, files: Files) -> None:
        """Brings detached files back. Their folder is emptied first."""
        for path, node in files.items():
            self.add(path, node)
            self.durable[path] = node

    # The end

    def cut_power(self, rng: Random) -> None:
        """Stops the machine, and keeps only what its disk has at that time."""
        names = dict(self.durable)
        for _, changes in sorted(self.unsafe.items()):
            kept = rng.choice((0, len(changes), rng.randint(0, len(changes))))
            for change in changes[:kept]:
                change(names)
        contents = {path: None if node is None else node.content(rng) for path, node in sorted(names.items())}
        self._begin(contents)

    def lose(self) -> None:
        """Replaces the disk by an empty one."""
        self._begin({})

    def _begin(self, contents: Mapping[str, bytes | None]) -> None:
        self.names, self.children, self.durable, self.unsafe = {}, {}, {}, {}
        for path, content in contents.items():
            parent = path.rpartition("/")[0]
            if not parent or parent in self.names:
                self.add(path, None if content is None else SimulatedInode(content))
        self.durable, self.unsafe = dict(self.names), {}


def _drop(names: dict[str, Any], path: str) -> None:
    for each in [each for each in names if each == path or each.startswith(path + "/")]:
        del names[each]


def _move(names: dict[str, Any], source: str, target: str) -> None:
    for each in [each for each in names if each == source or each.startswith(source + "/")]:
        names[target + each[len(source) :]] = names.pop(each)


class SimulatedStorage(Storage):
    """The disk as one process sees it. After the process has ended, its writes have no effect."""

    def __init__(self, disk: Disk, now_ms: Callable[[], int], interleave: Callable[[], object]) -> None:
        """``interleave``: called when a thread waits for the disk."""
        self.disk = disk
        self._interleave = interleave
        self._now_ms = now_ms
        self.is_closed = False

    def wait(self) -> None:
        """Takes the disk's time, while others run. Raises OSError if the process ends meanwhile."""
        self._interleave()
        self.check()

    def check_room(self, path: str) -> None:
        """Raises OSError if nothing can be written."""
        self.check()
        if self.disk.full and any(path.startswith(each + "/") for each in self.disk.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def check(self) -> None:
        """Raises OSError if the process has ended."""
        if self.is_closed:
            raise OSError(errno.EIO, "the process has ended")

    def node(self, path: str) -> SimulatedInode:
        """Returns a file. Raises FileNotFoundError."""
        self.check()
        node = self.disk.names.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def touch(self, node: SimulatedInode) -> None:
        """Notes a write to the file."""
        node.modified_ms = self._now_ms()

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self.check()
        if create and path not in self.disk.names:
            self.check_room(path)
            self.disk.add(path, SimulatedInode())
        return SimulatedFile(self, self.node(path), path)

    def read(self, path: str) -> bytes:
        return bytes(self.node(path).data)

    def map(self, path: str) -> bytes:
        return bytes(self.node(path).data)

    def rename(self, source: str, target: str) -> None:
        self.wait()
        if source not in self.disk.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        if target.endswith(DELETE_SUFFIX):
            self.disk.on_removal(source)
        self.disk.rename(source, target)

    def unlink(self, path: str) -> None:
        self.check()
        if path in self.disk.names:
            self.disk.remove(path)

    def sync_folder(self, path: str) -> None:
        self.wait()
        self.disk.sync_names(path)

    def make_folder(self, path: str) -> None:
        self.check()
        parent = path.rpartition("/")[0]
        if parent and parent not in self.disk.names:
            self.make_folder(parent)
        if path not in self.disk.names:
            self.disk.add(path, None)

    def remove_folder(self, path: str) -> None:
        self.wait()
        self.disk.on_removal(path)
        self.disk.remove(path)

    def files(self, path: str) -> Mapping[str, int]:
        self.check()
        found = ((name, self.disk.names[f"{path}/{name}"]) for name in self.disk.children.get(path, ()))
        return {name: len(node.data) for name, node in found if node is not None}

    def stamps(self, path: str) -> Mapping[str, Stamp]:
        return {name: (size, self.node(f"{path}/{name}").modified_ms) for name, size in self.files(path).items()}

    def folders(self, path: str) -> list[str]:
        self.check()
        names = self.disk.names
        return sorted(name for name in self.disk.children.get(path, ()) if names[f"{path}/{name}"] is None)

    def exists(self, path: str) -> bool:
        self.check()
        return path in self.disk.names

    def modified_ms(self, path: str) -> int:
        return self.node(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.node(path).modified_ms = modified_ms

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 39


class SimulatedFile(DataFile):
    """An open file."""

    __slots__ = ("_node", "_storage")

    def __init__(self, storage: SimulatedStorage, node: SimulatedInode, path: str) -> None:
        self._storage = storage
        self._node = node
        self.path = path

    def write(self, data: Bytes, position: int) -> None:
        self._storage.check_room(self.path)
        node, content = self._node, bytes(data)
        end = len(node.data)
        if position > end:
            node.data += bytes(position - end)
        node.data[position : position + len(content)] = content
        node.pending.append(Change("write", self.path, position, content))
        self._storage.touch(node)

    def read(self, length: int, position: int) -> bytes:
        self._storage.check()
        return bytes(self._node.data[position : position + length])

    def truncate(self, size: int) -> None:
        self._storage.check()
        node = self._node
        if size <= len(node.data):
            del node.data[size:]
        else:
            node.data += bytes(size - len(node.data))
        node.pending.append(Change("truncate", self.path, size))
        self._storage.touch(node)

    def sync(self) -> None:
        self._storage.wait()
        self._node.synced, self._node.pending = bytes(self._node.data), []

    def size(self) -> int:
        return len(self._node.data)

    def changed_by_others(self) -> bool:
        return False

    def __del__(self) -> None:
        """Closes nothing, because there is no descriptor."""


class Slice:
    """Stands in for ``cy.wire.sendfile.FileSlice``: bytes of a file at the time when they are sent."""

    __slots__ = ("_file", "_length", "_position")

    def __init__(self, file: DataFile, position: int, length: int) -> None:
        self._file = file
        self._position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    def read(self) -> bytes:
        """Returns the bytes. Raises EOFError if the file has been truncated since."""
        data = self._file.read(self._length, self._position)
        if len(data) < self._length:
            raise EOFError(f"{self._file.path} was truncated")
        return data
