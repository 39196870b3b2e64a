"""How the broker's tests wait for an event: they look again and again, with a limit that no busy machine needs."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S = 60.0
PAUSE_S: Final = 0.005


def until(holds: Callable[[], object]) -> None:
    """Waits for what another thread or process does."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(PAUSE_S)


async def until_async(holds: Callable[[], object]) -> None:
    """As ``until``, while the loop goes on; ``holds`` may be a coroutine function."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = holds()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(PAUSE_S)
