"""The files of one segment: opens, syncs, renames and removes them.

The ``.log`` is opened on first use and closed when the cache of open files needs room; the indexes open and close their
files themselves. A deletion first renames files to ``.deleted``, which is quick and final. Unlinking may be slow and is
done elsewhere; a start removes the files that a crash has left.

Thread-safety: loop's thread only, except ``sync``, which one pool thread at a time may call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.offset_index import OffsetIndex
from pybroker.log.files.storage import DataFile, Storage
from pybroker.log.files.time_index import TimeIndex
from pybroker.log.files.txn_index import TransactionIndex

SUFFIX = ".log"
DELETED_SUFFIX = ".deleted"


class SegmentFiles:
    """``<base offset, 20 digits>`` with ``.log``, ``.index``, ``.timeindex`` and perhaps
    ``.txnindex``.
    """

    __slots__ = (
        "_cache",
        "base_offset",
        "data",
        "folder",
        "is_made",
        "is_removed",
        "offset_index",
        "recently_used",
        "storage",
        "time_index",
        "txn_index",
        "was_released",
    )

    def __init__(self, storage: Storage, cache: FileCache, folder: str, base_offset: int) -> None:
        self.storage = storage
        self._cache = cache
        self.data: DataFile | None = None
        """The open ``.log``, None if it is not open."""
        self.was_released = False
        """True if the ``.log`` was closed meanwhile, so that its bytes may come from the disk again."""
        self.folder = folder
        self.base_offset = base_offset
        self.recently_used = False
        self.is_made = True
        """False if there are no files yet, because the log is new and has no records."""
        self.is_removed = False
        """True if the files are removed or are about to be. Another segment may then have files of these names."""
        self.offset_index = OffsetIndex(storage, cache, folder, base_offset)
        self.time_index = TimeIndex(storage, cache, folder, base_offset)
        self.txn_index = TransactionIndex(storage, cache, folder, base_offset)

    @property
    def is_open(self) -> bool:
        """True if the ``.log`` is open."""
        return self.data is not None

    @property
    def path(self) -> str:
        """Path of the ``.log`` file."""
        return f"{self.folder}/{self.base_offset:020d}{SUFFIX}"

    @property
    def modified_ms(self) -> int:
        """When the ``.log`` was last written. None of its records was appended later."""
        return self.storage.modified_ms(self.path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within ``with``, keeps files open and entries in memory that a change of the files needs. Raises OSError."""
        if not self.is_made:
            self.make()
        self._cache.forget(self)  # because the cache may close its files at any time, on any thread
        try:
            if self.data is None:
                self.data = self.storage.open(self.path)
            for index in (self.offset_index, self.time_index, self.txn_index):
                index.hold()
            yield
        finally:
            if self.data is not None:
                self._cache.admit(self)

    def release(self) -> None:
        """Closes the ``.log``. Reads must then check its existing bytes again; later appends are trusted."""
        self.was_released = True  # first, because another thread may open the file again at once
        self.data = None

    def borrow(self) -> DataFile:
        """Returns the ``.log`` file. If it was not open, it does not stay open, so that idle logs have no open files.
        """
        return self.data or (self.storage.open(self.path) if self.is_made else self.make())

    def save_indexes(self) -> None:
        """Writes index entries that the files lack. Raises OSError."""
        if self.is_made:
            self.offset_index.save()
            self.time_index.save()

    def sync(self, *, with_indexes: bool) -> None:
        """Syncs the ``.log`` and the transaction index, with ``with_indexes`` also the other indexes.

        After an OSError, it must never be called again for these files.
        """
        if not self.is_made:
            return
        self.borrow().sync()
        self.txn_index.sync()
        if with_indexes:
            self.offset_index.save(sync=True)
            self.time_index.save(sync=True)

    def relocate(self, folder: str) -> None:
        """Notes the new name of the folder."""
        self.folder = folder
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.folder = folder

    def delete(self) -> list[str]:
        """Renames the files for deletion, and returns their new paths, which the caller unlinks.

        The ``.log`` is first, so that a crash leaves indexes without a log, never a log without indexes.
        """
        self.is_removed = True
        self.forget()
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.abandon()
        renamed = []
        for path in (self.path, self.offset_index.path, self.time_index.path, self.txn_index.path):
            with contextlib.suppress(FileNotFoundError):
                self.storage.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def forget(self) -> None:
        """Closes all files."""
        self._cache.forget(self)
        self.data = None
        for index in (self.offset_index, self.time_index, self.txn_index):
            self._cache.forget(index)
            index.release()

    def open(self) -> DataFile:
        """Opens the ``.log``, until the cache needs room. Raises OSError."""
        return self.adopt(self.storage.open(self.path)) if self.is_made else self.make()

    def make(self) -> DataFile:
        """Creates the files of an empty segment. Raises OSError, after which it can be called again."""
        file = self.storage.open(self.path, create=True)
        file.truncate(0)
        for index in (self.offset_index, self.time_index):
            index.start_empty()
            index.save()
        self.is_made = True
        return self.adopt(file)

    def adopt(self, file: DataFile) -> DataFile:
        """Takes over ``file`` as the open ``.log``."""
        self.data = file
        self._cache.admit(self)
        return file

    def place(self) -> None:
        """Renames a ``.log`` that was created under a temporary name; needs no file descriptor. Raises OSError."""
        file = self.data
        assert file is not None
        self.storage.rename(file.path, self.path)
        file.path = self.path
        self.adopt(file)
        for index in (self.offset_index, self.time_index):
            index.save_if_possible()
