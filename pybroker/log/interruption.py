"""A flag that asks work on another thread to stop."""

from __future__ import annotations

import threading


class Interrupted(Exception):
    """Raised if the work was asked to stop, and has undone what it had begun."""


class Interruption:
    """Asks work to stop; the work checks it from time to time.

    Thread-safety: any thread may call anything.
    """

    def __init__(self) -> None:
        self._wanted = threading.Event()

    def interrupt(self) -> None:
        """Asks the work to stop, which it does at its next ``check`` or in its ``wait``."""
        self._wanted.set()

    @property
    def is_wanted(self) -> bool:
        """True once ``interrupt`` was called."""
        return self._wanted.is_set()

    def check(self) -> None:
        """Raises Interrupted if the work was asked to stop."""
        if self._wanted.is_set():
            raise Interrupted

    def wait(self, seconds: float) -> None:
        """Waits for ``seconds``. Raises Interrupted as soon as the work is asked to stop."""
        if self._wanted.wait(seconds):
            raise Interrupted
