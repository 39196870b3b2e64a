"""Finds the driver of this process, for an abort without any message from a task."""

from __future__ import annotations

import socket
from os import getpid
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_PARENT: Final = 1
_STARTED: Final = 19
"""Indexes of fields of ``stat`` (proc(5)) after the name."""


def driver(proc: Path = PROC, pid: int | None = None) -> str:
    """Returns an id of the JVM above this process, or above ``pid``, the same in all processes that it has started.
    Empty if unknown, for example without ``/proc``.
    """
    above = getpid() if pid is None else pid
    try:
        while above:
            name, rest = (proc / str(above) / "stat").read_text().rsplit(")", 1)
            fields = rest.split()
            if name.endswith("(java"):
                boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
                return f"{socket.gethostname()}/{boot}/{above}/{fields[_STARTED]}"
            above = int(fields[_PARENT])
    except (OSError, ValueError, IndexError):
        pass
    return ""
