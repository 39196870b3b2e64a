"""Folders that have lost their names, and whose files go in the background.

A deletion is done when the folder is durably named ``-delete``: from then on the log cannot be found, and its name is
free. The rest is work for the disk, which may take minutes for a large log, and no request waits for it. If a stop or
a crash interrupts a removal, the next start finishes it (``folder_states``).

A file that cannot be removed costs space and nothing else: the dir does not fail, and the removal is tried again
together with the next one.

Thread-safety: any thread may call anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Executor

from pybroker.log.dirs.folders import DELETE_SUFFIX, marked_name
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files.storage import Storage
from pybroker.log.log import Log
from pyclient.protocol import errors

logger = logging.getLogger(__name__)


class Removals:
    """The queue of folders to remove; ``executor`` runs the removals."""

    def __init__(self, storage: Storage, executor: Executor) -> None:
        self._storage = storage
        self._executor = executor
        self._left: dict[str, LogDir | None] = {}
        """Folders that could not be removed."""
        self._lock = threading.Lock()
        self._stopped = False

    def delete(self, log_dir: LogDir, logs: Iterable[Log]) -> None:
        """These logs of a dir lose their names, durably, by one sync for all; then their files go in the background.

        They are in ``log_dir.stale``, and not in its ``logs``. Blocks while another thread is at one of their files.
        Raises KafkaStorageError; where only descriptors were lacking the names are gone, and the sync is made up for.
        """
        logs = list(logs)
        for log in logs:
            log.files.forsake()
        folders = [self._take_name(log) for log in logs]
        log_dir.names_synced = False
        try:
            log_dir.sync_names()
        finally:
            for folder in folders:
                self.remove(folder, log_dir)

    def _take_name(self, log: Log) -> str:
        folder = log.log_dir.file(marked_name(log.topic_partition, DELETE_SUFFIX))
        with log.files.undisturbed():
            log.files.abandon()
            with log.log_dir.failing(f"renaming {log.folder}"):
                self._storage.rename(log.folder, folder)
            log.relocate(log.log_dir, folder)
        return folder

    def remove(self, folder: str, log_dir: LogDir | None = None) -> None:
        """Removes a folder, later; one that is not there is no error. ``log_dir``: where its name is perhaps not
        durable yet.
        """
        with self._lock:
            waiting, self._left = self._left | {folder: log_dir}, {}
            if self._stopped:
                return
        for each, its_dir in waiting.items():
            self._executor.submit(self._remove, each, its_dir)

    def stop(self) -> None:
        """Stops after the file that is being removed now."""
        self._stopped = True

    def _remove(self, folder: str, log_dir: LogDir | None) -> None:
        try:
            if not self._storage.exists(folder):
                return
            if log_dir is not None:
                log_dir.sync_names()
            for name in self._storage.files(folder):
                if self._stopped:
                    return
                self._storage.unlink(f"{folder}/{name}")
            self._storage.remove_folder(folder)
        except (OSError, errors.KafkaStorageError) as error:
            if self._stopped or (log_dir is not None and log_dir.offline):
                return
            logger.warning("%s is removed later: %s", folder, error)
            with self._lock:
                self._left[folder] = log_dir
