from collections.abc import Iterable
from typing import Protocol, final

from typing_extensions import Buffer

class HasFileno(Protocol):
    def fileno(self) -> int: ...

@final
class FileSlice:
    """A slice of ``file``: ``length`` bytes from ``position`` on. ``file`` must keep its descriptor open while it is
    referenced.
    """

    file: HasFileno
    fd: int
    position: int
    length: int

    def __init__(self, file: HasFileno, position: int, length: int) -> None:
        """Raises ``ValueError`` for a negative position or length."""
    def __len__(self) -> int: ...
    def read(self) -> bytes:
        """Returns the bytes. Raises ``OSError``, and ``EOFError`` if the file is shorter."""

def sendfile(socket_fd: int, part: FileSlice, sent: int = 0) -> int:
    """Sends the rest of ``part``, of which ``sent`` bytes were sent before. Returns the number of bytes sent now, or -1
    if the socket takes none.

    0 means that nothing is left, or that the file is shorter than the slice. Raises ``OSError`` (for example
    ``BrokenPipeError``), and ``ValueError`` for an impossible ``sent``.
    """

def writev(fd: int, buffers: Iterable[Buffer]) -> int:
    """Writes the first 64 of ``buffers`` in one call. Returns the number of bytes written, or -1 if none could be.
    Raises ``OSError``.
    """
