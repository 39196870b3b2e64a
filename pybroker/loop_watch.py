"""Finds out what stalls the event loop.

A broker serves its clients and its cluster on one loop. A *stall* is one callback that runs for long: all other work
waits meanwhile. A broker that stalls longer than its session timeout loses its place in the cluster. So there are three
observers:

* A timer sets a time stamp every tenth of a second while the loop runs (``turned_at``). If it fires late, the delay was
  a stall.
* The network measures each visit to a connection, and reports which request stalled the loop (``stalled``).
* A thread checks the time stamp. If it is older than ``STACK_S``, the thread logs what the loop is executing.

Any thread may read ``turned_at``, ``silent_s``, ``stalls`` and ``longest_s``. The log line of a stall has the CPU time
that the loop's thread used meanwhile. In a stall without CPU time, the loop waited for a disk or for a busy machine. A
short one is logged at DEBUG, because a busy machine has one every few seconds. Likewise, a stack is logged at INFO if
the process used no CPU time.
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
"""The longest time that a callback should take."""
TICK_S: Final = 0.1
STACK_S: Final = 0.5
"""After this many seconds of a stall, the loop's stack is logged, and the stall counts as lasting."""
LOOK_S: Final = 0.25
LINE_S: Final = 1.0
"""The shortest time between two lines, in seconds."""
DEPTH: Final = 12
"""How many frames of a stack are logged."""

logger = logging.getLogger(__name__)


class LoopWatch:
    """Watches one loop, from ``start`` to ``stop``.

    ``turned_at`` is when the loop last ran (``time.monotonic``), infinity while it is not watched. ``stalls`` counts
    the stalls longer than ``STALL_S``. ``longest_s`` is the longest of them, ``busiest_s`` the most CPU time of one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turned_at = float("inf")
        self.stalls = 0
        self.longest_s = 0.0
        self.busiest_s = 0.0
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._cpu = self._process_cpu = 0.0
        self._told = False
        """True if ``stalled`` has already reported the stall that the timer is about to notice."""
        self._line_at = 0.0
        self._left_out = 0
        self._thread_id = 0
        self._ended = threading.Event()

    def start(self) -> None:
        """Starts to watch; call it on the loop's thread."""
        self._thread_id = threading.get_ident()
        self._stamp()
        threading.Thread(target=self._look, name="loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Stops; call it on the loop's thread."""
        self._ended.set()
        self.turned_at = float("inf")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def silent_s(self) -> float:
        """Returns for how long the loop has not run; 0 if it runs or is not watched."""
        return max(0.0, time.monotonic() - self.turned_at)

    def stalled(self, seconds: float, what: str) -> None:
        """Reports that ``what`` has stalled the loop for ``seconds``, more than ``STALL_S``."""
        self._told = True
        self._count(seconds)
        cpu = time.thread_time() - self._cpu
        self._log(f"{what} held the event loop for {seconds * 1000:.0f} ms", level_of(seconds, cpu, logging.WARNING))

    # -- on the loop -------------------------------------------------------------------------------

    def _stamp(self) -> None:
        self.turned_at = time.monotonic()
        self._cpu, self._process_cpu = time.thread_time(), time.process_time()
        self._due = self.turned_at + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        late = time.monotonic() - self._due
        if late > STALL_S:
            self._has_stalled(late, time.thread_time() - self._cpu)
        self._told = False
        self._stamp()

    def _has_stalled(self, late: float, cpu: float) -> None:
        """Counts a stall. ``cpu`` is the CPU time since the timer was set, so it includes time before the stall.
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
        """Logs the loop's stack once in each stall."""
        seen = 0.0
        while not self._ended.wait(LOOK_S):
            turned_at = self.turned_at
            if turned_at != seen and time.monotonic() - turned_at > STACK_S:
                seen = turned_at
                self._log_stack(time.monotonic() - turned_at, time.process_time() - self._process_cpu)

    def _log_stack(self, silent_s: float, cpu: float) -> None:
        """Logs the stack of a stall in which the process used ``cpu`` seconds of CPU time."""
        frame = sys._current_frames().get(self._thread_id)
        where = stack_line(frame) if frame is not None else "nowhere"
        level = level_of(silent_s, cpu, logging.INFO)
        logger.log(level, "the event loop has been blocked for %.1f s; it is at %s", silent_s, where)


def level_of(seconds: float, cpu: float, lasting: int) -> int:
    """Returns the log level of a stall. ``cpu`` is the most CPU time that it can have used. ``lasting`` is the level of
    a long stall without CPU time.
    """
    if cpu > STALL_S:
        return logging.WARNING
    return lasting if seconds > STACK_S else logging.DEBUG


def stack_line(frame: FrameType) -> str:
    """Returns the innermost frames on one line as ``module:line function``, the innermost first.

    It is one line because readers of the log treat each line as an event.
    """
    innermost = islice(traceback.walk_stack(frame), DEPTH)
    return " < ".join(f"{f.f_globals.get('__name__', '?')}:{line} {f.f_code.co_name}" for f, line in innermost)
