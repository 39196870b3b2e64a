from typing_extensions import Buffer

IMPLEMENTATIONS: tuple[str, ...]
"""The names of the implementations that this CPU can run. The last one is the fastest, and is used."""

def crc32c(data: Buffer, value: int = 0) -> int:
    """Returns the CRC-32C of ``data`` (0 to 2^32-1), continuing ``value``. Releases the GIL for 64 KiB and more."""

def crc32c_by(implementation: str, data: Buffer, value: int = 0) -> int:
    """Does what ``crc32c`` does, by one of ``IMPLEMENTATIONS``. Raises ``ValueError`` if the name is unknown."""
