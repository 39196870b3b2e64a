"""The files of one segment: opening, syncing, renaming, removing.

The ``.log`` is opened on first use and given back when the cache of open files needs room; the indexes look after
themselves. Files are removed by renaming them first (``.deleted``): that is quick and final, while the unlinking may
be slow and is done elsewhere. A start removes what a crash leaves of it.

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
        """The open ``.log``, None where it is not open."""
        self.was_released = False
        """True where the ``.log`` was given back: what is in it may be read from the disk again."""
        self.folder = folder
        self.base_offset = base_offset
        self.recently_used = False
        self.is_made = True
        """False where there are no files yet: of a new log that has no records."""
        self.is_removed = False
        """True where the files are gone, or are about to go; another segment may have files of these names."""
        self.offset_index = OffsetIndex(storage, cache, folder, base_offset)
        self.time_index = TimeIndex(storage, cache, folder, base_offset)
        self.txn_index = TransactionIndex(storage, cache, folder, base_offset)

    @property
    def is_open(self) -> bool:
        """True where its file is open."""
        return self.data is not None

    @property
    def path(self) -> str:
        """Path of the ``.log`` file."""
        return f"{self.folder}/{self.base_offset:020d}{SUFFIX}"

    @property
    def modified_ms(self) -> int:
        """When the ``.log`` was last written; nothing of it was appended later."""
        return self.storage.modified_ms(self.path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Whatever a change of the files needs is open and read, and stays so meanwhile, however many files others
        open. Raises OSError.
        """
        if not self.is_made:
            self.make()
        self._cache.forget(self)  # it closes what it knows, on any thread and at any time
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
        """Lets go of the open file.

        Bytes appended later are trusted; existing bytes must be checked again.
        """
        self.was_released = True  # first: another thread may open the file as soon as it is not there
        self.data = None

    def borrow(self) -> DataFile:
        """Returns the ``.log`` file. If it is not open, it does not stay open for this, so that reading an idle log
        leaves it idle.
        """
        return self.data or (self.storage.open(self.path) if self.is_made else self.make())

    def save_indexes(self) -> None:
        """Brings the index files up to date; raises OSError."""
        if self.is_made:
            self.offset_index.save()
            self.time_index.save()

    def sync(self, *, with_indexes: bool) -> None:
        """Returns when the log with its transaction index, and where asked the other indexes, are
        on the disk. Raises OSError.

        Never to be retried.
        """
        if not self.is_made:
            return
        self.borrow().sync()
        self.txn_index.sync()
        if with_indexes:
            self.offset_index.save(sync=True)
            self.time_index.save(sync=True)

    def relocate(self, folder: str) -> None:
        """The folder has another name now."""
        self.folder = folder
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.folder = folder

    def delete(self) -> list[str]:
        """Takes the files away by renaming them.

        Returns their new paths, to be unlinked where it does not hurt. The ``.log`` goes first, so
        that a crash leaves orphaned indexes, never a log without its own.
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
        """Closes everything."""
        self._cache.forget(self)
        self.data = None
        for index in (self.offset_index, self.time_index, self.txn_index):
            self._cache.forget(index)
            index.release()

    def open(self) -> DataFile:
        """Opens the ``.log``, to be given back when others need room. Raises OSError."""
        return self.adopt(self.storage.open(self.path)) if self.is_made else self.make()

    def make(self) -> DataFile:
        """Makes the files of an empty segment. Raises OSError, and can be called again then."""
        file = self.storage.open(self.path, create=True)
        file.truncate(0)
        for index in (self.offset_index, self.time_index):
            index.start_empty()
            index.save()
        self.is_made = True
        return self.adopt(file)

    def adopt(self, file: DataFile) -> DataFile:
        """``file`` is the open ``.log`` from now on."""
        self.data = file
        self._cache.admit(self)
        return file

    def place(self) -> None:
        """Gives the ``.log`` that was made under another name its own, without a descriptor. Raises OSError."""
        file = self.data
        assert file is not None
        self.storage.rename(file.path, self.path)
        file.path = self.path
        self.adopt(file)
        for index in (self.offset_index, self.time_index):
            index.save_if_possible()
