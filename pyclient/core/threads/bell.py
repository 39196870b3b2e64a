"""Wakes a thread that waits. Any thread or signal handler may ring the bell.

``threading.Event`` cannot do that. A lock guards it, and the thread that the handler interrupts may hold that lock: the
handler would wait for itself. This class has one lock that serves as the signal, not as a guard. It is *locked* while
the bell is silent. Ringing releases it, which never waits; waiting acquires it.
"""

from __future__ import annotations

import contextlib
from threading import Lock


class Bell:
    """A bell for one thread that waits. Any other thread and signal handlers may ``ring``."""

    def __init__(self) -> None:
        self._silent = Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Ends the current wait, or the next one. Never waits."""
        if self._silent.locked():
            with contextlib.suppress(RuntimeError):  # another thread has just rung it
                self._silent.release()

    def hush(self) -> None:
        """Forgets all rings so far."""
        self._silent.acquire(False)

    def wait(self, seconds: float) -> bool:
        """Waits for a ring, at most ``seconds``, and hushes the bell. Returns whether it has rung."""
        return self._silent.acquire(timeout=seconds)
