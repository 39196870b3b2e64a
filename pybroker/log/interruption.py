"""A flag by which work on another thread is asked to stop."""

from __future__ import annotations

import threading


class Interrupted(Exception):
    """The work was asked to stop; what it had begun is undone."""


class Interruption:
    """A wish to stop, which the work looks at now and then.

    Thread-safety: any thread may call anything.
    """

    def __init__(self) -> None:
        self._wanted = threading.Event()

    def interrupt(self) -> None:
        """The work is to stop; it does so at its next ``check`` or in its ``wait``."""
        self._wanted.set()

    @property
    def is_wanted(self) -> bool:
        """True once ``interrupt`` was called."""
        return self._wanted.is_set()

    def check(self) -> None:
        """Raises Interrupted where the work is to stop."""
        if self._wanted.is_set():
            raise Interrupted

    def wait(self, seconds: float) -> None:
        """Waits so long; raises Interrupted at once where the work is to stop."""
        if self._wanted.wait(seconds):
            raise Interrupted
