"""A disk that fails when a test says so."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from functools import partial
from typing import NoReturn, TypeVar

from pybroker.log.files.storage import Bytes, DataFile, Storage

Condition = Callable[[str], bool]
T = TypeVar("T")


class FaultyStorage(Storage):
    """Real files whose syncs cost nothing. Operations of a chosen kind fail, and space may be limited.

    Kinds: ``open read map write truncate sync rename unlink sync_folder``. Every operation is counted
    in ``calls``.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.space_left: int | None = None
        """The number of bytes that can still be written; None: no limit. A write that exceeds it is written in part."""
        self.descriptors_left: int | None = None
        """How many more files can be opened; None: no limit."""
        self._failing: dict[str, tuple[int, Condition]] = {}

    def fail(
        self, kind: str, number: int = errno.EIO, where: Condition = lambda path: True
    ) -> None:
        """Makes ``kind`` fail with ``number`` for the paths that meet ``where``, from now on."""
        self._failing[kind] = (number, where)

    def heal(self) -> bool:
        """Ends all failures. Returns True if, as far as is known, no operation lacked a descriptor."""
        was_enough = self.descriptors_left != 0
        self._failing.clear()
        self.descriptors_left = None
        self.space_left = None
        return was_enough

    def count(self, kind: str) -> int:
        """Returns how often ``kind`` was tried."""
        return sum(called == kind for called, _ in self.calls)

    def check(self, kind: str, path: str) -> None:
        """Counts an operation. Raises OSError if it must fail."""
        self.calls.append((kind, path))
        number, where = self._failing.get(kind, (0, lambda path: False))
        if where(path):
            super().with_descriptor(partial(_fail, number, path))

    def with_descriptor(self, take: Callable[[], T]) -> T:
        if self.descriptors_left == 0:
            take = partial(_fail, errno.EMFILE)
        elif self.descriptors_left is not None:
            self.descriptors_left -= 1
        return super().with_descriptor(take)

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self.check("open", path)
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        return FaultyFile(self.with_descriptor(lambda: os.open(path, flags, 0o600)), path, self)

    def read(self, path: str) -> bytes:
        self.check("read", path)
        return super().read(path)

    def map(self, path: str) -> mmap.mmap | bytes:
        self.check("map", path)
        return super().map(path)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        super().unlink(path)

    def sync_folder(self, path: str) -> None:
        self.check("sync_folder", path)
        super().sync_folder(path)


def _fail(number: int, path: str = "") -> NoReturn:
    raise OSError(number, os.strerror(number), path)


class FaultyFile(DataFile):
    """A file whose operations a ``FaultyStorage`` lets fail."""

    __slots__ = ("_storage",)

    def __init__(self, fd: int, path: str, storage: FaultyStorage) -> None:
        super().__init__(fd, path)
        self._storage = storage

    def write(self, data: Bytes, position: int) -> None:
        self._storage.check("write", self.path)
        left = self._storage.space_left
        if left is not None and len(data) > left:
            super().write(memoryview(data)[:left], position)
            self._storage.space_left = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        if left is not None:
            self._storage.space_left = left - len(data)
        super().write(data, position)

    def read(self, length: int, position: int) -> bytes:
        self._storage.check("read", self.path)
        return super().read(length, position)

    def truncate(self, size: int) -> None:
        self._storage.check("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._storage.check("sync", self.path)
