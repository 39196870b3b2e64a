from typing import Final, final

ENTRY_BYTES: Final = 24

@final
class OffsetMap:
    """Key → last offset, in ``memory_bytes`` (at most 2 GiB), of which ``load_factor`` are used."""

    slots: int
    limit: int
    """Keys that it takes."""
    count: int
    def __init__(self, memory_bytes: int, load_factor: float, secret: bytes) -> None:
        """``secret``: 16 random bytes. ``MemoryError``."""
    def __len__(self) -> int: ...
    def get(self, key: bytes) -> int | None: ...
    def set(self, key: bytes, offset: int) -> bool:
        """False, and nothing is done, where the map is full."""
