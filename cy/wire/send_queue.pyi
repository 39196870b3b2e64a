from collections.abc import Sequence

from cy.wire.sendfile import FileSlice

class SendQueue:
    """The sending half of one connection: what it still has to send, in order."""

    @property
    def unsent(self) -> int:
        """The number of unsent bytes."""
    def __init__(self) -> None: ...
    @property
    def gone(self) -> int:
        """The number of bytes that were ever sent."""
    def append(self, reply: bytes | FileSlice | Sequence[bytes | FileSlice]) -> int:
        """Adds pieces. Returns their end as a position: the number of bytes that were ever added."""
    def flush(self, fd: int) -> bool:
        """Sends until the socket takes no further bytes. Returns True if nothing is left. Raises OSError, EOFError.
        """
    def peek(self, size: int) -> bytes:
        """Returns the next bytes, at most ``size``, for a layer that encrypts. Raises OSError, EOFError."""
    def drop(self, count: int) -> bool:
        """Counts the next ``count`` bytes, from ``peek``, as sent. Returns True if nothing is left."""
    def close(self) -> None:
        """Drops everything that was not sent."""
