from collections.abc import Callable
from typing import Protocol

SCRATCH_SIZE: int
POOL_LIMIT: int
AGAIN: int
STARVED: int

class FrameError(ValueError):
    """The stream cannot be a stream of frames; ``prefix`` holds the bytes at fault, at most eight.
    """

    prefix: bytes
    def __init__(self, message: str, prefix: bytes) -> None: ...

def protocol_of(prefix: bytes) -> str:
    """Returns which protocol the first bytes of a stream look like, as the end of a sentence."""

class ReceiveMemory:
    """The memory into which the connections of one event loop receive."""

    scratch: object
    """What whole small frames are views of."""
    limit: int
    """Bound of ``taken`` in bytes."""
    def __init__(
        self, limit: int = ..., *, scratch_size: int = ..., pool_limit: int = ...
    ) -> None: ...
    @property
    def taken(self) -> int:
        """Bytes in blocks that connections hold."""
    @property
    def pooled(self) -> int:
        """Bytes in free blocks that are kept for the next large frame."""
    def trim(self) -> None:
        """Frees the pool; for times when nothing large arrives."""

class FrameReader:
    """The receiving half of one connection: ``receive`` once, ``next`` until None or enough,
    ``keep``.
    """

    max_frame: int
    """The largest length that is accepted, in bytes."""
    late: bool
    """True if the visit's time ended before all its frames were handed out."""
    def __init__(self, memory: ReceiveMemory, max_frame: int) -> None: ...
    @property
    def pending(self) -> int:
        """The bytes that were received but not handed out."""
    @property
    def taken(self) -> int:
        """The bytes of memory that this connection holds."""
    @property
    def reuses(self) -> bool: ...
    def receive(self, fd: int) -> int:
        """Receives once; returns the number of bytes, 0 at the end, AGAIN or STARVED. Raises FrameError, OSError."""
    def receive_by(self, read: Callable[[int, memoryview], int]) -> int:
        """Receives all that ``read(size, view)`` has, as a layer that decrypts gives it; the view dies with the call.

        ``read`` returns the number of bytes, 0 at the end, AGAIN. Returns and raises as ``receive``.
        """
    def go_on(self) -> None:
        """Begins a visit without receiving."""
    def visit_s(self) -> float:
        """How long the visit has lasted."""
    def next(self, visit_s: float = 0) -> tuple[memoryview, int, int] | None:
        """The next whole frame without its length field: ``(view, start, end)``. Raises FrameError.
        None also, and ``late``, where the visit has lasted for ``visit_s``; its first frame comes anyhow.

        The view is good until the next call of any reader of the same memory.
        """
    def hand_on(self, on_frame: Callable[[memoryview, int, int, bool], object]) -> None:
        """Calls ``on_frame(view, start, end, reused)`` with each whole frame, then does ``keep``.

        ``reused``: the view's memory will be overwritten. A reader that is closed meanwhile has no more
        frames. Raises FrameError, and what is raised by the call.
        """
    def keep(self) -> None:
        """Ends a visit: what was not handed out moves to this connection. Raises FrameError."""
    def close(self) -> None:
        """Gives all memory back."""
