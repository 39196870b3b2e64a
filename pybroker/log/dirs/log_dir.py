"""One entry of ``log.dirs``: a folder with a folder per partition, and a disk under it that may
fail.

Layout (Kafka's)::

    meta.properties  .kafka_cleanshutdown  .pybroker_closed_logs
    recovery-point-offset-checkpoint  replication-offset-checkpoint  log-start-offset-checkpoint
    cleaner-offset-checkpoint
    <topic>-<partition>/              a log
    <topic>-<partition>.<id>-delete/  one that is being deleted
    <topic>-<partition>.<id>-future/  one that is being moved here
    <topic>-<partition>.<id>-stray/   one that belongs to no partition (``strays``)

What a start does with each is in ``folder_states``.

A dir *fails* once, for good: the first OSError takes it offline, every later use of its logs
raises KafkaStorageError, and it stays so until the broker is started again. Retrying would be
wrong: after a failed fsync the kernel may have dropped the pages. A lack of descriptors fails no dir.

The clean-shutdown marker says that every log was closed after its last write. It is removed before
anything is loaded, so that a crash during recovery is again an unclean stop, and written when
everything else of a shutdown is on the disk.

Thread-safety: ``fail`` and ``take_offline`` may be called from any thread; its listeners run on that thread.
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
"""No broker has it."""

LACKS_TOLD_S = 1.0

logger = logging.getLogger(__name__)


class HeldLog(Protocol):
    """The part of a log in a dir that is used here."""

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
        """A log of the dir has a new active segment.

        The sealed ones may be synced in the background.
        """
        self.discard: Callable[[list[str]], None] = self.unlink
        """Removes files that are no longer needed; the manager does it on a pool thread."""
        self.names_synced = False
        """False where a log's folder is newer than the last ``sync_names``."""
        self.stale: set[TopicPartition] = set()
        """Logs that are not here any more and may still stand in the checkpoint files."""
        self.between_dirs: Callable[[], list[tuple[HeldLog, int]]] = list
        """Logs of which another dir has a folder too, and up to where the one that is here is on the disk (``moving``).
        """
        self._lack_told_at = -LACKS_TOLD_S
        self._lock = threading.Lock()
        """Held for a moment: ``fail`` is called on the event loop too."""
        self._checkpointing = threading.Lock()
        """Held while a file is written, which takes as long as the disk likes."""
        self._naming = threading.Lock()
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}

    def file(self, name: str) -> str:
        """Path of a file or folder in the dir."""
        return f"{self.path}/{name}"

    # Failure

    def fail(self, error: OSError, doing: str) -> errors.KafkaStorageError:
        """The disk has failed while ``doing``: takes the dir offline and returns the error to raise.

        Where a descriptor was lacking the dir stays as it is: what needs one takes it before it changes anything.
        """
        if isinstance(error, OutOfDescriptors):
            self._tell_lack(error, doing)
        else:
            self.take_offline(error, doing)
        return errors.KafkaStorageError(f"log dir {self.path}: {doing}: {error}")

    @contextlib.contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Within, an OSError is a failure of the disk (``fail``)."""
        try:
            yield
        except OSError as error:
            raise self.fail(error, doing) from error

    def take_offline(self, error: Exception, doing: str) -> None:
        """The dir has failed, whatever the ``error`` is; its listeners hear of the first one."""
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
            logger.error("out of file descriptors, %s: %s (raise the limit, see ulimit -n)", doing, error)

    def storage_error(self) -> errors.KafkaStorageError:
        """The error of every use while the dir is offline."""
        return errors.KafkaStorageError(f"log dir {self.path} is offline: {self.failure}")

    def check_online(self) -> None:
        """Raises KafkaStorageError where the dir is offline."""
        if self.offline:
            raise self.storage_error()

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Writes where each log is synced up to; raises KafkaStorageError."""
        self._checkpoint(
            checkpoints.RECOVERY_POINT,
            lambda: {tp: log.recovery_point for tp, log in list(self.logs.items())}
            | {log.topic_partition: min(log.recovery_point, there) for log, there in self.between_dirs()},
        )

    def checkpoint_high_watermarks(self) -> None:
        """Writes the high watermarks; raises KafkaStorageError."""
        self._checkpoint(
            checkpoints.HIGH_WATERMARK,
            lambda: {tp: log.high_watermark for tp, log in self._told()},
        )

    def checkpoint_log_start_offsets(self) -> None:
        """Writes the log start offsets that the names of segments do not tell durably; raises KafkaStorageError."""
        self._checkpoint(checkpoints.LOG_START, self._log_starts)

    def tell_log_start(self, topic_partition: TopicPartition, offset: int) -> None:
        """As ``checkpoint_log_start_offsets``, unless the file says of this log already that it begins at ``offset`` or
        later.
        """
        self._checkpoint(checkpoints.LOG_START, self._log_starts, lambda told: told.get(topic_partition, 0) >= offset)

    def tell_log_start_at_most(self, topic_partition: TopicPartition, offset: int) -> None:
        """As ``checkpoint_log_start_offsets``, unless the file says of this log no more than ``offset``."""
        self._checkpoint(checkpoints.LOG_START, self._log_starts, lambda told: told.get(topic_partition, 0) <= offset)

    def _log_starts(self) -> dict[TopicPartition, int]:
        here = {tp: log.log_start_offset for tp, log in list(self.logs.items()) if _must_be_told(log)}
        between = (log for log, _ in self.between_dirs() if log.log_start_offset > 0)
        return here | {log.topic_partition: log.log_start_offset for log in between}

    def checkpoint_clean_offsets(self) -> None:
        """Writes where the compacted part of each log ends; raises KafkaStorageError."""
        self._checkpoint(
            checkpoints.CLEANER,
            lambda: {tp: log.clean_offset for tp, log in self._told() if log.clean_offset > 0},
        )

    def _told(self) -> list[tuple[TopicPartition, HeldLog]]:
        """The logs of which the checkpoint files speak: those that are here, those that arrive, those that leave."""
        return [*self.logs.items(), *((log.topic_partition, log) for log, _ in self.between_dirs())]

    def write_checkpoints(self) -> None:
        """Writes all four, so that they speak of no log that is not here.

        Else a log that is made under the name of a deleted one would, after a crash, begin where
        that one did. Raises KafkaStorageError.
        """
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()
        self.checkpoint_clean_offsets()
        self.stale.difference_update(self.logs)
        with self._checkpointing:  # meanwhile the files say what they say
            told = self._checkpointed.values()
            self.stale.difference_update([tp for tp in self.stale.copy() if not any(tp in each for each in told)])

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """The offsets in one of the checkpoint files; raises OSError."""
        return checkpoints.read_offsets(self.storage, self.file(name))

    def _checkpoint(
        self,
        name: str,
        current: Callable[[], dict[TopicPartition, int]],
        is_enough: Callable[[dict[TopicPartition, int]], bool] = lambda told: False,
    ) -> None:
        """Writes the file unless it says so already: an idle broker leaves its disk alone. Nor does it where what the
        file says ``is_enough``: of many who want one thing each, one writes for all.

        Offsets are taken under the lock: older ones never replace newer ones.
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
        """What is known of the logs after a clean stop, by the names of their folders; None if the stop was not clean.
        The marker, and what is known, is gone durably when this returns.

        Raises OSError.
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
        """The broker epoch of the clean stop; raises OSError."""
        try:
            return int(json.loads(self.storage.read(marker))["brokerEpoch"])
        except (ValueError, TypeError, KeyError):
            return UNKNOWN_EPOCH

    def mark_clean_shutdown(self, logs: Mapping[str, ClosedLog], broker_epoch: int) -> None:
        """Says that everything is closed, and of these logs how; raises OSError."""
        self.storage.replace(self.file(closed_logs.FILE_NAME), closed_logs.encode(logs, broker_epoch))
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
        self.storage.replace(self.file(CLEAN_SHUTDOWN), content.encode())

    # Housekeeping

    def sync_names(self) -> None:
        """Makes the names of new logs' folders durable, or waits for the thread that does so.

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
        """Gives one of the dir's folders another name, durably; raises OSError. Without descriptors it has its old name
        again.
        """
        self.storage.rename(old, new)
        try:
            self.storage.sync_folder(self.path)
        except OutOfDescriptors:
            self.storage.rename(new, old)
            raise

    def unlink(self, paths: list[str]) -> None:
        """Removes files at once; raises KafkaStorageError."""
        with self.failing("removing files"):
            for path in paths:
                self.storage.unlink(path)

    @property
    def size(self) -> int:
        """Bytes of all logs in the dir."""
        return sum(log.size for log in list(self.logs.values()))


def _must_be_told(log: HeldLog) -> bool:
    """Whether the checkpoint file has to say where the log begins."""
    return log.log_start_offset > log.synced_start_offset
