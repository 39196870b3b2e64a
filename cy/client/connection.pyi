from collections import deque
from collections.abc import Callable
from typing import Any

from cy.wire.messages import Message
from cy.produce.produce_template import Cast
from cy.wire.sendfile import FileSlice

class Pending:
    """A request that is not answered yet: a message, a function that makes one for a version, or a cast."""

    def __init__(
        self,
        api: Any,
        message: Message | Cast | Callable[[int], Message],
        on_done: Callable[[Any, Any], object],
        deadline: float,
        max_version: int | None,
    ) -> None: ...
    @property
    def api(self) -> Any: ...
    @property
    def message(self) -> Message | Cast | Callable[[int], Message] | None:
        """The message; None after it was sent."""
    @property
    def on_done(self) -> Callable[[Any, Any], object]:
        """Called with the response and None, or None and an error."""
    @property
    def deadline(self) -> float:
        """When the request times out, in seconds of the client's clock."""
    @property
    def max_version(self) -> int | None: ...
    @property
    def version(self) -> int:
        """The version in which it was sent, -1 if it was not sent yet."""
    @property
    def correlation_id(self) -> int: ...
    end: int
    """The position in the connection's bytes at which the request's frame ends."""

class Connection:
    """Keeps the order of requests and responses of one connection."""

    def __init__(self, client_id: str | None) -> None: ...
    @property
    def in_flight(self) -> deque[Pending]: ...
    @property
    def departing(self) -> deque[Pending]:
        """Requests without a response (Produce with acks=0), until they are sent."""
    def encode(self, request: Pending, version: int) -> bytes | list[bytes | FileSlice]:
        """Returns the frame of a request. The request is then in flight, or departing if it has no response. Raises
        EncodeError, and whatever the message's function raises.
        """
    def decode(self, view: memoryview, start: int, end: int, reused: bool) -> tuple[Pending, Any]:
        """Returns the request that a frame answers, and its response. Raises DecodeError.

        With ``reused``, the view's memory will be overwritten, so a response with views of it gets a copy.
        """
    def departed(self, sent: int) -> list[Pending]:
        """Removes from ``departing`` the requests that are sent completely once the connection has sent ``sent`` bytes.
        Returns them.
        """
    @property
    def is_busy(self) -> bool:
        """True while there are unfinished requests."""
    def __len__(self) -> int:
        """How many requests are unfinished."""
    def earliest_deadline(self) -> float | None:
        """Returns the earliest deadline of a request, None if there is none."""
    def take_all(self) -> list[Pending]:
        """Removes and returns all unfinished requests, because the connection has ended."""
