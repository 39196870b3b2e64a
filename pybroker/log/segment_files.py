"""The files of one segment: opening, syncing, renaming, removing. ``Segment`` goes on from here.

The ``.log`` is opened on first use and given back when the cache of open files needs room; the
indexes look after themselves. Files are removed by renaming them first (``.deleted``): that is
quick and can be undone by nobody, the unlinking may be slow and is done elsewhere. A start removes
what a crash leaves of it.

Thread-safety: loop's thread only, except ``sync``, which one pool thread at a time may call.
"""

from __future__ import annotations

import contextlib

from pybroker.log.file_cache import FileCache
from pybroker.log.offset_index import OffsetIndex
from pybroker.log.storage import DataFile, Storage
from pybroker.log.time_index import TimeIndex
from pybroker.log.trust import Trust
from pybroker.log.txn_index import TransactionIndex

SUFFIX = ".log"
DELETED_SUFFIX = ".deleted"


class SegmentFiles:
    """``<base offset, 20 digits>`` with ``.log``, ``.index``, ``.timeindex`` and perhaps
    ``.txnindex``.
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_file",
        "_storage",
        "_trust",
        "base_offset",
        "folder",
        "is_removed",
        "offset_index",
        "recently_used",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(self, storage: Storage, cache: FileCache, folder: str, base_offset: int, size: int) -> None:
        self._storage = storage
        self._cache = cache
        self._file: DataFile | None = None
        self._trust = Trust(size)
        self.folder = folder
        self.base_offset = base_offset
        self.size = size
        """Bytes of whole batches in the ``.log``."""
        self.recently_used = False
        self.is_removed = False
        """True where the files are gone, or are about to go; another segment may have files of these names."""
        self.offset_index = OffsetIndex(storage, cache, folder, base_offset)
        self.time_index = TimeIndex(storage, cache, folder, base_offset)
        self.txn_index = TransactionIndex(storage, cache, folder, base_offset)

    @property
    def is_open(self) -> bool:
        """True where its file is open."""
        return self._file is not None

    @property
    def path(self) -> str:
        """Path of the ``.log`` file."""
        return f"{self.folder}/{self.base_offset:020d}{SUFFIX}"

    @property
    def modified_ms(self) -> int:
        """When the ``.log`` was last written; nothing of it was appended later."""
        return self._storage.modified_ms(self.path)

    @property
    def file(self) -> DataFile:
        """The open ``.log`` file."""
        self.recently_used = True
        return self._file or self._open()

    def hold(self) -> None:
        """Opens and reads whatever a change of the files needs; raises OSError."""
        if self._file is None:
            self._open()
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.hold()

    def release(self) -> None:
        """Lets go of the open file.

        What is appended later is trusted, what is there must be checked again.
        """
        self._file = None
        self.distrust()

    def _borrowed_file(self) -> DataFile:
        """The ``.log`` file, not kept open for this where it is not: whoever looks at an idle
        log leaves it idle.
        """
        return self._file or self._storage.open(self.path)

    def read_bytes(self, position: int, length: int) -> bytes:
        """Bytes of the file, unchecked."""
        return self.file.read(length, position)

    def distrust(self) -> None:
        """From now on every byte is checked again when it is first read."""
        self._trust.lose(self.size)

    def trust(self) -> None:
        """Every byte was written by this process just now."""
        self._trust.add(0, self.size)

    def save_indexes(self) -> None:
        """Brings the index files up to date; raises OSError."""
        self.offset_index.save()
        self.time_index.save()

    def sync(self, *, with_indexes: bool) -> None:
        """Returns when the log with its transaction index, and where asked the other indexes, are
        on the disk. Raises OSError.

        Never to be retried.
        """
        (self._file or self._storage.open(self.path)).sync()
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
                self._storage.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def forget(self) -> None:
        """Closes everything."""
        self._cache.forget(self)
        self._file = None
        for index in (self.offset_index, self.time_index, self.txn_index):
            self._cache.forget(index)
            index.release()

    def _open(self) -> DataFile:
        return self._adopt(self._storage.open(self.path))

    def _adopt(self, file: DataFile) -> DataFile:
        self._file = file
        self._cache.admit(self)
        return file
