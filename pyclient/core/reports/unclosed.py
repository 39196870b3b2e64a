"""Warns about asyncio clients that are not closed, by a ResourceWarning, as Python does for files.

The blocking face has a thread that outlives it, whose end it is (``Runner.abandon``). Here the loop is
the application's: what is left of the client there is ended if the loop still runs.
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
    """Warns when ``client``, in words ``owner``, is collected, or the interpreter ends; ``detach()`` says
    that it is closed. To be called on its loop, on which ``close``, which must not refer to it, ends
    what it has begun there.
    """
    return weakref.finalize(client, _warn, owner, os.getpid(), asyncio.get_running_loop(), close)


def _warn(owner: str, process: int, loop: asyncio.AbstractEventLoop, close: Close | None) -> None:
    if os.getpid() != process:
        return
    warnings.warn(f"a {owner} was not closed", ResourceWarning, stacklevel=2)
    if close is not None and loop.is_running():
        loop.call_soon_threadsafe(lambda: loop.create_task(close()))
