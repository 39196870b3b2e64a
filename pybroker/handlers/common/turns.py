"""Makes long requests take turns, so that no request blocks the event loop for long.

A request of many items, or of items that cost much, is served in *turns* of a millisecond. When one is over, the
request waits in a queue, where all such requests of a broker stand in line. Between two turns the loop makes one round:
everything that is ready is served once. So others wait for one turn at most, and a long request goes on at once if
nobody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

TURN_S: Final = 0.001
"""A turn is over then; the item that is being served is finished."""


class Turns:
    """Where the long requests of a broker wait for their next turn."""

    def __init__(self, time_s: Callable[[], float] = monotonic) -> None:
        self._time_s = time_s
        self._lock = asyncio.Lock()

    def first_turn(self) -> Turn:
        """The turn in which a request has come. It needs no wait."""
        return Turn(self._time_s)

    async def next_turn(self) -> Turn:
        """The next one, when it has come. It is used at once: until it is over nothing is awaited."""
        async with self._lock:
            await asyncio.sleep(0)
        return Turn(self._time_s)


class Turn:
    """A little time on the loop."""

    __slots__ = ("_began", "_time_s")

    def __init__(self, time_s: Callable[[], float]) -> None:
        self._time_s = time_s
        self._began = time_s()

    def is_over(self) -> bool:
        """True when others should be let in."""
        return self._time_s() - self._began > TURN_S
