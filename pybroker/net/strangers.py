"""The unauthenticated clients of one SASL listener, and how many bytes of large frames they hold together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

C = TypeVar("C")


class Strangers(Generic[C]):
    """Unauthenticated connections, the oldest first, with the number of bytes that each one last reported."""

    def __init__(self) -> None:
        self._held: dict[C, int] = {}
        self.held = 0
        """The number of bytes that all strangers together hold."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[C]:
        return iter(self._held)

    def add(self, connection: C) -> None:
        """Adds a connection, which holds no bytes yet."""
        self._held[connection] = 0

    def drop(self, connection: C) -> None:
        """Drops a connection that has closed or authenticated."""
        self.held -= self._held.pop(connection, 0)

    def note(self, connection: C, held: int) -> None:
        """Sets how many bytes the connection holds now; ignores a connection that was dropped."""
        before = self._held.get(connection)
        if before is not None:
            self._held[connection] = held
            self.held += held - before

    def holders(self) -> list[C]:
        """Returns the connections that hold any bytes, the oldest first."""
        return [each for each, held in self._held.items() if held]
