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


def peer_pid(writer: StreamWriter) -> int:
    """The process that has connected; 0 where that cannot be known."""
    connection = writer.get_extra_info("socket")
    if connection is None or not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid: int = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))[0]
    return pid


def is_halted(pid: int) -> bool:
    """True for a process that runs again only when it is told to (SIGCONT)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2].startswith(HALTED)
