"""The strays of a broker, found, set aside and taken back by several threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.files.checkpoints import Checkpointed
from pybroker.log.files.file_cache import FileCache
from pybroker.log.files.storage import Storage
from pybroker.log.removal.strays import FILE_NAME, Note, Stray, Strays
from pybroker.log.tests.helpers import TOPIC_ID, TP
from pyclient.protocol import errors


class Meanwhile(Storage):
    """Runs a function once, in the middle of a call to the disk, like another thread."""

    def __init__(self) -> None:
        self.work: Callable[[], object] = lambda: None

    def interrupt(self) -> None:
        work, self.work = self.work, lambda: None
        work()

    def exists(self, path: str) -> bool:
        self.interrupt()
        return super().exists(path)

    def rename(self, source: str, target: str) -> None:
        self.interrupt()
        super().rename(source, target)


def two_strays(root: Path, storage: Storage) -> tuple[Strays, LogDir, list[Stray]]:
    """Returns two strays of one partition, the older first."""
    log_dir = LogDir(storage, FileCache(), str(root))
    found = []
    for number in range(2):
        folder = root / f"t-0.{number}-stray"
        folder.mkdir()
        note = Note(TP, Checkpointed(), True, number, "")
        (folder / FILE_NAME).write_bytes(note.encode())
        found.append(Stray(log_dir, str(folder), TOPIC_ID, note, 0))
    strays = Strays(storage)
    for stray in found:
        strays._add(stray)
    return strays, log_dir, found


def test_a_stray_is_found_while_another_thread_takes_one_back(tmp_path):
    storage = Meanwhile()
    strays, _, (older, newer) = two_strays(tmp_path, storage)
    storage.work = lambda: strays.take_back(older)
    assert strays.of(TP, TOPIC_ID) == newer


def test_two_threads_that_take_a_stray_back_fail_no_log_dir(tmp_path):
    storage = Meanwhile()
    strays, log_dir, (_, newer) = two_strays(tmp_path, storage)

    def second() -> None:
        with pytest.raises(errors.KafkaStorageError):
            strays.take_back(newer)

    storage.work = second
    assert strays.take_back(newer) == f"{tmp_path}/t-0"
    assert not log_dir.offline
