"""What the three index files of a segment share: fixed-size entries, appended in order, which can be rebuilt.

The active segment's entries are in memory and are written to the file in groups. The entries of older segments are
mapped from the page cache when they are first needed, and dropped with the segment's other open files
(``file_cache``). An index is never trusted: the batch header at an entry's position shows whether the entry is right. A
missing or malformed file is rebuilt from the log.

Thread-safety: loop's thread only, except ``save``.
"""

from __future__ import annotations

import contextlib
import mmap
import threading

from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.storage import OutOfDescriptors, Storage

SAVE_EVERY_ENTRIES = 64

# The loop's thread and the periodic work may both find entries to save.
_saving = threading.Lock()


class IndexFile:
    """Entries of ``ENTRY_SIZE`` bytes in the file ``<folder>/<base offset, 20
    digits><SUFFIX>``.
    """

    ENTRY_SIZE = 0
    SUFFIX = ""

    __slots__ = (
        "__weakref__",
        "_cache",
        "_entries",
        "_saved",
        "_storage",
        "base_offset",
        "folder",
        "recently_used",
        "suffix",
    )

    def __init__(self, storage: Storage, cache: FileCache, folder: str, base_offset: int) -> None:
        self._storage = storage
        self._cache = cache
        self.folder = folder
        self.base_offset = base_offset
        self.suffix = self.SUFFIX
        self.recently_used = False
        self._entries: bytearray | mmap.mmap | bytes | None = None
        self._saved = 0

    @property
    def path(self) -> str:
        """The file's path."""
        return f"{self.folder}/{self.base_offset:020d}{self.suffix}"

    def __len__(self) -> int:
        """Returns the number of entries."""
        return len(self.entries) // self.ENTRY_SIZE

    @property
    def entries(self) -> bytearray | mmap.mmap | bytes:
        """Returns the bytes of all entries."""
        entries = self._entries
        return self._load() if entries is None else entries

    def start_empty(self) -> None:
        """Starts without entries; the next ``save`` overwrites the file."""
        self._entries = bytearray()
        self._saved = -1

    def append(self, entry: bytes) -> None:
        """Adds one packed entry."""
        entries = self._entries
        if type(entries) is not bytearray:
            entries = self._make_writable()
        entries += entry
        if len(entries) - self._saved >= SAVE_EVERY_ENTRIES * self.ENTRY_SIZE:
            self.save_if_possible()

    def hold(self) -> None:
        """Reads the entries into memory, so that changes need no file descriptor. Raises OSError."""
        if type(self._entries) is not bytearray:
            self._make_writable()

    def truncate(self, count: int) -> None:
        """Keeps the first ``count`` entries."""
        entries = self._make_writable()
        if len(entries) > count * self.ENTRY_SIZE:
            del entries[count * self.ENTRY_SIZE :]
            self._saved = -1
            self.save_if_possible()

    def save_if_possible(self) -> None:
        """Saves, but leaves the file as it is if no file descriptor is left. Raises OSError."""
        with contextlib.suppress(OutOfDescriptors):
            self.save()

    def save(self, *, sync: bool = False) -> None:
        """Writes the entries that the file lacks. Raises OSError."""
        with _saving:
            self._save()
        if sync and self._storage.exists(self.path):
            self._storage.open(self.path).sync()

    def _save(self) -> None:
        entries = self._entries
        if type(entries) is bytearray and self._saved != len(entries):
            file = self._storage.open(self.path, create=True)
            if self._saved < 0:
                file.truncate(0)
            start = max(self._saved, 0)
            pending = bytes(entries[start:])
            file.write(pending, start)
            self._saved = start + len(pending)

    def release(self) -> None:
        """Drops the mapping, or the entries in memory if the file has them all."""
        if type(self._entries) is not bytearray or self._saved == len(self._entries):
            self._entries = None

    def abandon(self) -> None:
        """Drops the entries of a removed segment, so that a running sync does not write into its successor's file."""
        with _saving:
            self._entries = None

    def delete(self) -> None:
        """Removes the file."""
        self._cache.forget(self)
        self._entries = None
        self._storage.unlink(self.path)

    def _load(self) -> mmap.mmap | bytes:
        try:
            entries = self._storage.map(self.path)
        except FileNotFoundError:
            entries = b""
        self._entries = entries
        if isinstance(entries, mmap.mmap):
            self._cache.admit(self)
        return entries

    def _make_writable(self) -> bytearray:
        entries = self.entries
        if not isinstance(entries, bytearray):
            self._cache.forget(self)  # first, because an eviction would drop the changes
            whole = len(entries) - len(entries) % self.ENTRY_SIZE
            self._saved = whole if whole == len(entries) else -1
            self._entries = entries = bytearray(entries[:whole])
        return entries
