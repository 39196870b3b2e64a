"""The files of one log: syncs, closes, moves and deletes them, and handles disk errors.

Nothing here depends on what the records mean. Every use of the disk is within ``failing``: an OSError becomes
KafkaStorageError and takes the log dir offline, unless only a file descriptor was lacking. Broken framing becomes
CorruptMessage.

Thread-safety: loop's thread only, except ``sync``, which any pool thread may call at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.durability import Durability
from pybroker.log.files import partition_metadata
from pybroker.log.files.batches import MalformedBatch
from pybroker.log.files.leader_epochs import LeaderEpochs
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.segment.cleaned_segment import CleanedSegment
from pybroker.log.segment.segment import Segment
from pybroker.log.segment.segments import Segments
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

SMALL_LOG_BYTES = 4096
"""A log of at most this size is closed without a snapshot of its producers."""


class LogFiles:
    """The folder of a log, and all files in it."""

    __slots__ = (
        "durability",
        "folder",
        "found",
        "leader_epochs",
        "log_dir",
        "producers",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        log_dir: LogDir,
        folder: str,
        topic_partition: TopicPartition,
        segments: Segments,
        producers: ProducerStates,
        leader_epochs: LeaderEpochs,
        recovery_point: int,
    ) -> None:
        self.log_dir = log_dir
        self.folder = folder
        self.topic_partition = topic_partition
        self.segments = segments
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.durability = Durability(self, recovery_point)
        self.found: tuple[str, int, int] | None = None
        """Set if a clean stop closed the log: the digest of its files (``closed_logs``), its end and newest epoch."""

    def __repr__(self) -> str:
        return f"Log({self.topic_partition})"

    @property
    def size(self) -> int:
        """The bytes of all segments, without indexes."""
        return sum(segment.size for segment in self.segments)

    def sync(self, find_end: Callable[[], int]) -> int:
        """Syncs everything below the offset that ``find_end`` returns; blocks. Returns the new recovery point.

        Raises KafkaStorageError.
        """
        with self.undisturbed():  # waiters of a failed sync must not try again
            self.log_dir.check_online()
            with self.failing("syncing"):
                return self.durability.sync(find_end)

    def save_lagging(self) -> None:
        """Writes index and epoch files that have changed; blocks. Raises KafkaStorageError."""
        with self.undisturbed(), self.failing("writing indexes"):  # so that a failure takes the right dir offline
            self.durability.save_files((self.segments[-1],))

    @property
    def is_deleted(self) -> bool:
        """True if the files are deleted, or are about to be."""
        return self.durability.deleted

    def write_topic_id(self, topic_id: bytes) -> None:
        """Writes ``partition.metadata``; the next sync makes it durable. Raises KafkaStorageError."""
        with self.failing("writing partition.metadata"):
            partition_metadata.write(self.log_dir.storage, self.folder, topic_id)
        self.durability.topic_id_synced = False
        self.durability.names_synced = False

    def replace_segments(self, old: list[Segment], new: CleanedSegment) -> bool:
        """Replaces the ``old`` segments by the compacted one that was made from them.

        If another thread uses the files, changes nothing and returns False; the caller tries again. Readers that have a
        slice of an old segment keep its open file. Raises KafkaStorageError.
        """
        with self.durability.undisturbed_at_once() as free:
            if free:
                self._replace_segments(old, new)
        return free

    def _replace_segments(self, old: list[Segment], new: CleanedSegment) -> None:
        with self.failing("swapping in a compacted segment"):
            new.to_swap()
            removed = [path for segment in reversed(old) for path in segment.files.delete()]
            new.to_final()
            self.segments.replace(old, new.segment)
            self.durability.names_synced = False
            gone = {segment.base_offset for segment in old[1:]}
            self.producers.remove_snapshots(lambda offset: offset in gone)
        self.log_dir.discard(removed)

    def undisturbed_at_once(self) -> contextlib.AbstractContextManager[bool]:
        """Like ``undisturbed``, but does not wait: if another thread uses the files, yields False without the lock."""
        return self.durability.undisturbed_at_once()

    def doubt_copy(self, offset: int, original: LogDir) -> None:
        """Notes that the files are copies now, not synced from ``offset`` on. The next flush syncs files and names.

        Until ``has_left`` is called, a folder in the log dir ``original`` also has the log's name.
        """
        self.durability.doubted = offset
        self.durability.start.moved_from(original)
        self.durability.names_synced = False
        self.leader_epochs.dirty = True

    def has_left(self, original: LogDir) -> None:
        """Notes that no folder in the log dir ``original`` has the log's name any longer."""
        self.durability.start.has_left(original)

    def undisturbed(self) -> contextlib.AbstractContextManager[None]:
        """Within ``with``, no other thread writes or syncs the files. First waits for a thread that does."""
        return self.durability.undisturbed()

    def doubt_topic_id(self, topic_id: bytes) -> None:
        """Makes the next flush sync ``partition.metadata``, because an unclean stop may have prevented that."""
        self.durability.topic_id_synced = topic_id == partition_metadata.ZERO_ID

    def distrust(self) -> None:
        """Makes the next read check CRCs again, even of bytes that were checked before."""
        for segment in self.segments:
            segment.distrust()

    def relocate(self, log_dir: LogDir, folder: str) -> None:
        """Notes that the files are in another folder now."""
        self.log_dir = log_dir
        self.folder = folder
        self.producers.folder = folder
        self.found = None
        for segment in self.segments:
            segment.files.relocate(folder)

    def release(self) -> None:
        """Drops every open file."""
        for segment in self.segments:
            segment.files.release()

    def close(self, log_start_offset: int, log_end_offset: int) -> None:
        """Completes and syncs all files, so that the next start need not read them. Raises KafkaStorageError."""
        with self.failing("closing"):
            if log_end_offset > log_start_offset and not self._tells_its_producers(log_start_offset):
                self.producers.take_snapshot(log_end_offset)
            for segment in self.segments:
                segment.complete()
        self.sync(lambda: log_end_offset)
        with self.failing("closing"):
            self.durability.save_files()
            for segment in self.segments:
                segment.files.forget()
            self.release()

    def _tells_its_producers(self, log_start_offset: int) -> bool:
        """Returns True if the log has all its records, and is so small that a start reads it as fast as a snapshot."""
        return log_start_offset == 0 and len(self.segments) == 1 and self.size <= SMALL_LOG_BYTES

    def remove(self, removed: Iterable[Segment]) -> None:
        """Deletes the files of segments. Raises OSError."""
        paths = [path for segment in removed for path in segment.files.delete()]
        self.log_dir.discard(paths)

    def forsake(self) -> None:
        """Notes that the log is about to be deleted: a running sync stops after its current file."""
        self.durability.deleted = True

    def abandon(self) -> None:
        """Closes the files for good: late background work of this object will not touch them."""
        self.durability.deleted = True
        for segment in self.segments:
            segment.files.forget()

    @contextlib.contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Within ``with``, an OSError fails the log dir (``LogDir.fail``), a malformed batch raises CorruptMessage."""
        try:
            yield
        except OSError as error:
            raise self.log_dir.fail(error, f"{doing} ({os.path.basename(self.folder)})") from error
        except MalformedBatch as error:
            raise errors.CorruptMessage(f"{self}: {error}") from error
