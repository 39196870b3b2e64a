"""Work that runs one after the other in one task, so that it cannot overtake itself.

Failed work is repeated after a pause, which doubles with each failure in a row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pybroker.store.interface import CoordinationError
from pyclient.protocol.errors import KafkaError

Work = Callable[[], Awaitable[None]]

PAUSE_S = 0.2
LONGEST_PAUSE_S: Final = 5.0
LARGEST_EXPONENT: Final = 10
CLOSING_S: Final = 10.0
"""How long ``close`` waits for work in progress."""

_log = logging.getLogger(__name__)


class WorkQueue:
    """The work that waits, in order. The same work waits only once."""

    def __init__(self, again: Callable[[Work], object], on_error: Callable[[Exception], object]) -> None:
        """``again(work)`` is called after a pause if the store or the controller has refused the work. It may add the
        work again.

        ``on_error(error)`` is called after any other error.
        """
        self._again = again
        self._on_error = on_error
        self._wanted: dict[Work, None] = {}
        self._worker: asyncio.Task[None] | None = None
        self._failures: dict[Work, int] = {}
        """How often in a row each work has failed."""

    def add(self, work: Work) -> None:
        """Adds the work, unless it waits already."""
        self._wanted[work] = None
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while self._wanted:
            work = next(iter(self._wanted))
            del self._wanted[work]
            try:
                await work()
                self._failures.pop(work, None)
            except (CoordinationError, KafkaError) as error:
                _log.warning("cluster membership: a step failed, trying again: %s: %s", type(error).__name__, error)
                self._repeat_later(work)
            except Exception as error:
                self._on_error(error)

    def _repeat_later(self, work: Work) -> None:
        failures = self._failures.get(work, 0)
        self._failures[work] = failures + 1
        pause_s = min(PAUSE_S * 2 ** min(failures, LARGEST_EXPONENT), LONGEST_PAUSE_S)
        asyncio.get_running_loop().call_later(pause_s, self._again, work)

    def clear(self) -> None:
        """Drops the work that waits."""
        self._wanted.clear()

    async def close(self, *, may_finish: bool) -> None:
        """Drops the work that waits, and ends the one in progress: after it has finished, or at once."""
        self.clear()
        if self._worker is None:
            return
        if not may_finish:
            self._worker.cancel()
        _, late = await asyncio.wait([self._worker], timeout=CLOSING_S)
        if late:
            self._worker.cancel()
            await asyncio.wait([self._worker], timeout=CLOSING_S)
