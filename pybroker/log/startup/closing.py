"""Closes the logs of a log dir at a clean stop.

Every log completes its indexes, takes a producer snapshot unless it is small, and is synced. Then the four checkpoint
files are written, then the file of closed logs, and last the clean-shutdown marker. Several threads sync logs at the
same time. A log that is synced already needs no thread.

Thread-safety: blocks; no other code may use the logs any longer.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

from pybroker.log.dirs.closed_logs import ClosedLog
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.log import Log
from pybroker.log.startup.reopening import describe

THREADS = 8


def close_logs(log_dir: LogDir, broker_epoch: int) -> None:
    """Closes all logs of a log dir, and marks its clean shutdown. Raises OSError, KafkaStorageError."""
    synced: list[Log] = []
    unsynced: list[Log] = []
    for log in log_dir.logs.values():
        assert isinstance(log, Log)
        (synced if log.is_synced else unsynced).append(log)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="log-closing") as pool:
        closed = list(pool.map(_close, unsynced))
    closed += map(_close, synced)
    log_dir.write_checkpoints()
    log_dir.mark_clean_shutdown({folder: log for folder, log in closed if log is not None}, broker_epoch)


def _close(log: Log) -> tuple[str, ClosedLog | None]:
    """Closes a log; returns the name of its folder and its state, None if the next start has to read its files."""
    log.close()
    closed = None
    with contextlib.suppress(OSError):  # then the next start reads its files
        closed = describe(log)
    return os.path.basename(log.folder), closed
