"""Moves a log to another log dir while it is in use (AlterReplicaLogDirs, KIP-113), in three steps.

1. ``copy``, on a pool thread, copies into ``<topic>-<partition>.<id>-future`` in the target dir, and syncs the copy.
   Appends continue meanwhile. The caller repeats ``copy`` until ``switch`` succeeds.
2. ``switch``, on the loop's thread, copies the few bytes that are still missing and gives the copy the log's name. The
   log continues there. ``switch`` syncs nothing.
3. ``settle``, on a pool thread, syncs what ``switch`` has changed. Only then it renames the old folder and deletes it.

What a crash leaves, and what the next start uses:

| crash | folders | the start uses |
|---|---|---|
| before 2 | the log, and the ``-future`` copy | the log; it removes the copy |
| between 2 and the end of 3 | both have the name | the one with more records (``rivals``) |
| after 3 | the log in the target dir | that |

Invariants:

- Until step 3 has synced the copy, the old folder stays. It has the unsynced records that a power cut takes from the
  copy. A flush of the log before step 3 syncs the copy first (``Durability.doubted``).
- The folder with more records has all records that were reported as durable. If the old folder cannot be renamed
  because its disk has failed, it loses by the same rule when the disk is back.
- Each dir whose folder a start may use has the log in its checkpoint files, so that a crash brings no deleted records
  back. The target has it from step 1 on, until step 3 with the recovery point of the copy. The old dir has it until the
  old folder is renamed.
- A truncation makes the copy start again, on the pool. ``switch`` returns False while there is more to copy than the
  loop has time for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from pybroker.log.dirs.folders import DELETE_SUFFIX, marked_name
from pybroker.log.dirs.log_dir import HeldLog, LogDir
from pybroker.log.log import Log
from pybroker.log.moving.log_copy import Cancelled, LogCopy
from pybroker.log.removal.removals import Removals
from pyclient.protocol import errors


class Old(NamedTuple):
    """The place from which a log has moved."""

    log_dir: LogDir
    folder: str
    recovery_point: int


class Move:
    """A move in progress. It calls ``on_end(move)`` when nothing is left to do."""

    def __init__(
        self,
        log: Log,
        target: LogDir,
        folder: str,
        on_end: Callable[[Move], None],
        removals: Removals,
    ) -> None:
        self.log = log
        self.target = target
        self.folder = folder
        """The ``-future`` folder that the log moves to."""
        self.cancelled = False
        self.has_switched = False
        """True if the log is in the target dir, perhaps not durably."""
        self._on_end = on_end
        self._removals = removals
        self._copy = LogCopy(log, target.storage, folder, lambda: self.cancelled)
        self._checkpointed_start = -1
        """The log start offset in the target's checkpoint files."""
        self._checkpointed_end: int | None = None
        """The offset up to which the copy is synced. It is None if the target's checkpoint files need not have it."""
        self._old: Old | None = None
        """The log's place before the switch, until that folder is renamed; else None."""
        self._is_copying = False
        self._settling = threading.Lock()

    @property
    def copied_bytes(self) -> int:
        """How many bytes have been copied to the target dir so far."""
        return self._copy.copied_bytes

    @property
    def lag_bytes(self) -> int:
        """How many bytes are still to be copied."""
        return max(0, self.log.size - self.copied_bytes)

    def checkpoint_entries(self, log_dir: LogDir) -> list[tuple[HeldLog, int]]:
        """Returns the entries that the dir's checkpoint files need because of this move (``LogDir.between_dirs``)."""
        old, end = self._old, self._checkpointed_end
        if log_dir is self.target:
            return [] if end is None else [(self.log, end)]
        return [(self.log, old.recovery_point)] if old is not None and log_dir is old.log_dir else []

    def copy(self) -> None:
        """Copies the bytes appended since the last call, durably; blocks. Raises KafkaStorageError."""
        self._is_copying = True
        try:
            if not self.cancelled:
                self.log.log_dir.check_online()
                self._copy.update()
                self._checkpoint_copy()
        except Cancelled:
            return
        except OSError as error:
            raise self.target.fail(error, f"copying {self.log.folder}") from error
        finally:
            self._is_copying = False
            if self.cancelled:
                self._removals.remove(self.folder)

    def _checkpoint_copy(self) -> None:
        """Writes the copy into the target's checkpoint files."""
        start = self.log.log_start_offset
        self._checkpointed_end = self._copy.synced_end
        self.target.write_checkpoints()
        self._checkpointed_start = start

    def switch(self) -> bool:
        """Switches the log to the target dir, on the loop's thread.

        Returns False if too much is left to copy, or if another thread uses the files: call ``copy`` again. Raises
        KafkaStorageError; the log then stays where it was.
        """
        with self.log.files.undisturbed_at_once() as free:
            if not free or self.cancelled or self._checkpointed_start != self.log.log_start_offset:
                return False
            return self._switch()

    def _switch(self) -> bool:
        """Completes the copy, and gives it the log's name. Returns False if too much is left to copy."""
        log, storage = self.log, self.target.storage
        name = self.target.file(str(log.topic_partition))
        log.log_dir.check_online()
        self.target.check_online()
        if storage.exists(name):
            raise errors.KafkaStorageError(f"{name} already exists")
        with self.target.failing(f"moving {log.folder}"):
            if not self._copy.complete():
                return False
            storage.rename(self.folder, name)
        self._relocate(name)
        return True

    def _relocate(self, name: str) -> None:
        """Lets the log continue in the copy, which has the log's name now."""
        log, original = self.log, self.log.log_dir
        self._old = Old(original, log.folder, log.recovery_point)
        self.has_switched = True
        del original.logs[log.topic_partition]
        log.files.release()
        log.relocate(self.target, name)
        log.files.doubt_copy(self._copy.synced_end, original)
        self.target.names_synced = False
        self.target.logs[log.topic_partition] = log

    def settle(self) -> None:
        """Makes the switch durable, then deletes the old folder; blocks.

        If the log is being deleted, it deletes the old folder in any case. Raises KafkaStorageError; it may be called
        again after that.
        """
        with self._settling:
            if self._old is None:
                return
            self._flush()
            self._checkpointed_end = None
            if not self.log.files.is_deleted:
                self.target.write_checkpoints()
            old_dir, folder, _ = self._old
            self._drop_old(old_dir, folder)
            self.log.files.has_left(old_dir)
            self._end_entries(old_dir)
            self._old = None

    def _flush(self) -> None:
        """Syncs the log, unless it is being deleted."""
        try:
            self.log.flush()
        except errors.KafkaStorageError:
            if not self.log.files.is_deleted:
                raise

    def _drop_old(self, old_dir: LogDir, folder: str) -> None:
        """Durably renames the old folder and deletes it, unless its disk has failed."""
        if old_dir.offline:
            return
        dropped = old_dir.file(marked_name(self.log.topic_partition, DELETE_SUFFIX))
        try:
            with old_dir.failing(f"renaming {folder}"):
                old_dir.rename(folder, dropped)
        except errors.KafkaStorageError:
            if not old_dir.offline:
                raise
            return
        self._removals.remove(dropped)

    def _end_entries(self, log_dir: LogDir) -> None:
        """Ends the move's entries in the dir's checkpoint files. They are gone before a log of this name is created."""
        log_dir.stale.add(self.log.topic_partition)
        self._on_end(self)

    def cancel(self) -> None:
        """Abandons the move and removes the copy, unless the log has switched."""
        if self.has_switched or self.cancelled:
            return
        self.cancelled = True
        self._end_entries(self.target)
        if not self._is_copying:
            self._removals.remove(self.folder)

    def end(self) -> None:
        """Settles the move if the log has switched, else cancels it; blocks. Raises KafkaStorageError."""
        if self.has_switched:
            self.settle()
        else:
            self.cancel()
