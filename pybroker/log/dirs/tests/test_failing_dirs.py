"""A failing log dir does not delay the event loop, even if its disk hangs."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.storage import Storage

PATIENCE_S = 30.0


class HangingStorage(Storage):
    """``replace`` takes until ``gate`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gate = threading.Event(), threading.Event()

    def replace(self, path: str, data: bytes) -> None:
        self.begun.set()
        assert self.gate.wait(PATIENCE_S)
        super().replace(path, data)


def test_a_log_dir_goes_offline_at_once_though_a_checkpoint_write_hangs(tmp_path: Path) -> None:
    """The defect: the loop waited for the thread that wrote the file, and all log dirs waited with the loop."""
    storage = HangingStorage()
    log_dir = LogDir(storage, FileCache(), str(tmp_path))
    log_dir.on_failure = lambda _: None
    writer = threading.Thread(target=log_dir.checkpoint_recovery_points)
    failing = threading.Thread(target=log_dir.fail, args=(OSError(errno.EIO, "bad disk"), "appending"))
    try:
        writer.start()
        assert storage.begun.wait(PATIENCE_S)
        failing.start()
        failing.join(PATIENCE_S / 2)
        assert not failing.is_alive()
        assert log_dir.offline
    finally:
        storage.gate.set()
        writer.join()
        failing.join()
