"""Errors of background work, which the next poll of a consumer raises."""

from __future__ import annotations

from collections.abc import Callable

from pyclient.errors import KafkaError


class PollErrors:
    """The errors that wait for a poll. Any thread may use them."""

    def __init__(self) -> None:
        self._next: tuple[KafkaError, Callable[[], bool]] | None = None
        self.lasting: KafkaError | None = None
        """The error that each poll raises."""

    def put(self, error: KafkaError, holds: Callable[[], bool]) -> None:
        """Makes the next poll raise this, if ``holds()`` is still true then."""
        self._next = error, holds

    def take(self) -> KafkaError | None:
        """Returns and removes the waiting error; None if it no longer holds."""
        found, self._next = self._next, None
        return found[0] if found is not None and found[1]() else None

    def forget(self) -> None:
        """Drops all errors, because they belong to partitions that are no longer read."""
        self._next = self.lasting = None

    def __bool__(self) -> bool:
        return self._next is not None
