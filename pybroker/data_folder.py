"""The files of a broker in its data folder: their paths, the locks and the pid file.

    DIR/.lock                 locked (flock) by the supervisor while it runs; contains its process id
    DIR/coordination.db       the embedded coordination store
    DIR/store.sock            the socket at which a supervisor of several brokers serves the store
    DIR/cluster.properties    the settings of the supervisor, which brokers that join have as well
    DIR/tls                   the certificates that ``pybroker.run(tls=True)`` has made
    DIR/broker-<id>/pid       the process id of the broker, written before recovery starts
    DIR/broker-<id>/.reserved locked (flock) by the broker's supervisor, even while the broker does not run
    DIR/broker-<id>/…         the partitions, unless log.dirs names other folders (each has a .lock)

Without --data-dir, DIR is the first of ``log.dirs``, which then also replaces ``DIR/broker-<id>``. Without
``log.dirs``, DIR is the platform's folder for a user's data.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pybroker.private_files import FILE, FOLDER, mend

LOCK = ".lock"
RESERVED = ".reserved"
PID = "pid"
STORE = "coordination.db"
SOCKET = "store.sock"
SETTINGS = "cluster.properties"
OURS = re.compile(
    r"(\.lock|\.reserved|pid|coordination\.db|store\.sock|cluster\.properties|meta\.properties|\.kafka_cleanshutdown|\.pybroker_closed_logs"
    r"|.+-checkpoint|.+-\d+)([.-].*)?"
)
"""Matches the names of the broker's own files in data folders and log dirs. Everything in the folders of partitions and
brokers is also its own.
"""


class FolderInUse(Exception):
    """Raised if another process has locked the folder."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The paths in the data folder of one broker."""

    root: Path
    broker: Path
    log_dirs: tuple[str, ...]

    @property
    def store(self) -> Path:
        """The file of the embedded coordination store."""
        return self.root / STORE

    @property
    def socket(self) -> Path:
        """The socket at which a supervisor serves the coordination store."""
        return self.root / SOCKET

    @property
    def settings(self) -> Path:
        """The file of a supervisor's settings for brokers that join."""
        return self.root / SETTINGS

    def create(self) -> None:
        """Makes missing folders. Raises OSError."""
        make(self.broker)

    def write_pid(self) -> None:
        """Writes this process's id atomically. Raises OSError."""
        _write(self.broker / PID, f"{os.getpid()}\n")

    def write_settings(self, text: str) -> None:
        """Writes the file ``settings`` atomically. Raises OSError."""
        _write(self.settings, text)

    def remove_pid(self) -> None:
        """Removes the pid file if it is there."""
        (self.broker / PID).unlink(missing_ok=True)


def make(folder: Path) -> None:
    """Makes the folder if it is missing, with access for this user only. Raises OSError."""
    folder.mkdir(FOLDER, parents=True, exist_ok=True)


def remove_unused(folders: Iterable[Path]) -> None:
    """Removes the folders that contain only locks."""
    for folder in folders:
        with contextlib.suppress(OSError):
            names = {entry.name for entry in folder.iterdir()}
            if names <= {LOCK, RESERVED}:
                for name in names:
                    (folder / name).unlink()
                folder.rmdir()


def close_to_others(folder: Path) -> None:
    """Removes other users' access to a data folder or log dir, as far as the files are the broker's."""
    mend(str(folder), lambda name: OURS.fullmatch(name) is not None)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def plan(data_dir: str | None, node_id: int, log_dirs: tuple[str, ...]) -> DataFolder:
    """Returns the paths of broker ``node_id``, or of the first of several; creates no files."""
    if data_dir is None and log_dirs:
        root = Path(log_dirs[0]).absolute()
        return DataFolder(root, root, log_dirs)
    root = Path(data_dir).absolute() if data_dir is not None else users_folder()
    broker = root / f"broker-{node_id}"
    return DataFolder(root, broker, log_dirs or (str(broker),))


def users_folder() -> Path:
    """Returns the platform's folder for a user's data."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "pybroker"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "pybroker"


def pid_in(file: Path) -> int:
    """Returns the pid in the file, or 0."""
    try:
        return int(file.read_text())
    except (FileNotFoundError, ValueError):
        return 0


def is_running(pid: int) -> bool:
    """Returns whether there is a process with this id, of any user; False for 0."""
    if pid == 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


class Locks:
    """The locks of a data folder and its log dirs. They end when the process ends, even if it is killed."""

    def __init__(self) -> None:
        self._fds: list[int] = []

    def take(self, folder: Path, otherwise: str = "--data-dir", name: str = LOCK) -> None:
        """Locks ``folder``; ``otherwise`` is the option that chooses another one. Raises FolderInUse, OSError."""
        fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 20, 0).decode(errors="replace").strip()
            os.close(fd)
            by = f" by process {owner}" if owner else ""
            raise FolderInUse(
                f"data folder {folder} is in use{by}: stop that broker, "
                f"or choose another {otherwise}"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._fds.append(fd)

    def reserve(self, folder: Path) -> None:
        """Reserves a broker's folder for the supervisor that restarts it. Raises FolderInUse, OSError."""
        self.take(folder, "--node-id", RESERVED)

    def release(self) -> None:
        """Releases all locks. First removes the process id from the lock file, because the system may reuse the id."""
        for fd in self._fds:
            with contextlib.suppress(OSError):  # the disk has failed
                os.ftruncate(fd, 0)
            os.close(fd)
        self._fds.clear()
