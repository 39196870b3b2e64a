"""The timer of auto-commit, on the client's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

LEAST_S: Final = 0.01
"""The least time between two commits, even if auto.commit.interval.ms is 0."""


class CommitTimer:
    """Commits from time to time, never twice at the same time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float,
        commit: Callable[[], Awaitable[None]],
        hold: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """``hold`` runs a coroutine in the background."""
        self._loop = loop
        self._wait = max(interval_s, LEAST_S)
        self._commit = commit
        self._hold = hold
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Commits after each interval."""
        if not self._is_stopped:
            self._timer = self._loop.call_later(self._wait, lambda: self._hold(self._run()))

    async def _run(self) -> None:
        try:
            await self._commit()
        finally:
            self.start()

    def stop(self) -> None:
        """Starts no further commit."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
