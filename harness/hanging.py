"""A process that hangs: it exists, keeps its connections, and does nothing, until it may go on.

Its main thread is held as a debugger holds one. To the kernel that is not a halted process (SIGSTOP), which who watches
it could tell from one that is slow.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
"""waitpid: also for what is no child."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int) -> None:
    """Raises OSError."""
    if _libc.ptrace(request, pid, None, None) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace of process {pid}")


@contextlib.contextmanager
def hanging(pid: int) -> Iterator[None]:
    """Holds the process until the end; from one thread only.

    Raises:
        OSError: it is not there, or not ours.
    """
    _ptrace(SEIZE, pid)
    _ptrace(INTERRUPT, pid)
    os.waitpid(pid, WALL)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            _ptrace(DETACH, pid)
