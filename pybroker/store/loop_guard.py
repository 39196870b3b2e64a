"""Reports from a separate thread when an event loop hangs and when it runs again.

A ZooKeeper client sends its heartbeats from a thread. So a broker's session would stay alive even if its loop hangs (a
write that does not return, a request that takes minutes). Then no other broker would lead its partitions or become
controller. So the session must depend on the loop: if the loop hangs for the session timeout, the session ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pybroker.loop_watch import LoopWatch

LOOKS_PER_LIMIT = 8

logger = logging.getLogger(__name__)


class LoopGuard:
    """Calls ``on_stuck()`` when the watched loop has hung for ``limit_s``, and ``on_back()`` when it runs again.

    Both are called on the guard's thread, one after the other.
    """

    def __init__(
        self, watch: LoopWatch, limit_s: float, on_stuck: Callable[[], None], on_back: Callable[[], None]
    ) -> None:
        self._watch = watch
        self._limit_s = limit_s
        self._step_s = limit_s / LOOKS_PER_LIMIT
        self._on_stuck = on_stuck
        self._on_back = on_back
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="loop-guard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the guard. A call in progress continues; see ``wait``."""
        self._over.set()

    def wait(self, limit_s: float) -> None:
        """Waits for a call in progress, at most ``limit_s``. Not to be called on the guard's thread."""
        self._thread.join(limit_s)

    def _is_stuck(self) -> bool:
        return self._watch.silent_s() > self._limit_s

    def _look(self) -> None:
        while not self._over.wait(self._step_s):
            if self._is_stuck():
                self._call(self._on_stuck)
                while self._is_stuck() and not self._over.wait(self._step_s):
                    pass
                if not self._over.is_set():
                    self._call(self._on_back)

    @staticmethod
    def _call(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            logger.exception("a check of the event loop failed; the guard continues")
