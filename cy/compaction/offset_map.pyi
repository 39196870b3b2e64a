from typing import Final, final

ENTRY_BYTES: Final = 24

@final
class OffsetMap:
    """Maps each key to its last offset, in ``memory_bytes`` (at most 2 GiB), of which ``load_factor`` is used."""

    slots: int
    limit: int
    """How many keys fit."""
    count: int
    def __init__(self, memory_bytes: int, load_factor: float, secret: bytes) -> None:
        """``secret`` has 16 random bytes. Raises ``MemoryError``."""
    def __len__(self) -> int: ...
    def get(self, key: bytes) -> int | None: ...
    def set(self, key: bytes, offset: int) -> bool:
        """Sets the offset of a key. If the map is full, returns False and changes nothing."""
