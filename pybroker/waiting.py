"""Runs an ``async def`` handler: at once up to its first real wait, and as a task from there on.

Most handlers answer without waiting. The others use the views of their request only before they wait.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

if sys.version_info >= (3, 12):

    def start(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        """Returns the result of ``work`` if it did not have to wait, else a task for its remaining steps. Raises the
        errors of ``work``.
        """
        task = asyncio.Task(work, loop=loop, eager_start=True)
        if not task.done():
            return task
        try:
            return task.result()
        finally:
            del task  # it refers to its exception, which refers to this frame: a cycle

else:
    from pybroker.first_step import start as start
