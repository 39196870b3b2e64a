"""Whether the process at the other end of a Unix socket is halted (SIGSTOP).

It keeps its connections and says nothing, as one that is slow; but the kernel knows the difference, so nobody has to
wait for a time-out. Linux only: elsewhere nobody is known to be halted.
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
    """The process that has connected; 0 where that cannot be known."""
    connection = writer.get_extra_info("socket")
    if connection is None or not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid: int = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))[0]
    return pid


def halt_of(pid: int) -> str:
    """"" for a process that runs; for one that runs again only when it is told to (SIGCONT) another text for each halt:
    how often it had been taken off a CPU before.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    if not found.get("State", "").startswith(HALTED):
        return ""
    return " ".join(text for name, text in found.items() if name.endswith(SWITCHES))
