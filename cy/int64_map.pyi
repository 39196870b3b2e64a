from collections.abc import Iterable
from typing import final, overload

@final
class Int64Map:
    """A map of int64 to int64, made from ``(key, value)`` pairs."""

    def __init__(self, items: Iterable[tuple[int, int]] = ()) -> None: ...
    def __len__(self) -> int: ...
    @overload
    def get(self, key: int) -> int | None: ...
    @overload
    def get(self, key: int, default: int) -> int: ...
    def set(self, key: int, value: int) -> None:
        """Sets a value. Raises ``MemoryError``."""
    def discard(self, key: int) -> bool:
        """Removes a key. Returns False if it was not in the map."""
