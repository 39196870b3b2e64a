"""Closes the logs of a log dir at a clean stop.

Every log completes its indexes, takes a producer snapshot unless it is small, and is synced. Then the four checkpoint
files are written, then what the next start may know of each log. The clean-shutdown marker comes last. Threads wait for
the disk together. A log that is synced already needs none.

Thread-safety: blocks; nobody else uses the logs any more.
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
    """Raises OSError, and KafkaStorageError."""
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
    """Gives the name of its folder, and what the next start may know of it."""
    log.close()
    closed = None
    with contextlib.suppress(OSError):  # the next start looks into its files then
        closed = describe(log)
    return os.path.basename(log.folder), closed
