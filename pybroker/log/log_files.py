"""The files of one log: syncing, closing, moving, deleting, and what a disk error means.

Here is what does not depend on what the records mean. Every use of the disk stands in ``failing``:
an OSError takes the log dir offline, unless only a descriptor was lacking, and becomes KafkaStorageError; broken
framing becomes CorruptMessage.

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
"""A log of this size takes no snapshot of its producers when it is closed."""


class LogFiles:
    """The folder of a log and everything in it."""

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
        """Of a log that was opened as it had been closed: the digest of its files (``closed_logs``), its end and its
        newest epoch then.
        """

    def __repr__(self) -> str:
        return f"Log({self.topic_partition})"

    @property
    def size(self) -> int:
        """Bytes of all segments, indexes not counted."""
        return sum(segment.size for segment in self.segments)

    def sync(self, find_end: Callable[[], int]) -> int:
        """Syncs what is below the offset that ``find_end`` gives; blocks. Returns the new recovery point.

        Raises KafkaStorageError.
        """
        with self.undisturbed():  # waiters of a failed sync must not try again
            self.log_dir.check_online()
            with self.failing("syncing"):
                return self.durability.sync(find_end)

    def save_lagging(self) -> None:
        """Brings index and epoch files up to date for their readers; blocks.

        Raises KafkaStorageError.
        """
        with self.undisturbed(), self.failing("writing indexes"):  # the log does not move before the dir is blamed
            self.durability.save_files((self.segments[-1],))

    @property
    def is_deleted(self) -> bool:
        """True where the files are gone, or are about to go."""
        return self.durability.deleted

    def write_topic_id(self, topic_id: bytes) -> None:
        """Writes ``partition.metadata``; the next sync makes it durable. Raises KafkaStorageError."""
        with self.failing("writing partition.metadata"):
            partition_metadata.write(self.log_dir.storage, self.folder, topic_id)
        self.durability.topic_id_synced = False
        self.durability.names_synced = False

    def replace_segments(self, old: list[Segment], new: CleanedSegment) -> bool:
        """Puts a compacted segment in the place of ``old``, those it was made from.

        False, and nothing done, where another thread is at the files: to be tried again. Readers
        that have a slice of an old segment keep its open file. Raises KafkaStorageError.
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
        """As ``undisturbed``, but gives False, and no promise, where another thread is at the files."""
        return self.durability.undisturbed_at_once()

    def doubt_copy(self, offset: int, original: LogDir) -> None:
        """The files are copies now, not synced from ``offset`` on: the next flush does that, names too. Those in
        ``original`` have the log's name too, until ``has_left``.
        """
        self.durability.doubted = offset
        self.durability.start.moved_from(original)
        self.durability.names_synced = False
        self.leader_epochs.dirty = True

    def has_left(self, original: LogDir) -> None:
        """No folder in the log dir ``original`` has the log's name any more."""
        self.durability.start.has_left(original)

    def undisturbed(self) -> contextlib.AbstractContextManager[None]:
        """No pool thread touches the files meanwhile; waits for one that does."""
        return self.durability.undisturbed()

    def doubt_topic_id(self, topic_id: bytes) -> None:
        """After an unclean stop: the topic id may never have been synced; the next flush does it."""
        self.durability.topic_id_synced = topic_id == partition_metadata.ZERO_ID

    def distrust(self) -> None:
        """Makes bytes that were read before be checked again on the next read."""
        for segment in self.segments:
            segment.distrust()

    def relocate(self, log_dir: LogDir, folder: str) -> None:
        """The files are in another place now."""
        self.log_dir = log_dir
        self.folder = folder
        self.producers.folder = folder
        self.found = None
        for segment in self.segments:
            segment.files.relocate(folder)

    def release(self) -> None:
        """Lets go of every open file."""
        for segment in self.segments:
            segment.files.release()

    def close(self, log_start_offset: int, log_end_offset: int) -> None:
        """Completes and syncs everything, so that the next start reads nothing.

        Raises KafkaStorageError.
        """
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
        """Whether the log has every record that it ever had, and a start reads them as quickly as a snapshot."""
        return log_start_offset == 0 and len(self.segments) == 1 and self.size <= SMALL_LOG_BYTES

    def remove(self, removed: Iterable[Segment]) -> None:
        """Takes the files of segments away. Raises OSError."""
        paths = [path for segment in removed for path in segment.files.delete()]
        self.log_dir.discard(paths)

    def forsake(self) -> None:
        """The log is about to be deleted: a sync that is under way ends with the file at which it is."""
        self.durability.deleted = True

    def abandon(self) -> None:
        """The files are not this object's any more: work in the background that comes late leaves them alone."""
        self.durability.deleted = True
        for segment in self.segments:
            segment.files.forget()

    @contextlib.contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Within, an OSError is a failure of the disk (``LogDir.fail``), and broken framing is damage."""
        try:
            yield
        except OSError as error:
            raise self.log_dir.fail(error, f"{doing} ({os.path.basename(self.folder)})") from error
        except MalformedBatch as error:
            raise errors.CorruptMessage(f"{self}: {error}") from error
