from collections.abc import Sequence

from cy.wire.sendfile import FileSlice

class SendQueue:
    """The sending half of one connection: what is still to be sent, in order."""

    @property
    def unsent(self) -> int:
        """Bytes that are not sent."""
    def __init__(self) -> None: ...
    @property
    def gone(self) -> int:
        """The bytes that were ever sent."""
    def append(self, reply: bytes | FileSlice | Sequence[bytes | FileSlice]) -> int:
        """Adds to what is to be sent. -> where it ends: the bytes that were ever added"""
    def flush(self, fd: int) -> bool:
        """Sends until the socket takes no more; True when nothing is left. Raises OSError,
        EOFError.
        """
    def peek(self, size: int) -> bytes:
        """The next bytes, at most ``size``, for a layer that encrypts. Raises OSError, EOFError."""
    def drop(self, count: int) -> bool:
        """The next ``count`` bytes, as ``peek`` gave them, are on their way. True when nothing is left."""
    def close(self) -> None:
        """Forgets what was not sent."""
