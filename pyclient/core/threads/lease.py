"""Lets a waiting thread do the loop's work while the loop's own thread blocks: no hand-over between threads.

A thread that sends one record and waits for its ack hands over twice, each time for a few microseconds of work. It
hands over to the loop's thread, which sends, and gets control back when the answer has come. So the loop's thread
*lends* its place to a thread that comes again and again. Meanwhile the loop's thread blocks in a callback, so nothing
changes the loop's state. Between ``enter`` and ``leave``, the *tenant* may use what belongs to the loop. The lease ends
when

- a millisecond has passed without a use, or ten milliseconds in all, so that other work of the loop does not wait
  longer;
- another thread needs the loop (``recall``), because it has called something on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Final

from cy.client import held_signals
from cy.client.loop_lease import LoopLease

LONGEST: Final = 0.01
"""The most seconds of a lease."""
UNUSED: Final = 0.001
"""Seconds after which an unused lease ends."""


class Lease(LoopLease):
    """The lease of one loop, whose thread calls ``lend``. ``on_end`` is called there after each lease."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.on_end: Callable[[], object] = lambda: None
        self._loop = loop
        self._calls = 0
        """How often a thread has called something on the loop. An offer made before the last call is void."""
        self._ended = Lock()

    # -- the loop's side ---------------------------------------------------------------------------

    def offer(self, thread: int) -> None:
        """Lends the loop's place to the thread in the next turn, unless another thread needs the loop by then."""
        if not self._loop.get_debug():  # a loop in debug mode rejects other threads
            self._loop.call_soon(self._lend, thread, self._calls)

    def _lend(self, thread: int, calls: int) -> None:
        if calls != self._calls:
            return
        self._ended.acquire(blocking=False)
        self.holds_signals = thread == threading.main_thread().ident  # signal handlers run there
        if self.holds_signals:
            held_signals.guard()
        self.tenant = thread
        self._wait()
        self.vacate()
        self.on_end()

    def _wait(self) -> None:
        """Waits until the lease is over."""
        end, uses = monotonic() + LONGEST, -1
        while self.uses != uses and monotonic() < end:
            uses = self.uses
            if self._ended.acquire(timeout=UNUSED):
                return

    # -- any thread --------------------------------------------------------------------------------

    def recall(self) -> None:
        """Ends the lease, because another thread has called something on the loop."""
        self._calls += 1
        if self.tenant:
            self.tenant = 0
            with contextlib.suppress(RuntimeError):  # another thread has just done so
                self._ended.release()
