"""Where one log begins, and what a crash cannot take back of that.

``log_start_offset`` rises in memory. DeleteRecords tells a client, and a follower tells its leader, that the records
below it are gone. Such code calls ``keep`` first, and names ``kept`` at most. Two things on a disk tell a start:

* the names of the segments: what lies below the first one is gone, once the folder has been synced after the renames
  (``synced``);
* the log dir's ``log-start-offset-checkpoint``, which therefore has every start that is beyond ``synced``.

A log that is between two log dirs (``move``) has a folder in each, and a start of the broker may take either. So both
dirs tell its start until the old folder has lost the name: ``leaving`` lists the old ones.

What survives a crash never falls, unless the log is truncated below it. Then the checkpoint file is written before the
truncation (``take_back``). Otherwise a start of the broker would throw away what was appended since, because it lies
below the old start.

Thread-safety: ``keep`` may be called from any thread, the others on the loop's; ``mark`` and ``synced_as_of`` by the
thread that syncs the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pybroker.log.dirs.log_dir import LogDir
from pybroker.topic_partition import TopicPartition


class Placed(Protocol):
    """The part of the log's files that is used here."""

    log_dir: LogDir
    topic_partition: TopicPartition


class Mark(NamedTuple):
    """What a sync of the folder makes durable that begins now."""

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
        """The segments below have lost their names; perhaps not durably."""
        self.synced = 0
        """They have, durably; a start cannot know, so at first nothing counts as synced."""
        self.kept = 0
        """Whatever happens, the log begins here or later."""
        self.leaving: tuple[LogDir, ...] = ()
        """Log dirs that the log has left, and in which a folder has its name as long as the move has not settled."""

    def keep(self, find_start: Callable[[], int]) -> None:
        """The log start that ``find_start`` gives survives a crash when this returns; blocks. It is asked for here,
        behind the number of truncations. Raises KafkaStorageError.
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
        """The log is about to be truncated to ``offset``, and begins there at the latest, which ``log_start_offset``
        says already. Raises KafkaStorageError.
        """
        for log_dir in self._dirs():
            log_dir.tell_log_start_at_most(self._placed.topic_partition, offset)

    def _dirs(self) -> list[LogDir]:
        return [self._placed.log_dir, *(log_dir for log_dir in self.leaving if not log_dir.offline)]

    def names_gone_below(self, offset: int) -> None:
        """No segment below ``offset`` has its name any more. To be said after the renames, and after the log has noted
        that its folder wants a sync.
        """
        self._named = offset

    def cut_to(self, offset: int) -> None:
        """The log is about to be truncated to ``offset``, or has just been."""
        with self._guard:
            self._cuts += 1
            self._named = min(self._named, offset)
            self.synced = min(self.synced, offset)
            self.kept = min(self.kept, offset)

    def mark(self) -> Mark:
        """To be taken before one looks whether the folder wants a sync."""
        with self._guard:
            return Mark(self._cuts, self._named)

    def synced_as_of(self, mark: Mark) -> None:
        """The folder has been synced since ``mark`` was taken, or wanted no sync then."""
        with self._guard:
            if mark.cuts == self._cuts:
                self.synced = max(self.synced, mark.named)
                if not self.leaving:
                    self.kept = max(self.kept, self.synced)

    def moved_from(self, log_dir: LogDir) -> None:
        """The log is in another folder now, of which nothing was synced. The checkpoint file there has its start."""
        self.synced = 0
        self.leaving = (*self.leaving, log_dir)

    def has_left(self, log_dir: LogDir) -> None:
        """No folder of the log's name is in ``log_dir`` any more."""
        self.leaving = tuple(other for other in self.leaving if other is not log_dir)
