"""Keeps the clients of a Python worker process from one task to the next. Spark reuses the process, and an open
connection saves a small batch most of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

MOST: Final = 4
"""The most clients that are kept; the least recently used one is closed."""
Client = TypeVar("Client")


class Kept(Generic[Client]):
    """Keeps clients that are not in use, by their settings. Not thread-safe."""

    def __init__(self, close: Callable[[Client], object]) -> None:
        self._close = close
        self._clients: dict[frozenset[tuple[str, str]], Client] = {}

    def take(self, settings: Mapping[str, str], make: Callable[[], Client]) -> Client:
        """Returns the client with these settings, or a new one."""
        return self._clients.pop(frozenset(settings.items()), None) or make()

    def put(self, settings: Mapping[str, str], client: Client) -> None:
        """Keeps the client, and closes one if there are too many."""
        other = self._clients.pop(key := frozenset(settings.items()), None)
        if other is not None:
            self._close(other)
        self._clients[key] = client
        while len(self._clients) > MOST:
            self._close(self._clients.pop(next(iter(self._clients))))
