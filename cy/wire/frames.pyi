from collections.abc import Callable
from typing import Protocol

SCRATCH_SIZE: int
POOL_LIMIT: int
AGAIN: int
STARVED: int

class FrameError(ValueError):
    """The stream cannot be a stream of frames. ``prefix`` has its first bytes, at most eight.
    """

    prefix: bytes
    def __init__(self, message: str, prefix: bytes) -> None: ...

def protocol_of(prefix: bytes) -> str:
    """Returns which protocol the first bytes of a stream look like, as the end of a sentence."""

class Incoming(Protocol):
    """The encrypted bytes of a layer, such as an ``ssl.MemoryBIO``."""

    @property
    def pending(self) -> int:
        """The number of bytes that wait to be decrypted."""

class Layer(Protocol):
    """A layer that decrypts, such as ``pyclient.protocol.tls.TlsLayer``."""

    @property
    def incoming(self) -> Incoming:
        """The encrypted bytes that ``read`` takes."""
    @property
    def read(self) -> Callable[[int, memoryview], int]:
        """``read(size, view)`` decrypts at most ``size`` bytes, 16 KiB or less, into the view. It returns their number,
        0 at the end.
        """
    def feed_next(self, count: int) -> None:
        """Passes on some encrypted bytes, if there are any. ``count``: how many bytes this visit has read so far."""
    def cannot_read(self, error: Exception) -> int | None:
        """Takes what ``read`` raised. Returns AGAIN, 0 at the end, 1 if ``read`` can be called again, or None if the
        error ends the connection.
        """
    def end_reading(self) -> None:
        """Makes the socket report its end: the layer's end followed the data."""

class ReceiveMemory:
    """The memory into which the connections of one event loop receive."""

    scratch: object
    """The memory of which whole small frames are views."""
    limit: int
    """The limit of ``taken`` in bytes."""
    def __init__(
        self, limit: int = ..., *, scratch_size: int = ..., pool_limit: int = ...
    ) -> None: ...
    @property
    def taken(self) -> int:
        """The size in bytes of the blocks that connections hold."""
    @property
    def pooled(self) -> int:
        """The size in bytes of free blocks, which are kept for the next large frame."""
    def trim(self) -> None:
        """Frees the pool. Call it when no large frames arrive."""

class FrameReader:
    """The receiving half of one connection. Call ``receive`` once, ``next`` until it returns None or enough is in
    progress, then ``keep``.
    """

    max_frame: int
    """The largest accepted length of a frame, in bytes."""
    late: bool
    """True if the visit's time ended before all its frames were returned."""
    def __init__(self, memory: ReceiveMemory, max_frame: int) -> None: ...
    @property
    def pending(self) -> int:
        """The number of bytes that were received but not returned as frames."""
    @property
    def taken(self) -> int:
        """The bytes of memory that this connection holds."""
    @property
    def receives_little(self) -> bool:
        """True at the memory's limit: a layer that decrypts should take no more than it needs."""
    @property
    def reuses(self) -> bool: ...
    def receive(self, fd: int) -> int:
        """Receives once; returns the number of bytes, 0 at the end, AGAIN or STARVED. Raises FrameError, OSError."""
    def receive_by(self, layer: Layer) -> int:
        """Receives everything that ``layer`` decrypts. Returns and raises the same as ``receive``."""
    def go_on(self) -> None:
        """Begins a visit without receiving."""
    def visit_s(self) -> float:
        """Returns how long the visit has lasted."""
    def next(self, visit_s: float = 0) -> tuple[memoryview, int, int] | None:
        """Returns the next whole frame without its length field: ``(view, start, end)``. Raises FrameError. Also
        returns None, and sets ``late``, if the visit has lasted for ``visit_s``; but a visit returns at least one
        frame.

        The view is valid until the next call of any reader of the same memory.
        """
    def hand_on(self, on_frame: Callable[[memoryview, int, int, bool], object]) -> None:
        """Calls ``on_frame(view, start, end, reused)`` with each whole frame, then does ``keep``.

        If ``reused``, the view's memory will be overwritten. If the call closes the reader, no frame follows. Raises
        FrameError, and what the call raises.
        """
    def keep(self) -> None:
        """Ends a visit: bytes that were not returned move to this connection. Raises FrameError."""
    def close(self) -> None:
        """Returns all memory to the pool."""
