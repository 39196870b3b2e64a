"""All logs of a broker, over all its log dirs.

Owns: which log lives in which dir (a new one goes where the fewest are), opening them at the
start, deleting them, moving them between dirs, the periodic work, and the order of a clean
shutdown. A dir that fails is left out from then on; its logs stay known, so that their partitions
answer KAFKA_STORAGE_ERROR. When every dir has failed the broker has to stop: ``all_failed``.

A clean shutdown: every log completes its indexes, takes a producer snapshot and syncs; then the
three checkpoints; then, last, the clean-shutdown marker.

Thread-safety: loop's thread, except where a method says that it may block: those may be given to a
pool thread.
"""

from __future__ import annotations

import logging
import os
import resource
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

from pybroker.clock import Clock
from pybroker.log import checkpoints, meta_properties, recovery
from pybroker.log.config import LogConfig
from pybroker.log.file_cache import FileCache
from pybroker.log.log import Log
from pybroker.log.log_dir import LogDir
from pybroker.log.move import Move
from pybroker.log.recovery import Checkpointed
from pybroker.log.storage import Storage
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
MAX_NAME = 255
CLOSING_THREADS = 8

logger = logging.getLogger(__name__)


class NoLogDir(Exception):
    """No log dir can be used."""


class LogManager:
    """The logs of one broker.

    ``config_for(topic)`` gives the configuration of a log that is opened at the start;
    ``executor`` runs what may take long (None: at once, on the caller's thread).
    """

    def __init__(
        self,
        log_dirs: Iterable[str],
        storage: Storage,
        config_for: Callable[[str], LogConfig],
        clock: Clock,
        *,
        cluster_id: str,
        node_id: int,
        executor: Executor | None = None,
        recovery_threads_per_dir: int = 2,
        max_open_files: int | None = None,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        self._storage = storage
        self._config_for = config_for
        self._clock = clock
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._executor = executor
        self._threads = recovery_threads_per_dir
        self._producer_expiration_ms = producer_expiration_ms
        self._logs: dict[TopicPartition, Log] = {}
        self._moves: dict[TopicPartition, Move] = {}
        self._configs: dict[LogConfig, LogConfig] = {}
        self._failure_listeners: list[Callable[[LogDir], None]] = []
        self.cache = FileCache(max_open_files or _default_open_files())
        self.dirs = [self._new_dir(path) for path in log_dirs]

    def _new_dir(self, path: str) -> LogDir:
        log_dir = LogDir(self._storage, self.cache, path)
        log_dir.on_failure = self._on_failure
        log_dir.on_roll = self._on_roll
        log_dir.discard = lambda paths: self._run(lambda: log_dir.unlink(paths))
        return log_dir

    # Looking up

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, None where this broker has none."""
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
        """True where no dir is left: the broker must stop."""
        return not self.online_dirs

    def on_dir_failure(self, callback: Callable[[LogDir], None]) -> None:
        """``callback(dir)`` when a dir fails, on the thread that noticed."""
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
                self._make_dir(log_dir.path)
                owner = meta_properties.claim(self._storage, log_dir.path, self._cluster_id, self._node_id)
                log_dir.directory_id = owner.directory_id
                self._load_dir(log_dir)
            except OSError as error:
                log_dir.fail(error, "loading")
            except errors.KafkaStorageError:
                continue
        if self.all_failed:
            raise NoLogDir("no log dir can be used: " + "; ".join(f"{d.path}: {d.failure}" for d in self.dirs))

    def _make_dir(self, path: str) -> None:
        if not self._storage.exists(path):
            self._storage.make_folder(path)
            self._storage.sync_folder(os.path.dirname(os.path.abspath(path)))

    def _load_dir(self, log_dir: LogDir) -> None:
        clean = log_dir.take_clean_shutdown()
        recovery_points = log_dir.read_checkpoint(checkpoints.RECOVERY_POINT)
        starts = log_dir.read_checkpoint(checkpoints.LOG_START)
        high_watermarks = log_dir.read_checkpoint(checkpoints.HIGH_WATERMARK)
        clean_offsets = log_dir.read_checkpoint(checkpoints.CLEANER)

        def load_one(folder: str) -> Log | None:
            tp = parse_folder(folder)
            if tp is None:
                return None
            checkpointed = Checkpointed(
                recovery_points.get(tp, 0), starts.get(tp, 0), high_watermarks.get(tp, 0), clean_offsets.get(tp, 0)
            )
            config = self._shared(self._config_for(tp.topic))
            path = log_dir.file(folder)
            return recovery.load(log_dir, tp, path, config, checkpointed, clean=clean, now_ms=self._clock.now_ms())

        self._remove_leftovers(log_dir)
        folders = self._storage.folders(log_dir.path)
        threads = 1 if clean else self._threads
        with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
            for log in pool.map(load_one, folders):
                if log is not None:
                    self._adopt(log_dir, log)
        checkpointed_logs = recovery_points.keys() | starts.keys() | high_watermarks.keys() | clean_offsets.keys()
        log_dir.stale = checkpointed_logs - log_dir.logs.keys()
        if log_dir.stale or (log_dir.logs and not clean):
            log_dir.write_checkpoints()
        logger.info(
            "%d logs opened in %s%s",
            len(log_dir.logs),
            log_dir.path,
            " after a clean stop" if clean else " after an unclean stop" if log_dir.logs else "",
        )

    def _remove_leftovers(self, log_dir: LogDir) -> None:
        """Deletions are finished, moves that were not finished are undone."""
        for folder in self._storage.folders(log_dir.path):
            if folder.endswith((DELETE_SUFFIX, FUTURE_SUFFIX)):
                self._storage.remove_folder(log_dir.file(folder))

    def _adopt(self, log_dir: LogDir, log: Log) -> None:
        other = self._logs.get(log.topic_partition)
        if other is not None:
            logger.error("%s is also in %s and is left alone there", log.topic_partition, log.folder)
            return
        self._logs[log.topic_partition] = log
        log_dir.logs[log.topic_partition] = log

    def close(self) -> None:
        """A clean shutdown of every dir that has not failed; blocks."""
        for move in list(self._moves.values()):
            move.cancel()
        for log_dir in self.online_dirs:
            try:
                with ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="log-closing") as pool:
                    for _ in pool.map(Log.close, log_dir.logs.values()):
                        pass
                log_dir.write_checkpoints()
                log_dir.mark_clean_shutdown()
            except OSError as error:
                log_dir.fail(error, "closing")
            except errors.KafkaStorageError as error:
                logger.error("no clean stop of %s: %s", log_dir.path, error)

    # Making and deleting

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        log_dir: str | None = None,
    ) -> Log:
        """The log of a partition, made if it is not there, in ``log_dir`` or else where the fewest
        logs are.

        Raises KafkaStorageError, and InconsistentTopicId where the log is that of another topic of
        the same name.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            chosen = self.dir_at(log_dir) if log_dir is not None else self._emptiest_dir()
            log = self._create(chosen, topic_partition, config)
            self._adopt(chosen, log)
        log.set_topic_id(topic_id)
        log.config = self._shared(config)
        return log

    def _create(self, log_dir: LogDir, topic_partition: TopicPartition, config: LogConfig) -> Log:
        log_dir.check_online()
        if topic_partition in log_dir.stale:
            log_dir.write_checkpoints()
        folder = log_dir.file(str(topic_partition))
        try:
            self._storage.make_folder(folder)
            log_dir.names_synced = False
        except OSError as error:
            raise log_dir.fail(error, f"making {folder}") from error
        config = self._shared(config)
        return recovery.load(
            log_dir,
            topic_partition,
            folder,
            config,
            Checkpointed(),
            clean=True,
            now_ms=self._clock.now_ms(),
        )

    def _emptiest_dir(self) -> LogDir:
        online = self.online_dirs
        if not online:
            raise errors.KafkaStorageError("every log dir is offline")
        return min(online, key=lambda log_dir: len(log_dir.logs))

    def dir_at(self, path: str) -> LogDir:
        """The online dir of that path; raises LogDirNotFound, KafkaStorageError."""
        for log_dir in self.dirs:
            if log_dir.path == path:
                log_dir.check_online()
                return log_dir
        raise errors.LogDirNotFound(f"{path} is not in log.dirs")

    def delete(self, topic_partition: TopicPartition) -> None:
        """Removes a log; its files are gone when this returns. Raises KafkaStorageError."""
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        move = self._moves.get(topic_partition)
        if move is not None:
            move.cancel()
        log_dir = log.log_dir
        log_dir.logs.pop(topic_partition, None)
        log_dir.stale.add(topic_partition)
        if log_dir.offline:
            return
        with log.undisturbed():
            self._delete_files(log, log_dir.file(_marked_name(topic_partition, DELETE_SUFFIX)))

    def forget_deleted(self) -> None:
        """Takes deleted logs out of the checkpoint files, once for all of them; blocks."""
        for log_dir in self.online_dirs:
            if log_dir.stale:
                _logged(log_dir.write_checkpoints)

    def _delete_files(self, log: Log, folder: str) -> None:
        """Renames the log's folder to ``folder``, which is quick and durable, then removes it."""
        try:
            self._storage.rename(log.folder, folder)
            self._storage.sync_folder(log.log_dir.path)
        except OSError as error:
            raise log.log_dir.fail(error, f"deleting {log.folder}") from error
        log.relocate(log.log_dir, folder)
        log.delete()

    # Moving between dirs

    def move(self, topic_partition: TopicPartition, target: str) -> Move | None:
        """Begins to move a log to another dir (AlterReplicaLogDirs).

        None where it is there, or being moved there, already. A log that does not exist yet is not
        moved: pass the dir to ``get_or_create``. Raises LogDirNotFound, KafkaStorageError,
        ReplicaNotAvailable. The caller then drives the move: see ``Move``.
        """
        target_dir = self.dir_at(target)
        log = self._logs.get(topic_partition)
        if log is None:
            raise errors.ReplicaNotAvailable(f"no log of {topic_partition} here")
        running = self._moves.get(topic_partition)
        if running is not None:
            if running.target is target_dir:
                return None
            running.cancel()
        if log.log_dir is target_dir:
            return None
        folder = target_dir.file(_marked_name(topic_partition, FUTURE_SUFFIX))
        move = self._moves[topic_partition] = Move(log, target_dir, folder, self._on_moved)
        return move

    def moving_to(self, topic_partition: TopicPartition) -> Move | None:
        """The move of this log that is going on."""
        return self._moves.get(topic_partition)

    def _on_moved(self, move: Move) -> None:
        self._moves.pop(move.log.topic_partition, None)

    # Periodic work

    def retention_round(self, now_ms: int) -> Iterator[int]:
        """Applies retention to every log, forgets expired producers, lets trust lapse.

        One step a log, so that others get their turn in between; each gives the number of segments that went.
        """
        for log in self._online_logs():
            if self.get(log.topic_partition) is log:
                yield self._retain(log, now_ms)

    def _retain(self, log: Log, now_ms: int) -> int:
        deleted = 0
        try:
            deleted = log.apply_retention(now_ms)
        except (errors.KafkaStorageError, errors.CorruptMessage) as error:
            logger.error("retention of %s: %s", log.topic_partition, error)
        log.producers.remove_expired(now_ms, self._producer_expiration_ms)
        log.distrust()
        return deleted

    def flush_due(self, now_ms: int) -> None:
        """Syncs the logs whose ``flush.ms`` is over; blocks."""
        for log in self._online_logs():
            if log.log_end_offset > log.recovery_point and now_ms - log.last_flush_ms >= log.config.flush_ms:
                log.last_flush_ms = now_ms
                _logged(log.flush)

    def checkpoint_recovery_points(self) -> None:
        """Writes ``recovery-point-offset-checkpoint`` of every dir, and index and epoch files
        that lag; blocks.
        """
        for log in self._online_logs():
            _logged(log.save_lagging_files)
        for log_dir in self.online_dirs:
            _logged(log_dir.checkpoint_recovery_points)

    def checkpoint_log_start_offsets(self) -> None:
        """Writes ``log-start-offset-checkpoint`` of every dir; blocks."""
        for log_dir in self.online_dirs:
            _logged(log_dir.checkpoint_log_start_offsets)

    def checkpoint_high_watermarks(self) -> None:
        """Writes ``replication-offset-checkpoint`` of every dir; blocks."""
        for log_dir in self.online_dirs:
            _logged(log_dir.checkpoint_high_watermarks)

    def reconfigure(self, topic: str, config: LogConfig) -> None:
        """The configuration of a topic has changed."""
        config = self._shared(config)
        for log in self:
            if log.topic_partition.topic == topic:
                log.config = config

    def _online_logs(self) -> list[Log]:
        return [log for log in self if not log.log_dir.offline]

    def _on_roll(self, log: Log) -> None:
        self._run(log.flush_sealed)

    def _run(self, work: Callable[[], object]) -> None:
        if self._executor is None:
            work()
        else:
            self._executor.submit(_logged, work)

    def _shared(self, config: LogConfig) -> LogConfig:
        """One object for equal configurations."""
        return self._configs.setdefault(config, config)


def parse_folder(name: str) -> TopicPartition | None:
    """The partition whose log a folder holds, None for folders that are not ours."""
    topic, dash, index = name.rpartition("-")
    if not dash or not topic or not index.isdecimal():
        return None
    return TopicPartition(topic, int(index))


def _marked_name(topic_partition: TopicPartition, suffix: str) -> str:
    """``<topic>-<partition>.<unique id>-delete``, the topic cut so that a file system takes the
    name (Kafka's way).
    """
    tail = f"-{topic_partition.partition}.{uuid.uuid4().hex}{suffix}"
    return topic_partition.topic[: MAX_NAME - len(tail)] + tail


def _logged(work: Callable[[], object]) -> None:
    """Runs background work: a dir that failed has told its listeners already."""
    try:
        work()
    except errors.KafkaStorageError as error:
        logger.error("%s", error)


def _default_open_files() -> int:
    """Half of what the process may open; the rest is for sockets."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, soft // 2) if soft != resource.RLIM_INFINITY else 16_384
