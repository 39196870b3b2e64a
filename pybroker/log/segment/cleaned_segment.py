"""A segment that compaction writes, from its first byte to its place in the log.

Its files are named like those of the first segment that it replaces, and:

1. ``….log.cleaned`` and its indexes ``….index.cleaned`` … while they are written. A start removes
   them.
2. When all files and the folder are synced, each file is renamed to ``….swap``, the ``.log`` last. From that rename on
   the new segment counts: a start replaces all segments between its first and its last offset by it.
3. The old segments are removed, the newest first. Then the new files get their final names, the ``.log`` last. While
   there is a ``.log.swap``, a start does all of 3 again.

A crash may interrupt any of these steps. On a file system that keeps the order of renames in a folder, no sync is
needed between them. A cleaned segment always ends with the last batch of the last segment that it replaces, even if
that batch has no record left. Otherwise it would not show which offsets it covers, and a start in the middle of 3 would
bring superseded records back.

There is always a ``.txnindex.swap``, which shows that the old index has not been replaced yet. If it
is empty, it is removed instead of renamed.

Thread-safety: one pool thread writes; ``to_swap`` and ``to_final`` are called on the loop's thread.
"""

from __future__ import annotations

from cy.compaction.segment_indexer import SegmentIndexer
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.offset_index import OffsetIndex
from pybroker.log.files.storage import Bytes, Storage
from pybroker.log.files.time_index import TimeIndex
from pybroker.log.files.txn_index import TransactionIndex
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segment_files import SUFFIX

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
INDEX_SUFFIXES = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)


class CleanedSegment:
    """The future segment at ``base_offset`` in ``folder``. All methods raise OSError."""

    def __init__(
        self, storage: Storage, cache: FileCache, folder: str, base_offset: int, index_interval_bytes: int
    ) -> None:
        self._storage = storage
        self._cache = cache
        self._folder = folder
        self._stem = f"{folder}/{base_offset:020d}"
        self._base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._indexer = SegmentIndexer(base_offset, index_interval_bytes)
        self._file = storage.open(self._path(SUFFIX, CLEANED_SUFFIX), create=True)
        self._file.truncate(0)
        self._segment: Segment | None = None
        self._has_aborted = False

    @property
    def size(self) -> int:
        """How many bytes of log are written."""
        return self._indexer.size

    @property
    def segment(self) -> Segment:
        """The segment for the log, after ``finish``."""
        assert self._segment is not None
        return self._segment

    def write(self, batches: Bytes) -> None:
        """Adds whole batches. Raises cy.batch.CorruptBatch if they do not fit into a segment."""
        position = self._indexer.size
        self._indexer.add(batches)
        self._file.write(batches, position)

    def finish(self, aborted: bytes, modified_ms: int) -> None:
        """Writes the indexes and syncs everything, after all batches are written.

        ``aborted`` has the entries for the ``.txnindex``. ``modified_ms`` is the time of the newest original segment.
        """
        contents = (*self._indexer.finish(), aborted)
        self._has_aborted = bool(aborted)
        for suffix, content in zip(INDEX_SUFFIXES, contents, strict=True):
            path = self._path(suffix, CLEANED_SUFFIX)
            self._storage.write(path, content)
            self._storage.open(path).sync()
        self._file.sync()
        self._storage.set_modified_ms(self._file.path, modified_ms)
        self._storage.sync_folder(self._folder)
        self._segment = Segment(self._storage, self._cache, self._folder, self._base_offset, self.size, modified_ms)
        self._segment.index_interval_bytes = self._index_interval_bytes
        self._segment.trust.add(0, self._segment.size)

    def to_swap(self) -> None:
        """Renames the files to ``….swap``; after that the segment counts."""
        for suffix in (*INDEX_SUFFIXES, SUFFIX):
            self._storage.rename(self._path(suffix, CLEANED_SUFFIX), self._path(suffix, SWAP_SUFFIX))

    def to_final(self) -> None:
        """Gives the files their final names, when the old segments are removed. Opens no file."""
        finish_swap(self._storage, self._stem, self._has_aborted)

    def remove(self) -> None:
        """Removes the written files, unless they were swapped in."""
        for suffix in (SUFFIX, *INDEX_SUFFIXES):
            self._storage.unlink(self._path(suffix, CLEANED_SUFFIX))

    def _path(self, suffix: str, state: str) -> str:
        return f"{self._stem}{suffix}{state}"


def finish_swap(storage: Storage, stem: str, has_aborted: bool | None = None) -> None:
    """Gives the ``.swap`` files at ``stem`` (folder and 20 digits) their final names; may be repeated.

    ``has_aborted`` tells if the transaction index has entries; if it is None, the file shows it. Raises OSError.
    """
    aborted = f"{stem}{TransactionIndex.SUFFIX}"
    if has_aborted is None:
        has_aborted = not storage.exists(aborted + SWAP_SUFFIX) or bool(storage.read(aborted + SWAP_SUFFIX))
    if not has_aborted:
        storage.unlink(aborted)
        storage.unlink(aborted + SWAP_SUFFIX)
    for suffix in (*INDEX_SUFFIXES, SUFFIX):
        if storage.exists(stem + suffix + SWAP_SUFFIX):
            storage.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
