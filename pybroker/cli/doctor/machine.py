"""Examines this machine: versions, clock, open files, the disk of a data folder."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from pybroker.cli.reaching.finding import ERROR, OK, WARNING, Finding
from pybroker.data_folder import LOCK, is_running, pid_in

FEW_FILES = 4096
LITTLE_BYTES = 1 << 30
LITTLE_SHARE = 0.05
UNSYNCHRONIZED = 5
OLDEST_TIME_S = 1_700_000_000
WHY_TIME = "retention goes by the time of records"
VOLATILE = ("tmpfs", "ramfs")
LOG_DIR = "log dir"
DATA_FOLDER = "data folder"
DEFAULT_FOLDER = "default data folder"
"""Of a start without --data-dir; perhaps of no broker."""


def examine() -> Iterator[Finding]:
    """Examines what both clients and brokers need."""
    yield versions()
    yield clock(synchronized(), time.time())


def of_a_broker(folders: Iterable[Path], kind: str) -> Iterator[Finding]:
    """Examines what a broker needs here. ``folders`` need not exist yet; ``kind`` says what they are."""
    yield open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    for folder in folders:
        yield from disk(folder, kind)


def running(folders: Iterable[Path]) -> Iterator[Finding]:
    """Reports if no broker runs on these folders. The first one is a data folder."""
    looked = list(folders)
    if not any(map(is_held, looked)):
        text = f"no broker runs on {looked[0]}: the following is what a start would find"
        yield Finding(WARNING, "broker", text, "`pybroker start` starts one, -b HOST:PORT checks another one")


def is_held(folder: Path) -> bool:
    """Says whether a broker uses the folder, or may use it because the folder is another user's."""
    try:
        return is_running(pid_in(folder / LOCK))
    except PermissionError:
        return True
    except OSError:
        return False


def is_here(host: str) -> bool:
    """Says whether this machine can bind to an address of this name."""
    with contextlib.suppress(OSError, UnicodeError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
    return False


def versions() -> Finding:
    from cy.crc32c import IMPLEMENTATIONS
    from pybroker.version import version

    crc = IMPLEMENTATIONS[-1]
    machine = f"{platform.system()} {platform.machine()}"
    text = f"pybroker {version()}, Python {platform.python_version()}, {machine}, CRC-32C by {crc}"
    if find_spec("uvloop") is None:
        return Finding(WARNING, "versions", f"{text}, without uvloop", "pip install uvloop: a broker is slower without")
    return Finding(OK, "versions", text)


def synchronized() -> bool | None:
    """Says whether the kernel keeps the clock synchronized; None if the kernel does not say."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    state = int(adjtimex(ctypes.create_string_buffer(512)))  # struct timex of zeros only asks
    return None if state < 0 else state != UNSYNCHRONIZED


def clock(is_synchronized: bool | None, now_s: float) -> Finding:
    told = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
    if now_s < OLDEST_TIME_S:
        return Finding(WARNING, "clock", f"it is {told}?", f"set the clock: {WHY_TIME}")
    if is_synchronized is False:
        return Finding(WARNING, "clock", f"{told}, not synchronized", f"let NTP keep it: {WHY_TIME}")
    return Finding(OK, "clock", told if is_synchronized is None else f"{told}, synchronized")


def open_files(limit: int) -> Finding:
    if limit != resource.RLIM_INFINITY and limit < FEW_FILES:
        return Finding(WARNING, "open files", f"at most {limit}", "ulimit -n 65536: connections and segments need them")
    return Finding(OK, "open files", "no limit" if limit == resource.RLIM_INFINITY else f"at most {limit}")


def disk(folder: Path, kind: str = DATA_FOLDER) -> Iterator[Finding]:
    """Examines the volume of a data folder, or of a log dir."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    what, option = f"{kind} {folder}", "log.dirs" if kind == LOG_DIR else "--data-dir"
    if not os.access(there, os.W_OK | os.X_OK):
        yield Finding(ERROR, what, f"{there} cannot be written", f"another {option}, or its owner")
        return
    space = shutil.disk_usage(there)
    text = f"{space.free >> 30} of {space.total >> 30} GiB are free"
    if space.free < max(LITTLE_BYTES, LITTLE_SHARE * space.total):
        yield Finding(WARNING, what, text, f"a full disk stops its log dir: less retention, or another {option}")
    else:
        yield Finding(OK, what, text if folder.exists() else f"{text}, not there yet")
    kind = filesystem(there.resolve(), mounts())
    if kind in VOLATILE:
        advice = f"another {option}: a restart of the machine empties it"
        yield Finding(WARNING, what, f"it lies in memory ({kind})", advice)


def mounts() -> dict[str, str]:
    """Returns the types of file systems by mount point; none if the operating system does not tell."""
    try:
        rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return {}
    return {row[1]: row[2] for row in rows if len(row) > 2}


def filesystem(path: Path, known: dict[str, str]) -> str:
    """Returns the type of a path's file system, or an empty text if it is unknown."""
    return next((known[str(each)] for each in (path, *path.parents) if str(each) in known), "")
