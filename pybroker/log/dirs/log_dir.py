"""One entry of ``log.dirs``: a folder with a folder per partition, on a disk that may fail.

Layout (Kafka's)::

    meta.properties  .kafka_cleanshutdown  .pybroker_closed_logs
    recovery-point-offset-checkpoint  replication-offset-checkpoint  log-start-offset-checkpoint
    cleaner-offset-checkpoint
    <topic>-<partition>/              a log
    <topic>-<partition>.<id>-delete/  a log that is being deleted
    <topic>-<partition>.<id>-future/  a log that is being moved here
    <topic>-<partition>.<id>-stray/   a log that belongs to no partition (``strays``)

``folder_states`` tells what a start does with each.

The first OSError takes a dir offline until the broker is restarted, and every later use of its logs raises
KafkaStorageError. To retry would be wrong: after a failed fsync the kernel may have dropped the pages. Only a lack of
file descriptors does not take a dir offline.

The clean-shutdown marker means that every log was closed after its last write. It is written when everything else of a
shutdown is on the disk. A start removes it before it loads anything, so a crash during recovery is an unclean stop.

Thread-safety: any thread may call ``fail`` and ``take_offline``; the listeners run on that thread.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from pybroker.log.dirs import closed_logs
from pybroker.log.dirs.closed_logs import ClosedLog
from pybroker.log.files import checkpoints
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.storage import OutOfDescriptors, Storage
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
UNKNOWN_EPOCH = -2
"""An epoch that no broker has."""

LACKS_TOLD_S = 1.0

logger = logging.getLogger(__name__)


class HeldLog(Protocol):
    """The part of a log that this module uses."""

    topic_partition: TopicPartition
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    clean_offset: int

    @property
    def recovery_point(self) -> int: ...

    @property
    def synced_start_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    def flush_sealed(self) -> int: ...

    def close(self) -> None: ...


class LogDir:
    """A log dir and the logs in it."""

    def __init__(self, storage: Storage, cache: FileCache, path: str, directory_id: str = "") -> None:
        self.storage = storage
        self.cache = cache
        self.path = path
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, HeldLog] = {}
        self.offline = False
        self.failure = ""
        """Why the dir is offline."""
        self.on_failure: Callable[[LogDir], None] = lambda log_dir: None
        self.on_roll: Callable[[HeldLog], None] = lambda log: None
        """Called when a log of the dir has a new active segment, so that the sealed ones can be synced."""
        self.discard: Callable[[list[str]], None] = self.unlink
        """Removes files that are no longer needed. The manager makes it do so on a pool thread."""
        self.names_synced = False
        """False if a log's folder is newer than the last ``sync_names``."""
        self.stale: set[TopicPartition] = set()
        """Partitions whose logs are no longer here, but may still be in the checkpoint files."""
        self.between_dirs: Callable[[], list[tuple[HeldLog, int]]] = list
        """Returns the logs that move from or to this dir, each with its recovery point here (``moving``)."""
        self._lack_told_at = -LACKS_TOLD_S
        self._lock = threading.Lock()
        """Held only for a moment, because ``fail`` is called on the event loop too."""
        self._checkpointing = threading.Lock()
        """Held while a checkpoint file is written, which may take long."""
        self._naming = threading.Lock()
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}

    def file(self, name: str) -> str:
        """Returns the path of a file or folder in the dir."""
        return f"{self.path}/{name}"

    # Failure

    def fail(self, error: OSError, doing: str) -> errors.KafkaStorageError:
        """Takes the dir offline because of ``error`` while ``doing``; returns the KafkaStorageError to raise.

        If only a file descriptor was lacking, the dir stays online, since files are opened before anything is changed.
        """
        if isinstance(error, OutOfDescriptors):
            self._tell_lack(error, doing)
        else:
            self.take_offline(error, doing)
        return errors.KafkaStorageError(f"log dir {self.path}: {doing}: {error}")

    @contextlib.contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Within ``with``, handles an OSError as a failure of the disk (``fail``). Raises KafkaStorageError."""
        try:
            yield
        except OSError as error:
            raise self.fail(error, doing) from error

    def take_offline(self, error: Exception, doing: str) -> None:
        """Takes the dir offline, whatever the ``error`` is; calls its listeners the first time."""
        with self._lock:
            first = not self.offline
            if first:
                self.failure = f"{doing}: {error}"
                self.offline = True
        if first:
            logger.error("log dir %s goes offline, %s: %s", self.path, doing, error)
            self.on_failure(self)

    def _tell_lack(self, error: OutOfDescriptors, doing: str) -> None:
        now = time.monotonic()
        if now >= self._lack_told_at + LACKS_TOLD_S:
            self._lack_told_at = now
            logger.error("out of file descriptors while %s: %s (raise the limit, see ulimit -n)", doing, error)

    def storage_error(self) -> errors.KafkaStorageError:
        """Returns the error to raise for every use while the dir is offline."""
        return errors.KafkaStorageError(f"log dir {self.path} is offline: {self.failure}")

    def check_online(self) -> None:
        """Raises KafkaStorageError if the dir is offline."""
        if self.offline:
            raise self.storage_error()

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Writes the recovery points. Raises KafkaStorageError."""
        self._checkpoint(
            checkpoints.RECOVERY_POINT,
            lambda: {tp: log.recovery_point for tp, log in list(self.logs.items())}
            | {log.topic_partition: min(log.recovery_point, there) for log, there in self.between_dirs()},
        )

    def checkpoint_high_watermarks(self) -> None:
        """Writes the high watermarks. Raises KafkaStorageError."""
        self._checkpoint(
            checkpoints.HIGH_WATERMARK,
            lambda: {tp: log.high_watermark for tp, log in self._told()},
        )

    def checkpoint_log_start_offsets(self) -> None:
        """Writes the log start offsets that the segments' names do not show durably. Raises KafkaStorageError."""
        self._checkpoint(checkpoints.LOG_START, self._log_starts)

    def tell_log_start(self, topic_partition: TopicPartition, offset: int) -> None:
        """Writes the log start offsets, unless the file already has ``offset`` or more for this log."""
        self._checkpoint(checkpoints.LOG_START, self._log_starts, lambda told: told.get(topic_partition, 0) >= offset)

    def tell_log_start_at_most(self, topic_partition: TopicPartition, offset: int) -> None:
        """Writes the log start offsets, unless the file has at most ``offset`` for this log."""
        self._checkpoint(checkpoints.LOG_START, self._log_starts, lambda told: told.get(topic_partition, 0) <= offset)

    def _log_starts(self) -> dict[TopicPartition, int]:
        here = {tp: log.log_start_offset for tp, log in list(self.logs.items()) if _must_be_told(log)}
        between = (log for log, _ in self.between_dirs() if log.log_start_offset > 0)
        return here | {log.topic_partition: log.log_start_offset for log in between}

    def checkpoint_clean_offsets(self) -> None:
        """Writes where the compacted part of each log ends. Raises KafkaStorageError."""
        self._checkpoint(
            checkpoints.CLEANER,
            lambda: {tp: log.clean_offset for tp, log in self._told() if log.clean_offset > 0},
        )

    def _told(self) -> list[tuple[TopicPartition, HeldLog]]:
        """Returns the logs that the checkpoint files must have: all logs here, and those that move from or to here."""
        return [*self.logs.items(), *((log.topic_partition, log) for log, _ in self.between_dirs())]

    def write_checkpoints(self) -> None:
        """Writes all four checkpoint files, so that they have no entries of logs that are no longer here.

        Otherwise a new log with the name of a deleted one could, after a crash, get the offsets of the deleted one.
        Raises KafkaStorageError.
        """
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()
        self.checkpoint_clean_offsets()
        self.stale.difference_update(self.logs)
        with self._checkpointing:  # so that the files do not change meanwhile
            told = self._checkpointed.values()
            self.stale.difference_update([tp for tp in self.stale.copy() if not any(tp in each for each in told)])

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """Returns the offsets in one of the checkpoint files. Raises OSError."""
        return checkpoints.read_offsets(self.storage, self.file(name))

    def _checkpoint(
        self,
        name: str,
        current: Callable[[], dict[TopicPartition, int]],
        is_enough: Callable[[dict[TopicPartition, int]], bool] = lambda told: False,
    ) -> None:
        """Writes a checkpoint file if its content has changed, so that an idle broker does not write to its disk.

        It also writes nothing if ``is_enough(content)`` returns True for the file's content. So if many callers wait
        for the lock, one of them writes for all. Offsets are read under the lock, so older ones never replace newer
        ones.
        """
        self.check_online()
        with self.failing(f"writing {name}"), self._checkpointing:
            told = self._checkpointed.get(name)
            if told is not None and is_enough(told):
                return
            offsets = current()
            if told != offsets:
                checkpoints.write_offsets(self.storage, self.file(name), offsets)
                self._checkpointed[name] = offsets

    # Clean shutdown

    def take_clean_shutdown(self) -> dict[str, ClosedLog] | None:
        """Returns the closed logs of a clean stop, by the names of their folders; None if the stop was not clean.

        Also removes the marker and the file of closed logs, durably. Raises OSError.
        """
        marker, closed = self.file(CLEAN_SHUTDOWN), self.file(closed_logs.FILE_NAME)
        if not self.storage.exists(marker):
            self.storage.unlink(closed)
            return None
        logs = closed_logs.read(self.storage, closed, self._closed_in(marker))
        self.storage.unlink(marker)
        self.storage.unlink(closed)
        self.storage.sync_folder(self.path)
        return logs

    def _closed_in(self, marker: str) -> int:
        """Returns the broker epoch of the clean stop. Raises OSError."""
        try:
            return int(json.loads(self.storage.read(marker))["brokerEpoch"])
        except (ValueError, TypeError, KeyError):
            return UNKNOWN_EPOCH

    def mark_clean_shutdown(self, logs: Mapping[str, ClosedLog], broker_epoch: int) -> None:
        """Writes the clean-shutdown marker, and the state of the closed logs. Raises OSError."""
        self.storage.replace(self.file(closed_logs.FILE_NAME), closed_logs.encode(logs, broker_epoch))
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
        self.storage.replace(self.file(CLEAN_SHUTDOWN), content.encode())

    # Housekeeping

    def sync_names(self) -> None:
        """Makes the names of new logs' folders durable, or waits for another thread that does.

        Raises KafkaStorageError.
        """
        with self._naming:
            self.check_online()
            if not self.names_synced:
                self.names_synced = True
                try:
                    with self.failing("syncing the names of logs"):
                        self.storage.sync_folder(self.path)
                except errors.KafkaStorageError:
                    self.names_synced = False
                    raise

    def rename(self, old: str, new: str) -> None:
        """Renames one of the dir's folders, durably. Raises OSError; if it lacks descriptors, it undoes the rename."""
        self.storage.rename(old, new)
        try:
            self.storage.sync_folder(self.path)
        except OutOfDescriptors:
            self.storage.rename(new, old)
            raise

    def unlink(self, paths: list[str]) -> None:
        """Removes files at once. Raises KafkaStorageError."""
        with self.failing("removing files"):
            for path in paths:
                self.storage.unlink(path)

    @property
    def size(self) -> int:
        """The bytes of all logs in the dir."""
        return sum(log.size for log in list(self.logs.values()))


def _must_be_told(log: HeldLog) -> bool:
    """Returns True if the checkpoint file needs an entry for the log start."""
    return log.log_start_offset > log.synced_start_offset
