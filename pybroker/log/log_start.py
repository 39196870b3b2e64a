"""Keeps the start of one log durable, so that a crash does not bring deleted records back.

``log_start_offset`` rises in memory. DeleteRecords tells a client that the records below it are deleted, and a follower
tells its leader. Before they do, they call ``keep``, and they report at most ``kept``. On the disk, two things record a
log start:

* the names of the segments: everything below the first one is deleted, once the folder was synced after the renames
  (``synced``);
* the log dir's ``log-start-offset-checkpoint``, which therefore has every log start beyond ``synced``.

During a move (``move``), a log has a folder in each of two log dirs, and a start of the broker may use either. So both
dirs record its start until the old folder has been renamed: ``leaving`` lists the old dirs.

The durable start never falls, unless the log is truncated below it. Then the checkpoint file is written before the
truncation (``take_back``). Otherwise a start of the broker would drop later appends, because they are below the old log
start.

Thread-safety: ``keep`` may be called from any thread; ``mark`` and ``synced_as_of`` by the thread that syncs the log.
All other methods are called on the loop's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pybroker.log.dirs.log_dir import LogDir
from pybroker.topic_partition import TopicPartition


class Placed(Protocol):
    """The part of the log's files that this module uses."""

    log_dir: LogDir
    topic_partition: TopicPartition


class Mark(NamedTuple):
    """The state that a sync of the folder makes durable if it begins now."""

    cuts: int
    named: int


class LogStart:
    """The durable start of one log."""

    __slots__ = ("_cuts", "_guard", "_named", "_placed", "kept", "leaving", "synced")

    def __init__(self, placed: Placed, first_segment_offset: int) -> None:
        self._placed = placed
        self._guard = threading.Lock()
        self._cuts = 0
        self._named = first_segment_offset
        """The segments below this offset were renamed for deletion, perhaps not durably."""
        self.synced = 0
        """The offset up to which these renames are durable; 0 at first, because a start cannot know which are.
        """
        self.kept = 0
        """The log start that survives a crash."""
        self.leaving: tuple[LogDir, ...] = ()
        """Log dirs that the log has left, but in which a folder still has its name until the move has settled."""

    def keep(self, find_start: Callable[[], int]) -> None:
        """Makes the log start that ``find_start`` returns durable; blocks. Raises KafkaStorageError.

        ``find_start`` is called after the number of truncations was read, so that a later truncation is noticed.
        """
        with self._guard:
            cuts, start = self._cuts, find_start()
        if start <= self.kept:
            return
        for log_dir in self._dirs():
            log_dir.tell_log_start(self._placed.topic_partition, start)
        with self._guard:
            if cuts == self._cuts:
                self.kept = max(self.kept, start)

    def take_back(self, offset: int) -> None:
        """Lowers the durable log start to ``offset``, before a truncation to it. Raises KafkaStorageError.

        ``log_start_offset`` must already be at most ``offset``.
        """
        for log_dir in self._dirs():
            log_dir.tell_log_start_at_most(self._placed.topic_partition, offset)

    def _dirs(self) -> list[LogDir]:
        return [self._placed.log_dir, *(log_dir for log_dir in self.leaving if not log_dir.offline)]

    def names_gone_below(self, offset: int) -> None:
        """Notes that the segments below ``offset`` were renamed for deletion.

        Call it after the renames, and after the log has noted that its folder needs a sync.
        """
        self._named = offset

    def cut_to(self, offset: int) -> None:
        """Lowers all starts to ``offset``, before and after a truncation to it."""
        with self._guard:
            self._cuts += 1
            self._named = min(self._named, offset)
            self.synced = min(self.synced, offset)
            self.kept = min(self.kept, offset)

    def mark(self) -> Mark:
        """Returns a mark for ``synced_as_of``. Take it before checking whether the folder needs a sync."""
        with self._guard:
            return Mark(self._cuts, self._named)

    def synced_as_of(self, mark: Mark) -> None:
        """Notes that the folder was synced after ``mark`` was taken, or needed no sync then."""
        with self._guard:
            if mark.cuts == self._cuts:
                self.synced = max(self.synced, mark.named)
                if not self.leaving:
                    self.kept = max(self.kept, self.synced)

    def moved_from(self, log_dir: LogDir) -> None:
        """Notes that the log has moved from ``log_dir``. Only the new dir's checkpoint file has its start so far."""
        self.synced = 0
        self.leaving = (*self.leaving, log_dir)

    def has_left(self, log_dir: LogDir) -> None:
        """Notes that no folder in ``log_dir`` has the log's name any longer."""
        self.leaving = tuple(other for other in self.leaving if other is not log_dir)
