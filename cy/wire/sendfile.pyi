from collections.abc import Iterable
from typing import Protocol, final

from typing_extensions import Buffer

class HasFileno(Protocol):
    def fileno(self) -> int: ...

@final
class FileSlice:
    """``length`` bytes of ``file`` from ``position`` on; ``file`` keeps its descriptor open while it is referenced."""

    file: HasFileno
    fd: int
    position: int
    length: int

    def __init__(self, file: HasFileno, position: int, length: int) -> None:
        """``ValueError`` for a negative position or length."""
    def __len__(self) -> int: ...
    def read(self) -> bytes:
        """The bytes. ``EOFError`` where the file is shorter, ``OSError``."""

def sendfile(socket_fd: int, part: FileSlice, sent: int = 0) -> int:
    """Sends from ``part``, of which ``sent`` bytes have left: bytes sent now, or -1 where the socket takes none.

    0 means that nothing is left, or that the file is shorter than the slice. Raises ``OSError`` (``BrokenPipeError`` and such)
    and ``ValueError`` for an impossible ``sent``.
    """

def writev(fd: int, buffers: Iterable[Buffer]) -> int:
    """Writes the first 64 of ``buffers`` in one call: bytes written, or -1 where none could be. Raises ``OSError``."""
