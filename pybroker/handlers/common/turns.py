"""Makes long requests take turns, so that no request blocks the event loop for long.

A request with many items, or with expensive ones, is served in *turns* of a millisecond. After a turn, it joins a queue
of all such requests of the broker. Between two turns the loop makes one round, which serves everything that is ready
once. So other requests wait for at most one turn. If nothing else is ready, a long request continues at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

TURN_S: Final = 0.001
"""How long a turn takes, plus the rest of the item that is being served."""


class Turns:
    """Where the long requests of a broker wait for their next turn."""

    def __init__(self, time_s: Callable[[], float] = monotonic) -> None:
        self._time_s = time_s
        self._lock = asyncio.Lock()

    def first_turn(self) -> Turn:
        """Returns the turn of a request that has just arrived. It begins now, without waiting."""
        return Turn(self._time_s)

    async def next_turn(self) -> Turn:
        """Waits for the next turn. The caller uses it at once, and awaits nothing until it is over."""
        async with self._lock:
            await asyncio.sleep(0)
        return Turn(self._time_s)


class Turn:
    """A limited time on the event loop."""

    __slots__ = ("_began", "_time_s")

    def __init__(self, time_s: Callable[[], float]) -> None:
        self._time_s = time_s
        self._began = time_s()

    def is_over(self) -> bool:
        """Returns True if other requests should be served now."""
        return self._time_s() - self._began > TURN_S
