"""Which driver this process belongs to: for an abort of which no task has told anything."""

from __future__ import annotations

import socket
from os import getpid
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_PARENT: Final = 1
_STARTED: Final = 19
"""Fields of ``stat`` (proc(5)) behind the name."""


def driver(proc: Path = PROC, pid: int | None = None) -> str:
    """The JVM above this process, or above ``pid``: the same for all that it has started, and for no other JVM.

    Empty where that cannot be told, as there is no ``/proc``.
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
