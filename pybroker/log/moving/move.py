"""Moves a log to another log dir while it is in use (AlterReplicaLogDirs, KIP-113), in three steps.

1. ``copy``, on a pool thread, copies into ``<topic>-<partition>.<id>-future`` in the target dir and syncs what it has
   copied; appends go on. The target's checkpoint files know the log from then on, so that a crash brings no deleted
   records back. It is called until ``switch`` says yes.
2. ``switch``, on the loop's thread, copies the little that is still missing, gives the copy the log's name, and lets
   the log go on there. It syncs nothing: a power cut may take from the copy what was not synced, then the old folder
   has it. A flush of the log before the next step syncs the copy first (``Durability.doubted``), and the target's
   checkpoint keeps the recovery point where the copy was synced up to. The old dir's checkpoint files know the log
   until the old folder has lost its name: it may be the one that a start takes.
3. ``settle``, on a pool thread, syncs what ``switch`` has done. Only then the old folder loses its name, and goes.

A crash before 2 leaves the old log, and the copy, which is no log, goes. A crash between 2 and the end of 3 leaves both
under one name. ``rivals`` chooses the one that has more: a record that was reported as durable is found there. An old
folder that cannot be renamed, as its disk has failed, loses in the same way when it is back.

A truncation makes the copy start again, on the pool. ``switch`` refuses as long as there is more to do than the loop
has time for.
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
    """A move in progress; ``on_end(move)`` is called when nothing of it is left to do."""

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
        """The ``-future`` folder."""
        self.cancelled = False
        self.has_switched = False
        """The log is in the target dir; perhaps not durably."""
        self._on_end = on_end
        self._removals = removals
        self._copy = LogCopy(log, target.storage, folder, lambda: self.cancelled)
        self._start_told = -1
        """The log start offset that the target's checkpoint files have."""
        self._told_end: int | None = None
        """Up to where the copy was synced, as long as the target's checkpoint files are to tell that."""
        self._old: Old | None = None
        """Where the log was before the switch, as long as that folder has its name."""
        self._is_copying = False
        self._settling = threading.Lock()

    @property
    def copied_bytes(self) -> int:
        """Bytes in the target dir so far."""
        return self._copy.copied_bytes

    @property
    def lag_bytes(self) -> int:
        """Bytes that are not there yet."""
        return max(0, self.log.size - self.copied_bytes)

    def told_in(self, log_dir: LogDir) -> list[tuple[HeldLog, int]]:
        """What the checkpoint files there say of the log for this move's sake: see ``LogDir.between_dirs``."""
        old, told_end = self._old, self._told_end
        if log_dir is self.target:
            return [] if told_end is None else [(self.log, told_end)]
        return [(self.log, old.recovery_point)] if old is not None and log_dir is old.log_dir else []

    def copy(self) -> None:
        """Copies what has been appended since the last call, durably; blocks. Raises KafkaStorageError."""
        self._is_copying = True
        try:
            if not self.cancelled:
                self.log.log_dir.check_online()
                self._copy.update()
                self._tell_target()
        except Cancelled:
            return
        except OSError as error:
            raise self.target.fail(error, f"copying {self.log.folder}") from error
        finally:
            self._is_copying = False
            if self.cancelled:
                self._removals.remove(self.folder)

    def _tell_target(self) -> None:
        start = self.log.log_start_offset
        self._told_end = self._copy.synced_end
        self.target.write_checkpoints()
        self._start_told = start

    def switch(self) -> bool:
        """The log goes on in the target dir; on the loop's thread. False where there is too much to do, or another
        thread is at the files: ``copy`` again.

        Raises KafkaStorageError, after which the log is where it was.
        """
        with self.log.files.undisturbed_at_once() as free:
            if not free or self.cancelled or self._start_told != self.log.log_start_offset:
                return False
            return self._switch()

    def _switch(self) -> bool:
        log, storage = self.log, self.target.storage
        name = self.target.file(str(log.topic_partition))
        log.log_dir.check_online()
        self.target.check_online()
        if storage.exists(name):
            raise errors.KafkaStorageError(f"{name} is there already")
        with self.target.failing(f"moving {log.folder}"):
            if not self._copy.complete():
                return False
            storage.rename(self.folder, name)
        tp, original = log.topic_partition, log.log_dir
        self._old = Old(original, log.folder, log.recovery_point)
        self.has_switched = True
        del original.logs[tp]
        log.files.release()
        log.relocate(self.target, name)
        log.files.doubt_copy(self._copy.synced_end, original)
        self.target.names_synced = False
        self.target.logs[tp] = log
        return True

    def settle(self) -> None:
        """Makes the switch durable, then the old folder goes; blocks.

        Of a log that is being deleted the old folder goes, whatever has become of the new one. Raises
        KafkaStorageError, after which it may be called again.
        """
        with self._settling:
            if self._old is None:
                return
            self._flush()
            self._told_end = None
            if not self.log.files.is_deleted:
                self.target.write_checkpoints()
            old_dir, folder, _ = self._old
            self._drop_old(old_dir, folder)
            self.log.files.has_left(old_dir)
            self._leave_files_of(old_dir)
            self._old = None

    def _flush(self) -> None:
        try:
            self.log.flush()
        except errors.KafkaStorageError:
            if not self.log.files.is_deleted:
                raise

    def _drop_old(self, old_dir: LogDir, folder: str) -> None:
        """The old folder loses its name, durably; then its files may go. Where its disk has failed it keeps it."""
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

    def _leave_files_of(self, log_dir: LogDir) -> None:
        """The checkpoint files there tell nothing for this move's sake any more. A log of this name that is made there
        has them written first.
        """
        log_dir.stale.add(self.log.topic_partition)
        self._on_end(self)

    def cancel(self) -> None:
        """Gives up, where the log has not switched; the copy is removed."""
        if self.has_switched or self.cancelled:
            return
        self.cancelled = True
        self._leave_files_of(self.target)
        if not self._is_copying:
            self._removals.remove(self.folder)

    def end(self) -> None:
        """Settles where the log has switched, cancels elsewhere; blocks. Raises KafkaStorageError."""
        if self.has_switched:
            self.settle()
        else:
            self.cancel()
