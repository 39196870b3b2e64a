from typing_extensions import Buffer

IMPLEMENTATIONS: tuple[str, ...]
"""Names of the implementations that this CPU can run, the fastest (the one in use) last."""

def crc32c(data: Buffer, value: int = 0) -> int:
    """The CRC-32C of ``data`` (0 to 2^32-1), continuing ``value``. Releases the GIL for 64 KiB and more."""

def crc32c_by(implementation: str, data: Buffer, value: int = 0) -> int:
    """As ``crc32c``, by one of ``IMPLEMENTATIONS``; ``ValueError`` where there is no such one."""
