"""The process that has written a registration, so that other brokers can check whether it lives.

A process is identified by its PID namespace, its id and its start time, because ids are reused. This works on Linux
only. On other systems, and for a process in another namespace, the state is unknown.
"""

from __future__ import annotations

import functools
import os
from enum import Enum
from pathlib import Path
from typing import Final

_STATE: Final = 0
_STARTED: Final = 19
"""The index of the start time among the fields of /proc/PID/stat after the command's name."""


class Owner(Enum):
    """The state of the process that owns a registration, as far as this broker can know."""

    ITSELF = "this process"
    DEAD = "dead"
    ALIVE = "alive"
    ELSEWHERE = "in another PID namespace, as in a container"
    UNKNOWN = "unknown"


@functools.cache
def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def own_process() -> str:
    """Returns this process in the form of a registration, "" if it is unknown."""
    pid = os.getpid()
    started = _started(pid)
    return f"{_namespace()} {pid} {started}" if _namespace() and started else ""


def owner_of(process: str) -> Owner:
    """Returns the state of ``process``. It must have registered since this machine was last started."""
    own = own_process()
    if not own or process.count(" ") != 2:
        return Owner.UNKNOWN
    if process == own:
        return Owner.ITSELF
    namespace, pid, started = process.split(" ")
    if namespace != _namespace():
        return Owner.ELSEWHERE
    return Owner.ALIVE if pid.isdecimal() and _started(int(pid)) == started else Owner.DEAD


def _started(pid: int) -> str:
    """Returns when the process started, "" if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[_STATE] in "ZX" else fields[_STARTED]
