"""Manages all logs of a broker, over all its log dirs.

It opens the logs at the start, places a new log in the dir with the fewest logs, deletes logs, moves them between dirs,
and does the periodic work. It no longer uses a dir that has failed, but still knows the logs in it, so that their
partitions answer KAFKA_STORAGE_ERROR. If all dirs have failed, the broker has to stop: ``all_failed``.

A log that belongs to no partition is set aside as a *stray* (``strays``). A log whose configuration is not known yet
keeps all records.

Thread-safety: loop's thread. A pool thread may call the methods that say that they block.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial

from cy.counted import counted
from pybroker.clock import Clock
from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.folder_states import Start, folder_state
from pybroker.log.dirs.log_dir import HeldLog, LogDir
from pybroker.log.dirs.missing_directories import Directories
from pybroker.log.expiry import apply_retention
from pybroker.log.files import meta_properties
from pybroker.log.files.checkpoints import Checkpointed
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.storage import Storage
from pybroker.log.log import Log
from pybroker.log.moving import rivals
from pybroker.log.moving.move import Move
from pybroker.log.moving.running_moves import RunningMoves
from pybroker.log.removal import strays
from pybroker.log.removal.leaving import Leaving
from pybroker.log.removal.removals import Removals
from pybroker.log.removal.strays import Stray, Strays
from pybroker.log.segment.segments import REMOVED_PER_TURN
from pybroker.log.shared_configs import SharedConfigs
from pybroker.log.startup import recovery
from pybroker.log.startup.closing import close_logs
from pybroker.log.startup.opening import open_logs
from pybroker.pools import Inline, Pools
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

NOTHING_MISSING = Directories()

logger = logging.getLogger(__name__)


class NoLogDir(Exception):
    """Raised if none of the log dirs can be used."""


class LogManager:
    """The logs of one broker.

    Logs that are opened at the start have ``config`` without retention and compaction, until the configuration of their
    topic is known. ``pools`` run work that may take long; if it is None, such work runs on the caller's thread.
    """

    def __init__(
        self,
        log_dirs: Iterable[str],
        storage: Storage,
        config: LogConfig,
        clock: Clock,
        *,
        cluster_id: str,
        node_id: int,
        pools: Pools | None = None,
        recovery_threads_per_dir: int = 2,
        max_open_files: int | None = None,
        producer_expiration_ms: int = 86_400_000,
        directories: Directories = NOTHING_MISSING,
    ) -> None:
        self._storage = storage
        self._config = config
        self._clock = clock
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._pools = pools or Pools.one(Inline())
        self.removals = Removals(storage, self._pools.removals)
        self._threads = recovery_threads_per_dir
        self._producer_expiration_ms = producer_expiration_ms
        self._logs: dict[TopicPartition, Log] = {}
        self._moves = RunningMoves(self.removals)
        self._configs = SharedConfigs()
        self._strays = Strays(storage)
        self.leaving = Leaving(self.delete_all)
        """Logs of deleted topics whose folders are still to be deleted."""
        self.directories = directories
        self._failure_listeners: list[Callable[[LogDir], None]] = []
        self.cache = FileCache(max_open_files or _default_open_files())
        storage.make_room = self.cache.make_room
        self.dirs = [self._new_dir(path) for path in log_dirs]

    def _new_dir(self, path: str) -> LogDir:
        log_dir = LogDir(self._storage, self.cache, path)
        log_dir.on_failure = self._on_failure
        log_dir.on_roll = self._on_roll
        log_dir.between_dirs = partial(self._moves.checkpoint_entries, log_dir)
        log_dir.discard = lambda paths: _submit(self._pools.removals, partial(log_dir.unlink, paths))
        return log_dir

    # Looking up

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """Returns the log of a partition, None if this broker has none."""
        return self._logs.get(topic_partition)

    @property
    def online_dirs(self) -> list[LogDir]:
        """The dirs that have not failed."""
        return [log_dir for log_dir in self.dirs if not log_dir.offline]

    @property
    def offline_dirs(self) -> list[LogDir]:
        """The dirs that have failed."""
        return [log_dir for log_dir in self.dirs if log_dir.offline]

    @property
    def all_failed(self) -> bool:
        """True if every dir has failed, so that the broker must stop."""
        return not self.online_dirs

    def on_dir_failure(self, callback: Callable[[LogDir], None]) -> None:
        """Calls ``callback(dir)`` when a dir fails, on the thread that met the failure."""
        self._failure_listeners.append(callback)

    def _on_failure(self, log_dir: LogDir) -> None:
        for callback in self._failure_listeners:
            callback(log_dir)

    # Starting and stopping

    def load(self) -> None:
        """Claims the dirs and opens every log; blocks.

        Raises meta_properties.WrongOwner, NoLogDir.
        """
        for log_dir in self.dirs:
            try:
                self._check_is_not_mount_point(log_dir)
                self._make_dir(log_dir.path)
                owner = meta_properties.claim(self._storage, log_dir.path, self._cluster_id, self._node_id)
                log_dir.directory_id = owner.directory_id
                self._load_dir(log_dir)
            except (OSError, errors.KafkaStorageError) as error:
                log_dir.take_offline(error, "loading")  # even if only a descriptor was lacking: nothing loads it later
        if self.all_failed:
            raise NoLogDir("no log dir can be used: " + "; ".join(f"{d.path}: {d.failure}" for d in self.dirs))

    def _check_is_not_mount_point(self, log_dir: LogDir) -> None:
        if log_dir.path in self.directories.unused:
            raise OSError(errno.ENODEV, f"it is new, and another log dir is missing: {self.directories.advice}")

    def _make_dir(self, path: str) -> None:
        if not self._storage.exists(path):
            self._storage.make_folder(path)
            self._storage.sync_folder(os.path.dirname(os.path.abspath(path)))

    def _load_dir(self, log_dir: LogDir) -> None:
        closed = log_dir.take_clean_shutdown()
        was_clean = closed is not None
        self._remove_leftovers(log_dir)
        config = self._configs.one_for(self._config.keeping_everything())
        opened = open_logs(log_dir, config, self._threads, self._clock.now_ms(), closed)
        pairs = [self._adopt(log_dir, log) for log in opened.logs]
        log_dir.stale |= opened.checkpointed - log_dir.logs.keys()
        for pair in filter(None, pairs):
            _logged(partial(self._displace, *pair))
        if log_dir.stale or opened.returned or (log_dir.logs and not was_clean):
            log_dir.write_checkpoints()
        log_dir.unlink([f"{folder}/{strays.FILE_NAME}" for folder in opened.returned])
        self._strays.look_into(log_dir)
        stop = " after a clean stop" if was_clean else " after an unclean stop" if log_dir.logs else ""
        logger.info("%s opened in %s%s", counted(len(log_dir.logs), "log"), log_dir.path, stop)

    def _remove_leftovers(self, log_dir: LogDir) -> None:
        """Continues interrupted removals, and removes the copies of interrupted moves."""
        for name in self._storage.folders(log_dir.path):
            state = folder_state(name)
            if state is not None and state.start is Start.REMOVES:
                self.removals.remove(log_dir.file(name))

    def _adopt(self, log_dir: LogDir, log: Log) -> tuple[Log, Log] | None:
        """Adds an opened log, unless another log of that name has more records.

        If two logs have the name, returns the arguments of ``_displace``. Call that only when all logs of the dir are
        known: it writes the checkpoint files, and they would lose the entries of logs that are not known yet.
        """
        other = self._logs.get(log.topic_partition)
        if other is not None and not rivals.has_more(log, other):
            return log, other
        self._add(log_dir, log)
        if other is None:
            return None
        del other.log_dir.logs[log.topic_partition]
        return other, log

    def _add(self, log_dir: LogDir, log: Log) -> None:
        self._logs[log.topic_partition] = log
        log_dir.logs[log.topic_partition] = log

    def _displace(self, log: Log, winner: Log) -> None:
        """Durably renames ``log``, because ``winner`` has the same name and more records. Raises KafkaStorageError."""
        folder = log.folder
        log.log_dir.stale.add(log.topic_partition)
        if rivals.covers(winner, log):
            self.removals.delete(log.log_dir, [log])
        else:
            why = f"{winner.folder} has the same name and more records"
            self._strays.set_aside(log, self._clock.now_ms(), why)
        logger.error("%s and %s had the same name: the first was renamed to %s", folder, winner.folder, log.folder)

    def close(self, broker_epoch: int = -1) -> None:
        """Shuts down every working dir cleanly, in the given broker epoch; blocks."""
        self.removals.stop()
        self.leaving.delete_all()
        for move in self._moves.all():
            _logged(move.end)
        for log_dir in self.online_dirs:
            try:
                close_logs(log_dir, broker_epoch)
            except OSError as error:
                log_dir.fail(error, "closing")
            except errors.KafkaStorageError as error:
                logger.error("%s was not closed cleanly; the next start recovers its logs: %s", log_dir.path, error)

    # Making and deleting

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        log_dir: str | None = None,
    ) -> Log:
        """Returns the log of a partition. If there is none, takes back the topic's stray, or creates a new log.

        A new log is created in ``log_dir``, or in the dir with the fewest logs. Raises KafkaStorageError, and
        InconsistentTopicId if the log belongs to another topic of the same name.
        """
        log = self._logs.get(topic_partition)
        if topic_partition in self.leaving:
            self.leaving.delete_all()
        if log is None:
            log = self._take_back(topic_partition, topic_id, config)
        if log is None:
            chosen = self.dir_at(log_dir) if log_dir is not None else self._emptiest_dir()
            log = self._create(chosen, topic_partition, config)
            self._add(chosen, log)
        log.set_topic_id(topic_id)
        log.config = self._configs.one_for(config)
        return log

    def _create(self, log_dir: LogDir, topic_partition: TopicPartition, config: LogConfig) -> Log:
        log_dir.check_online()
        if topic_partition in log_dir.stale:
            log_dir.write_checkpoints()
        folder = log_dir.file(str(topic_partition))
        with log_dir.failing(f"making {folder}"):
            self._storage.make_folder(folder)
            log_dir.names_synced = False
        log = self._open(log_dir, topic_partition, folder, config, Checkpointed(), True)
        if log.log_end_offset > 0:
            raise errors.KafkaStorageError(f"{folder} already exists and has records; restart the broker to open it")
        return log

    def _open(
        self,
        log_dir: LogDir,
        topic_partition: TopicPartition,
        folder: str,
        config: LogConfig,
        checkpointed: Checkpointed,
        is_clean: bool,
    ) -> Log:
        config, now_ms = self._configs.one_for(config), self._clock.now_ms()
        return recovery.load(log_dir, topic_partition, folder, config, checkpointed, clean=is_clean, now_ms=now_ms)

    def _emptiest_dir(self) -> LogDir:
        online = self.online_dirs
        if not online:
            raise errors.KafkaStorageError("every log dir is offline")
        return min(online, key=lambda log_dir: len(log_dir.logs))

    def dir_at(self, path: str) -> LogDir:
        """Returns the online dir with that path. Raises LogDirNotFound, KafkaStorageError."""
        for log_dir in self.dirs:
            if log_dir.path == path:
                log_dir.check_online()
                return log_dir
        raise errors.LogDirNotFound(f"{path} is not in log.dirs")

    def take_out(self, topic_partitions: Iterable[TopicPartition]) -> list[Log]:
        """Takes these logs out of the tables and cancels their moves, for ``delete_all``, ``leaving`` or ``set_aside``.

        Loop's thread only, because retention and compaction check there whether a log still exists.
        """
        logs = [log for tp in topic_partitions if (log := self._logs.pop(tp, None)) is not None]
        for log in logs:
            self._moves.cancel(log)
            log.log_dir.logs.pop(log.topic_partition, None)
            log.log_dir.stale.add(log.topic_partition)
        return logs

    def _settle(self, log: Log) -> None:
        """Ends the moves of a log that was taken out; blocks."""
        for move in self._moves.of(log):
            _logged(move.end)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Takes one log out and deletes it, as ``delete_all`` does."""
        self.delete_all(self.take_out([topic_partition]))

    def delete_all(self, logs: Iterable[Log]) -> None:
        """Deletes logs that were taken out; blocks. When it returns, the deletion is durable and their names are free.

        The files are deleted in the background. The checkpoint files lose their entries later, but before another log
        gets such a name. If a dir fails meanwhile, it goes offline.
        """
        logs = list(logs)
        for log in logs:
            log.files.forsake()
            self._settle(log)
        for log_dir in self.online_dirs:
            here = [log for log in logs if log.log_dir is log_dir]
            if here:
                _logged(partial(self.removals.delete, log_dir, here))

    def may_remember(self, topic_partition: TopicPartition) -> bool:
        """Returns True if ``get_or_create`` is slow, because a deleted log may have the name or checkpoint entries."""
        return topic_partition in self.leaving or any(topic_partition in log_dir.stale for log_dir in self.online_dirs)

    def forget_deleted(self) -> None:
        """Deletes the logs that are ``leaving``, and removes all deleted ones from the checkpoint files; blocks."""
        self.leaving.delete_all()
        for log_dir in self.online_dirs:
            if log_dir.stale:
                _logged(log_dir.write_checkpoints)

    # Strays

    def is_stray(self, topic_partition: TopicPartition, topic_id: bytes) -> bool:
        """Returns True if ``get_or_create`` is slow, because the partition's log is a stray or is becoming one."""
        if topic_partition in self._logs:
            return False
        is_to_be = self._strays.waiting(topic_partition) is not None
        return is_to_be or self._strays.of(topic_partition, topic_id) is not None

    @property
    def strays(self) -> list[Stray]:
        """The strays in dirs that have not failed."""
        return self._strays.online()

    def has(self, topic_partition: TopicPartition, topic_id: bytes) -> bool:
        """Returns True if the partition's log exists, is a stray, or is becoming one."""
        waiting = self._strays.waiting(topic_partition)
        if topic_partition in self._logs or (waiting is not None and waiting.topic_id == topic_id):
            return True
        return self._strays.of(topic_partition, topic_id) is not None

    def set_aside(self, log: Log, why: str) -> Stray | None:
        """Turns a log that was taken out into a stray: closes and renames it; blocks.

        Returns None if its dir is offline. Raises KafkaStorageError.
        """
        self._settle(log)
        return self._strays.set_aside(log, self._clock.now_ms(), why)

    def _take_back(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig) -> Log | None:
        """Turns the stray of this topic's partition into its log again, if there is one. Raises KafkaStorageError."""
        self._strays.set_aside_waiting(self._clock.now_ms(), topic_partition)
        found = self._strays.of(topic_partition, topic_id)
        if found is None:
            return None
        if topic_partition in found.log_dir.stale:
            found.log_dir.write_checkpoints()
        note = found.note
        log = self._open(found.log_dir, topic_partition, found.folder, config, note.checkpointed, note.is_clean)
        log.relocate(found.log_dir, self._strays.take_back(found))
        self._add(found.log_dir, log)
        return log

    # Moving between dirs

    def move(self, topic_partition: TopicPartition, target: str) -> Move | None:
        """Begins to move a log to another dir (AlterReplicaLogDirs). The caller then drives the move: see ``Move``.

        Returns None if the log is already in that dir, or is being moved there. For a log that does not exist yet, pass
        the dir to ``get_or_create``. Raises LogDirNotFound, KafkaStorageError, ReplicaNotAvailable.
        """
        target_dir = self.dir_at(target)
        log = self._logs.get(topic_partition)
        if log is None:
            raise errors.ReplicaNotAvailable(f"this broker has no log of {topic_partition}")
        return self._moves.begin(log, target_dir)

    def moving_to(self, topic_partition: TopicPartition) -> Move | None:
        """Returns the newest move of this log that has not ended; None if there is none."""
        log = self._logs.get(topic_partition)
        return None if log is None else self._moves.newest(log)

    # Periodic work

    def retention_round(self, now_ms: int) -> Iterator[int]:
        """Applies retention to every log, removes expired producers, and makes later reads check CRCs again.

        Yields after each log, and several times if it loses many segments, so that the loop can serve others. It yields
        the number of segments that were deleted.
        """
        for log in self._online_logs():
            deleted = REMOVED_PER_TURN
            while deleted == REMOVED_PER_TURN and self.get(log.topic_partition) is log:
                deleted = self._retain(log, now_ms)
                yield deleted

    def _retain(self, log: Log, now_ms: int) -> int:
        deleted = 0
        try:
            deleted = apply_retention(log, now_ms)
        except (errors.KafkaStorageError, errors.CorruptMessage) as error:
            logger.error("retention cannot be applied to %s: %s", log.topic_partition, error)
        if deleted == REMOVED_PER_TURN:
            return deleted
        log.producers.remove_expired(now_ms, self._producer_expiration_ms)
        log.files.distrust()
        return deleted

    def flush_due(self, now_ms: int) -> None:
        """Syncs the logs that are due by ``flush.ms``; blocks."""
        for log in self._online_logs():
            if log.log_end_offset > log.recovery_point and now_ms - log.last_flush_ms >= log.config.flush_ms:
                log.last_flush_ms = now_ms
                _logged(log.flush)

    def checkpoint_recovery_points(self) -> None:
        """Writes ``recovery-point-offset-checkpoint`` of every dir, and changed index and epoch files; blocks.

        Also turns logs into strays that had to wait for file descriptors.
        """
        _logged(partial(self._strays.set_aside_waiting, self._clock.now_ms()))
        for log in self._online_logs():
            _logged(log.files.save_lagging)
        for log_dir in self.online_dirs:
            _logged(log_dir.checkpoint_recovery_points)

    def checkpoint_log_start_offsets(self) -> None:
        """Writes ``log-start-offset-checkpoint`` of every dir; blocks."""
        for log_dir in self.online_dirs:
            _logged(log_dir.checkpoint_log_start_offsets)

    def checkpoint_high_watermarks(self) -> None:
        """Writes ``replication-offset-checkpoint`` of every dir, and all files that still have deleted logs; blocks."""
        for log_dir in self.online_dirs:
            _logged(log_dir.write_checkpoints if log_dir.stale else log_dir.checkpoint_high_watermarks)

    def reconfigure(self, topic: str, config: LogConfig) -> None:
        """Gives all logs of a topic its new configuration."""
        config = self._configs.one_for(config)
        for log in self:
            if log.topic_partition.topic == topic:
                log.config = config

    def _online_logs(self) -> list[Log]:
        return [log for log in self if not log.log_dir.offline]

    def _on_roll(self, log: HeldLog) -> None:
        _submit(self._pools.upkeep, log.flush_sealed)


def _submit(executor: Executor, work: Callable[[], object]) -> None:
    executor.submit(_logged, work)


def _logged(work: Callable[[], object]) -> None:
    """Runs background work, and only logs KafkaStorageError: the failed dir has called its listeners already."""
    try:
        work()
    except errors.KafkaStorageError as error:
        logger.error("%s", error)


def _default_open_files() -> int:
    """Returns half of the process's limit of open files; the rest is for sockets."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, soft // 2) if soft != resource.RLIM_INFINITY else 16_384
