"""Makes a process hang: it exists and keeps its connections, but does nothing until it is released.

A tracer holds the process's main thread, as a debugger does. The kernel does not report that as a halt, unlike SIGSTOP,
so observers cannot tell the process from a slow one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
"""For waitpid: also wait for a process that is not our child."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int) -> None:
    """Calls ptrace. Raises OSError."""
    if _libc.ptrace(request, pid, None, None) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace of process {pid}")


@contextlib.contextmanager
def hanging(pid: int) -> Iterator[None]:
    """Holds the process until the block ends, from one thread only.

    Raises:
        OSError: the process does not exist, or we may not trace it.
    """
    _ptrace(SEIZE, pid)
    _ptrace(INTERRUPT, pid)
    os.waitpid(pid, WALL)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            _ptrace(DETACH, pid)
