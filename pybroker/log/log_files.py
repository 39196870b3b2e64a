"""The files of one log: syncing, closing, moving, deleting, and what a disk error means.

Here is what does not depend on what the records mean; ``Log`` goes on from it. Every use of the
disk stands in ``_failing``: an OSError takes the log dir offline and becomes KafkaStorageError,
broken framing becomes CorruptMessage. What may be tried again as if it had not been begun stands in
``_refusing``: a lack of descriptors fails no dir there.

Thread-safety: loop's thread only, except ``flush`` and ``flush_sealed``, which any pool thread may
call at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from pybroker.log.batches import MalformedBatch
from pybroker.log.cleaned_segment import CleanedSegment
from pybroker.log.durability import Durability
from pybroker.log.leader_epochs import LeaderEpochs
from pybroker.log.log_dir import LogDir
from pybroker.log.producer_state import ProducerStates
from pybroker.log.segment import Segment
from pybroker.log.segments import Segments
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class LogFiles:
    """The folder of a log and everything in it."""

    __slots__ = (
        "_active",
        "_durability",
        "clean_offset",
        "folder",
        "leader_epochs",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
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
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.log_dir = log_dir
        self.folder = folder
        self.topic_partition = topic_partition
        self.segments = segments
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.clean_offset = 0
        """Compacted up to here (``cleaner-offset-checkpoint``)."""
        self._active = segments[-1]
        self._durability = Durability(self, recovery_point)

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}…{self.log_end_offset})"

    @property
    def recovery_point(self) -> int:
        """Everything below is on the disk."""
        return self._durability.recovery_point

    @property
    def truncations(self) -> int:
        """How often the log has been cut; what was read before a cut may no longer hold."""
        return self._durability.truncations

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self.segments[0].base_offset

    @property
    def active_segment(self) -> Segment:
        """The segment that grows."""
        return self._active

    @property
    def size(self) -> int:
        """Bytes of all segments, indexes not counted."""
        return sum(segment.size for segment in self.segments)

    def flush(self) -> int:
        """Syncs the whole log; blocks. Returns the new recovery point.

        Raises KafkaStorageError.
        """
        return self._sync(lambda: self.log_end_offset)

    def flush_sealed(self) -> int:
        """Syncs all segments but the active one; blocks."""
        return self._sync(lambda: self._active.base_offset)

    def _sync(self, find_end: Callable[[], int]) -> int:
        with self.undisturbed():  # whoever waited for a sync that failed must not try again
            self.log_dir.check_online()
            with self._refusing("syncing"):
                return self._durability.sync(find_end)

    def save_lagging_files(self) -> None:
        """Brings index and epoch files up to date, for whoever reads them; blocks.

        Raises KafkaStorageError.
        """
        with self.undisturbed(), self._refusing("writing indexes"):  # the log does not move before the dir is blamed
            self._durability.save_files((self._active,))

    @property
    def is_deleted(self) -> bool:
        """True where the files are gone, or are about to go."""
        return self._durability.deleted

    def replace_segments(self, old: list[Segment], new: CleanedSegment) -> bool:
        """Puts a compacted segment in the place of ``old``, those it was made from.

        False, and nothing done, where another thread is at the files: to be tried again. Readers
        that have a slice of an old segment keep its open file. Raises KafkaStorageError.
        """
        with self._durability.undisturbed_at_once() as free:
            if free:
                self._replace_segments(old, new)
        return free

    def _replace_segments(self, old: list[Segment], new: CleanedSegment) -> None:
        with self._failing("swapping in a compacted segment"):
            new.to_swap()
            removed = [path for segment in reversed(old) for path in segment.delete()]
            new.to_final()
            self.segments.replace(old, new.segment)
            self._durability.names_synced = False
            gone = {segment.base_offset for segment in old[1:]}
            self.producers.remove_snapshots(lambda offset: offset in gone)
        self.log_dir.discard(removed)

    def undisturbed_at_once(self) -> contextlib.AbstractContextManager[bool]:
        """As ``undisturbed``, but gives False, and no promise, where another thread is at the files."""
        return self._durability.undisturbed_at_once()

    def doubt_copy(self, offset: int) -> None:
        """The files are copies now, not synced from ``offset`` on: the next flush does that, names too."""
        self._durability.doubted = offset
        self._durability.names_synced = False
        self.leader_epochs.dirty = True

    def undisturbed(self) -> contextlib.AbstractContextManager[None]:
        """No pool thread touches the files meanwhile; waits for one that does."""
        return self._durability.undisturbed()

    def distrust(self) -> None:
        """What has been read before is checked again when it is read next."""
        for segment in self.segments:
            segment.distrust()

    def relocate(self, log_dir: LogDir, folder: str) -> None:
        """The files are in another place now."""
        self.log_dir = log_dir
        self.folder = folder
        self.producers.folder = folder
        for segment in self.segments:
            segment.relocate(folder)

    def release(self) -> None:
        """Lets go of every open file."""
        for segment in self.segments:
            segment.release()

    def close(self) -> None:
        """Completes and syncs everything, so that the next start reads nothing.

        Raises KafkaStorageError.
        """
        with self._refusing("closing"):
            if self.log_end_offset > self.log_start_offset:
                self.producers.take_snapshot(self.log_end_offset)
            for segment in self.segments:
                segment.close()
        self.flush()
        with self._refusing("closing"):
            self._durability.save_files()
            self.release()

    def forsake(self) -> None:
        """The log is about to be deleted: a sync that is under way ends with the file at which it is."""
        self._durability.deleted = True

    def abandon(self) -> None:
        """The files are not this object's any more: work in the background that comes late leaves them alone."""
        self._durability.deleted = True
        for segment in self.segments:
            segment.forget()


    @contextlib.contextmanager
    def _refusing(self, doing: str) -> Iterator[None]:
        """As ``_failing``, of what may be tried again (``LogDir.refuse``)."""
        try:
            yield
        except OSError as error:
            raise self.log_dir.refuse(error, f"{doing} ({os.path.basename(self.folder)})") from error
        except MalformedBatch as error:
            raise errors.CorruptMessage(f"{self}: {error}") from error

    @contextlib.contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.log_dir.fail(error, f"{doing} ({os.path.basename(self.folder)})") from error
        except MalformedBatch as error:
            raise errors.CorruptMessage(f"{self}: {error}") from error
