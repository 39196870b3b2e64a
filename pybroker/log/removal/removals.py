"""Deletes the folders of logs: renames them at once, and removes their files in the background.

A deletion is done when the folder is durably named ``-delete``: from then on the log cannot be found, and its name is
free. To remove the files of a large log may take minutes, and no request waits for that. If a stop or a crash
interrupts it, the next start finishes it (``folder_states``).

A file that cannot be removed only takes space: the dir stays online, and the next removal tries again.

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
    """Removes folders on threads of ``executor``."""

    def __init__(self, storage: Storage, executor: Executor) -> None:
        self._storage = storage
        self._executor = executor
        self._left: dict[str, LogDir | None] = {}
        """Folders that could not be removed."""
        self._lock = threading.Lock()
        self._stopped = False

    def delete(self, log_dir: LogDir, logs: Iterable[Log]) -> None:
        """Durably renames the folders of these logs, with one sync for all, and removes the files in the background.

        The logs must be in ``log_dir.stale``, and not in its ``logs``. Blocks while another thread uses one of their
        files. Raises KafkaStorageError. If only file descriptors were lacking, the folders are renamed, and synced
        later.
        """
        logs = list(logs)
        for log in logs:
            log.files.forsake()
        folders = [self._take_name(log) for log in logs]
        log_dir.names_synced = False
        try:
            log_dir.sync_names()
        finally:
            self._submit(dict.fromkeys(folders, log_dir))

    def _take_name(self, log: Log) -> str:
        folder = log.log_dir.file(marked_name(log.topic_partition, DELETE_SUFFIX))
        with log.files.undisturbed():
            log.files.abandon()
            with log.log_dir.failing(f"renaming {log.folder}"):
                self._storage.rename(log.folder, folder)
            log.relocate(log.log_dir, folder)
        return folder

    def remove(self, folder: str, log_dir: LogDir | None = None) -> None:
        """Removes a folder in the background; a missing one is no error.

        ``log_dir`` is the folder's log dir if the folder's name may not be durable yet.
        """
        self._submit({folder: log_dir})

    def _submit(self, folders: dict[str, LogDir | None]) -> None:
        with self._lock:
            waiting, self._left = self._left | folders, {}
            if self._stopped:
                return
        self._executor.submit(self._remove_all, waiting)

    def _remove_all(self, folders: dict[str, LogDir | None]) -> None:
        for folder, log_dir in folders.items():
            self._remove(folder, log_dir)

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
            logger.warning("%s cannot be removed now, and is removed later: %s", folder, error)
            with self._lock:
                self._left[folder] = log_dir
