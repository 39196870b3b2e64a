"""Finds out what stalls the event loop.

A broker does everything for its clients and its cluster on one loop. A *stall* is one callback that runs for long:
everybody waits meanwhile. A broker that stalls for its session's length is lost to the cluster. So:

* A timer stamps each tenth of a second in which the loop turns (``turned_at``). As late as it fires was the stall.
* The network measures each visit to a connection, and tells which request stalled the loop (``stalled``).
* A thread looks at the stamp. Once the loop has been silent for ``STACK_S``, it logs where the loop's thread is.

Any thread may read ``turned_at``, ``silent_s``, ``stalls`` and ``longest_s``. The log reports a stall with the CPU time
that the loop's thread has used meanwhile. A stall without CPU waited for a disk, or for the machine, and is a line of
DEBUG unless it lasts: a busy machine has one every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from itertools import islice
from types import FrameType
from typing import Final

STALL_S: Final = 0.05
"""No callback should take longer."""
TICK_S: Final = 0.1
STACK_S: Final = 0.5
"""The silence, in seconds, after which the loop's stack is logged, and a stall lasts."""
LOOK_S: Final = 0.25
LINE_S: Final = 1.0
"""The time between two lines at least, in seconds."""
DEPTH: Final = 12
"""Frames of a stack that are logged."""

logger = logging.getLogger(__name__)


class LoopWatch:
    """Watches one loop, from ``start`` to ``stop``.

    turned_at: when the loop turned last (``time.monotonic``); infinity while it is not watched.
    stalls: how many were longer than ``STALL_S``.
    longest_s: the longest of them. busiest_s: the most CPU time of one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turned_at = float("inf")
        self.stalls = 0
        self.longest_s = 0.0
        self.busiest_s = 0.0
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._cpu = 0.0
        self._told = False
        """``stalled`` has told the stall that ends with this tick."""
        self._line_at = 0.0
        self._left_out = 0
        self._thread_id = 0
        self._ended = threading.Event()

    def start(self) -> None:
        """Begins to watch; on the loop's thread."""
        self._thread_id = threading.get_ident()
        self._stamp()
        threading.Thread(target=self._look, name="loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Ends it; on the loop's thread."""
        self._ended.set()
        self.turned_at = float("inf")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def silent_s(self) -> float:
        """For how long the loop has not turned; 0 while it turns, or is not watched."""
        return max(0.0, time.monotonic() - self.turned_at)

    def stalled(self, seconds: float, what: str) -> None:
        """``what`` has stalled the loop for ``seconds``, which are more than ``STALL_S``."""
        self._told = True
        self._count(seconds)
        cpu = time.thread_time() - self._cpu
        self._log(f"{what} held the event loop for {seconds * 1000:.0f} ms", level_of(seconds, cpu, logging.WARNING))

    # -- on the loop -------------------------------------------------------------------------------

    def _stamp(self) -> None:
        self.turned_at = time.monotonic()
        self._cpu = time.thread_time()
        self._due = self.turned_at + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        late = time.monotonic() - self._due
        if late > STALL_S:
            self._has_stalled(late, time.thread_time() - self._cpu)
        self._told = False
        self._stamp()

    def _has_stalled(self, late: float, cpu: float) -> None:
        """``cpu``: seconds of CPU since the timer was set. This includes the time before the timer was due, which does
        not belong to the stall.
        """
        self.busiest_s = max(self.busiest_s, min(late, cpu - TICK_S))
        if not self._told:
            self._count(late)
            text = f"the event loop was held for {late * 1000:.0f} ms ({cpu * 1000:.0f} ms of CPU)"
            self._log(text, level_of(late, cpu, logging.INFO))

    def _count(self, seconds: float) -> None:
        self.stalls += 1
        self.longest_s = max(self.longest_s, seconds)

    def _log(self, text: str, level: int) -> None:
        if not logger.isEnabledFor(level):
            return
        now = time.monotonic()
        if now < self._line_at:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this)" if self._left_out else ""
        self._line_at, self._left_out = now + LINE_S, 0
        logger.log(level, "%s%s", text, more)

    # -- on its own thread -------------------------------------------------------------------------

    def _look(self) -> None:
        """Logs the loop's stack once in each silence."""
        seen = 0.0
        while not self._ended.wait(LOOK_S):
            turned_at = self.turned_at
            if turned_at != seen and time.monotonic() - turned_at > STACK_S:
                seen = turned_at
                self._log_stack(time.monotonic() - turned_at)

    def _log_stack(self, silent_s: float) -> None:
        frame = sys._current_frames().get(self._thread_id)
        where = stack_line(frame) if frame is not None else "nowhere"
        logger.warning("the event loop has been blocked for %.1f s; it is at %s", silent_s, where)


def level_of(seconds: float, cpu: float, lasting: int) -> int:
    """How much a stall matters. ``cpu``: the most seconds of CPU that it can have used. ``lasting``: the level of one
    that has lasted, though it used none.
    """
    if cpu > STALL_S:
        return logging.WARNING
    return lasting if seconds > STACK_S else logging.DEBUG


def stack_line(frame: FrameType) -> str:
    """The innermost frames on one line, the innermost first, as ``module:line function``.

    A refused start gives its reason in one line, because readers of the log take each line for an event.
    """
    innermost = islice(traceback.walk_stack(frame), DEPTH)
    return " < ".join(f"{f.f_globals.get('__name__', '?')}:{line} {f.f_code.co_name}" for f, line in innermost)
