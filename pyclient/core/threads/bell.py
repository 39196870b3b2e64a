"""What wakes a thread that waits: it is rung in any thread, also within the handler of a signal.

``threading.Event`` cannot do that. A lock guards it, and the thread that the handler interrupts may hold that lock:
the handler would wait for itself. This class has one lock that serves as the signal, not as a guard. It is *locked*
while the bell is silent. Ringing releases it, which never waits; waiting acquires it.
"""

from __future__ import annotations

import contextlib
from threading import Lock


class Bell:
    """For one thread that waits. Any other, and handlers of signals, may ``ring``."""

    def __init__(self) -> None:
        self._silent = Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """The wait that is under way ends, or the next one. Never waits."""
        if self._silent.locked():
            with contextlib.suppress(RuntimeError):  # another has just rung it
                self._silent.release()

    def hush(self) -> None:
        """It has not rung, as of now."""
        self._silent.acquire(False)

    def wait(self, seconds: float) -> bool:
        """Waits until it has rung, ``seconds`` at most, and hushes it. -> whether it has rung"""
        return self._silent.acquire(timeout=seconds)
