"""All access of the log to a disk: a ``Storage``, and the ``DataFile`` objects that it opens.

The log itself never calls ``os``. Tests replace the storage by one that fails on demand, that is full, or that records
writes, syncs and renames and then cuts the power (``proofs.crash``).

Two rules hold for all files:

* A ``DataFile`` is closed when its last reference is gone. A ``FileSlice`` in a send queue keeps it open, so a segment
may be deleted, or evicted from the cache of open files, while it is being read.
* A file is *whole or absent*: small files are written by ``replace`` (temporary file, sync,
  rename, sync of the folder). Data files grow only at their end.

``OSError`` passes through unchanged; the log turns it into KAFKA_STORAGE_ERROR and takes the log
dir offline. A ``sync`` that failed must never be tried again: the kernel may have dropped the
dirty pages and would report success for data that is gone.

A lack of file descriptors is not a failed disk. The cache of open files then closes some. If that does not help, the
storage raises ``OutOfDescriptors``, which takes no log dir offline (``LogDir.fail``).

Thread-safety: a ``Storage`` has no state but ``make_room``, which is set once. Several threads may read, write and sync
one ``DataFile`` (pread, pwrite, fdatasync; all of them release the GIL).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
from collections.abc import Callable, Mapping
from time import time_ns
from typing import TypeVar

from pybroker.descriptors import EXHAUSTED

TEMPORARY_SUFFIX = ".tmp"
SMALL_FILE_BYTES = 16_384

Bytes = bytes | bytearray | memoryview
Stamp = tuple[int, int]
"""The size of a file, and the time of its last change in nanoseconds."""
T = TypeVar("T")


class OutOfDescriptors(OSError):
    """Raised if no file descriptor was left. Nothing was changed, and the operation may be tried again."""


class DataFile:
    """An open file with a descriptor of its own."""

    __slots__ = ("__weakref__", "_fd", "_written_ns", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._written_ns = os.fstat(fd).st_mtime_ns
        self.path = path

    def fileno(self) -> int:
        """Returns the descriptor, which is valid as long as this object is referenced."""
        return self._fd

    def write(self, data: Bytes, position: int) -> None:
        """Writes all of ``data`` at ``position``. Raises OSError; a part of it may then be written."""
        written = os.pwrite(self._fd, data, position)
        while written < len(data):
            written += os.pwrite(self._fd, memoryview(data)[written:], position + written)
        self._written_ns = time_ns()

    def read(self, length: int, position: int) -> bytes:
        """Returns ``length`` bytes from ``position``, fewer only at the end of the file. Raises OSError."""
        data = os.pread(self._fd, length, position)
        while 0 < len(data) < length:
            more = os.pread(self._fd, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def truncate(self, size: int) -> None:
        """Truncates the file to ``size`` bytes."""
        os.ftruncate(self._fd, size)
        self._written_ns = time_ns()

    def sync(self) -> None:
        """Syncs the data and the file's size. After an OSError, it must never be called again for this file."""
        os.fdatasync(self._fd)

    def size(self) -> int:
        """The length of the file in bytes."""
        return os.fstat(self._fd).st_size

    def changed_by_others(self) -> bool:
        """True if the modification time shows that another process wrote since we last did. It is True only once."""
        modified_ns = os.fstat(self._fd).st_mtime_ns
        changed = modified_ns > self._written_ns
        if changed:
            self._written_ns = modified_ns
        return changed

    def __del__(self) -> None:
        os.close(self._fd)


class Storage:
    """Reads and writes real files."""

    make_room: Callable[[], object] = staticmethod(lambda: None)
    """Called if no file descriptor is left: closes files that can be opened again."""

    def with_descriptor(self, take: Callable[[], T]) -> T:
        """Returns ``take()``, which needs a file descriptor; if none is left, makes room and calls it once more.

        Raises OutOfDescriptors.
        """
        try:
            return take()
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
        self.make_room()
        try:
            return take()
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            raise OutOfDescriptors(error.errno, error.strerror, error.filename) from error

    def open(self, path: str, *, create: bool = False) -> DataFile:
        """Opens a file for reading and writing. With ``create``, creates a missing one, for this user alone."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return DataFile(self.with_descriptor(lambda: os.open(path, flags, 0o600)), path)

    def read(self, path: str) -> bytes:
        """Returns the whole content of a small file. Raises OSError."""
        with self.with_descriptor(lambda: open(path, "rb", buffering=0)) as file:
            return file.readall()

    def map(self, path: str) -> mmap.mmap | bytes:
        """Returns a read-only view of a file that no longer changes: mapped from the page cache, or read if it is
        small.
        """
        return self.with_descriptor(lambda: _map(path))

    def write(self, path: str, data: Bytes) -> None:
        """Writes a small file that can be rebuilt from others; neither syncs it nor replaces it atomically."""
        file = self.open(path, create=True)
        file.truncate(0)
        file.write(data, 0)

    def replace(self, path: str, data: Bytes) -> None:
        """Replaces the file's content by ``data``, atomically and durably: a crash leaves the old or the new one."""
        temporary = path + TEMPORARY_SUFFIX
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write(data, 0)
        file.sync()
        self.rename(temporary, path)
        self.sync_folder(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        """Renames a file or folder, replacing a file of the new name."""
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        """Removes a file; a missing one is no error."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def sync_folder(self, path: str) -> None:
        """Makes creations, renames and removals of names in this folder durable."""
        fd = self.with_descriptor(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def make_folder(self, path: str) -> None:
        """Creates a folder, for this user alone, and its missing parents; an existing one is no error."""
        os.makedirs(path, 0o700, exist_ok=True)

    def remove_folder(self, path: str) -> None:
        """Removes a folder with everything in it. A file that another process removes first is no error."""
        with contextlib.suppress(OSError):
            os.rmdir(path)  # an empty folder, as most are, takes half of the time and no descriptor
            return
        while os.path.exists(path):
            with contextlib.suppress(FileNotFoundError):
                self.with_descriptor(lambda: shutil.rmtree(path))

    def files(self, path: str) -> Mapping[str, int]:
        """Names and sizes of the files in a folder."""
        with self.with_descriptor(lambda: os.scandir(path)) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def stamps(self, path: str) -> Mapping[str, Stamp]:
        """Returns the names of the files in a folder, each with its size and time of change."""
        with self.with_descriptor(lambda: os.scandir(path)) as entries:
            found = ((entry.name, entry.stat()) for entry in entries if entry.is_file())
            return {name: (status.st_size, status.st_mtime_ns) for name, status in found}

    def folders(self, path: str) -> list[str]:
        """Returns the names of the folders in a folder, sorted, without symbolic links."""
        with self.with_descriptor(lambda: os.scandir(path)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def exists(self, path: str) -> bool:
        """Returns True if there is a file or folder of that name."""
        return os.path.exists(path)

    def modified_ms(self, path: str) -> int:
        """Returns when the file's content last changed, in milliseconds since the epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Sets the time of the file's last change, because its content is older than the file."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def space(self, path: str) -> tuple[int, int]:
        """Returns total and usable bytes of the volume that holds ``path`` (KIP-827)."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def _map(path: str) -> mmap.mmap | bytes:
    with open(path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size <= SMALL_FILE_BYTES:
            return file.readall()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
