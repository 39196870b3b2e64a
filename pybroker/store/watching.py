"""A store's watch. The store keeps its watches by path."""

from __future__ import annotations

from collections.abc import Callable


class StoreWatch:
    """One watcher of one path; ``drop(watch)`` removes it from its store."""

    def __init__(self, path: str, callback: Callable[[str], None], drop: Callable[[StoreWatch], None]) -> None:
        self.path = path
        self.callback = callback
        self._drop = drop

    def cancel(self) -> None:
        """Cancels the watch: no call begins after this."""
        self._drop(self)
