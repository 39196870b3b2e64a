"""Finds out whether the process at the other end of a Unix socket is halted (SIGSTOP).

A halted process keeps its connections and sends nothing, like a slow process. But the kernel knows the difference, so
there is no need to wait for a timeout. This works on Linux only; on other systems, no process counts as halted.
"""

from __future__ import annotations

import socket
import struct
from asyncio import StreamWriter
from pathlib import Path
from typing import Final

CREDENTIALS: Final = struct.Struct("3i")
HALTED: Final = "T"
SWITCHES: Final = "ctxt_switches"


def peer_pid(writer: StreamWriter) -> int:
    """Returns the process that has connected; 0 if it is unknown."""
    connection = writer.get_extra_info("socket")
    if connection is None or not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid: int = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))[0]
    return pid


def halt_of(pid: int) -> str:
    """Returns "" for a running process. For a halted process, which needs a SIGCONT, returns a text that is different
    for each halt.

    The text is the number of times the process was taken off a CPU.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    if not found.get("State", "").startswith(HALTED):
        return ""
    return " ".join(text for name, text in found.items() if name.endswith(SWITCHES))
