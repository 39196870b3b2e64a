"""Opens the logs of a log dir when a broker starts.

The four checkpoint files are read first, and ``recovery`` gets the entries of each log. The files are not written
before every log is open, because each is written as a whole and would lose the entries of logs that are not open.

Thread-safety: blocks; no other code knows the logs yet.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pybroker.config.log_config import LogConfig
from pybroker.log.dirs.closed_logs import ClosedLog
from pybroker.log.dirs.folder_states import Start, file_state
from pybroker.log.dirs.folders import parse_folder
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files import checkpoints, partition_metadata
from pybroker.log.files.checkpoints import Checkpointed
from pybroker.log.files.storage import Storage
from pybroker.log.log import Log
from pybroker.log.removal import strays
from pybroker.log.startup import recovery
from pybroker.log.startup.reopening import reopen
from pybroker.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class Opened(NamedTuple):
    """The contents of a log dir."""

    logs: list[Log]
    checkpointed: set[TopicPartition]
    """All logs in the checkpoint files, whether or not they exist."""
    returned: list[str]
    """The folders of logs that were strays, and whose offsets are only in ``stray.json`` so far."""


class Checkpoints(NamedTuple):
    """The entries of a log dir's four checkpoint files."""

    recovery_points: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    clean_offsets: Mapping[TopicPartition, int]

    @classmethod
    def read(cls, log_dir: LogDir) -> Checkpoints:
        """Reads the files. Raises OSError, KafkaStorageError."""
        names = (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.HIGH_WATERMARK, checkpoints.CLEANER)
        return cls(*map(log_dir.read_checkpoint, names))

    def of(self, topic_partition: TopicPartition) -> Checkpointed:
        """Returns the checkpointed offsets of one log, 0 where it has none."""
        return Checkpointed(*(entries.get(topic_partition, 0) for entries in self))


def open_logs(
    log_dir: LogDir, config: LogConfig, threads: int, now_ms: int, closed: Mapping[str, ClosedLog] | None
) -> Opened:
    """Opens every log in ``log_dir``; after an unclean stop, on ``threads`` threads.

    ``closed`` has the state of the logs after a clean stop, and is None after an unclean one. Raises OSError,
    KafkaStorageError.
    """
    was_clean = closed is not None
    entries = Checkpoints.read(log_dir)
    known = {topic_partition for each in entries for topic_partition in each}
    returned: list[str] = []

    def open_one(folder: str) -> Log | None:
        tp = parse_folder(folder)
        if tp is None:
            return None
        checkpointed = entries.of(tp)
        path = log_dir.file(folder)
        stamps = log_dir.storage.stamps(path)
        if tp not in known and not _is_log(log_dir.storage, path, stamps):
            logger.warning("%s is named like a log but has no files of a log, and is ignored", path)
            return None
        note = strays.read_note(log_dir.storage, path) if strays.FILE_NAME in stamps else None
        if note is not None:
            returned.append(path)
            checkpointed = strays.merged(checkpointed, note)
        if closed is not None and folder in closed:
            log = reopen(log_dir, tp, path, config, checkpointed, closed[folder], stamps, now_ms)
            if log is not None:
                return log
        sizes = {name: size for name, (size, _) in stamps.items()}
        return recovery.load(
            log_dir, tp, path, config, checkpointed, clean=was_clean, now_ms=now_ms, sizes=sizes
        )

    folders = log_dir.storage.folders(log_dir.path)
    with _mapping(1 if was_clean else threads) as over:
        logs = [log for log in over(open_one, folders) if log is not None]
    return Opened(logs, known, returned)


@contextlib.contextmanager
def _mapping(threads: int) -> Iterator[Callable[..., Iterable[Log | None]]]:
    """Yields a ``map`` function that runs on ``threads`` threads; for 1, on the caller's thread."""
    if threads == 1:
        yield map
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
        yield pool.map


def _is_log(storage: Storage, folder: str, files: Mapping[str, object]) -> bool:
    """Returns True if a folder with these files is a log's: it has a log's file, or is empty like a new log's."""
    if partition_metadata.FILE_NAME in files:
        return True
    if not files and not storage.folders(folder):
        return True
    return any(state is not None and state.start is not Start.REMOVES for state in map(file_state, files))
