from collections import deque
from collections.abc import Callable
from typing import Any

from cy.wire.messages import Message
from cy.produce.produce_template import Cast
from cy.wire.sendfile import FileSlice

class Pending:
    """A request that is not answered yet: a message, what makes one for a version, or a cast."""

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
        """None once it was sent."""
    @property
    def on_done(self) -> Callable[[Any, Any], object]:
        """Called with the response and None, or None and an error."""
    @property
    def deadline(self) -> float:
        """When it counts as lost, in seconds of the client's clock."""
    @property
    def max_version(self) -> int | None: ...
    @property
    def version(self) -> int:
        """That it was sent in; -1: it was not."""
    @property
    def correlation_id(self) -> int: ...
    end: int
    """The bytes of its connection up to where its frame ends."""

class Connection:
    """The order of requests and responses of one connection."""

    def __init__(self, client_id: str | None) -> None: ...
    @property
    def in_flight(self) -> deque[Pending]: ...
    @property
    def departing(self) -> deque[Pending]:
        """Those without a response (Produce with acks=0), until they have left."""
    def encode(self, request: Pending, version: int) -> bytes | list[bytes | FileSlice]:
        """The frame of a request, which is in flight from now on, or departing if it has no response.
        Raises EncodeError, and what makes the message raises.
        """
    def decode(self, view: memoryview, start: int, end: int, reused: bool) -> tuple[Pending, Any]:
        """The request that a frame answers, and its response. Raises DecodeError.

        ``reused``: the view's memory will be overwritten, so that a response that keeps views of
        it needs a copy.
        """
    def departed(self, sent: int) -> list[Pending]:
        """Those of ``departing`` that are gone when so many bytes of the connection are sent."""
    @property
    def is_busy(self) -> bool:
        """There are requests that are not done."""
    def __len__(self) -> int:
        """The requests that are not done."""
    def earliest_deadline(self) -> float | None:
        """When the first request is overdue, None without any."""
    def take_all(self) -> list[Pending]:
        """The requests that are not done, and never will be."""
