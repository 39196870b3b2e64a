"""Warns about asyncio clients that are not closed, by a ResourceWarning, as Python does for files.

A blocking client has its own thread, which does this (``Runner.abandon``). Here the loop belongs to the application:
the client's work on it is ended if the loop still runs.
"""

from __future__ import annotations

import asyncio
import os
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

Close = Callable[[], Coroutine[Any, Any, None]]


def watch(client: object, owner: str, close: Close | None = None) -> weakref.finalize[..., object]:
    """Warns when ``client`` (described by ``owner``) is collected, or the interpreter ends; call ``detach()`` when it
    is closed. Call this on the client's loop. ``close`` ends the client's work there, and must not refer to it.
    """
    return weakref.finalize(client, _warn, owner, os.getpid(), asyncio.get_running_loop(), close)


def _warn(owner: str, process: int, loop: asyncio.AbstractEventLoop, close: Close | None) -> None:
    if os.getpid() != process:
        return
    warnings.warn(f"a {owner} was not closed", ResourceWarning, stacklevel=2)
    if close is not None and loop.is_running():
        loop.call_soon_threadsafe(lambda: loop.create_task(close()))
