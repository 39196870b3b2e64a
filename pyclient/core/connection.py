"""Requests of one connection that wait for their responses: no socket, no clock.

Kafka answers in the order of requests, so the oldest request in flight is the one that a response
belongs to; another correlation id means that the stream is broken. A request that is not answered
in time takes its connection with it: what comes after it on the same stream is not to be trusted
with its time either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cy.buffer import DecodeError
from cy.messages import Message
from cy.mould import Cast
from pyclient.core.versions import Versions
from pyclient.protocol import ApiVersions, Fetch, Produce
from pyclient.protocol.stream import BrokenStream

if TYPE_CHECKING:
    from pyclient.errors import KafkaError
    from pyclient.protocol.apis import Api, Frame

OnDone = Callable[[Any, "KafkaError | None"], None]
Request = Message | Cast | Callable[[int], Message]

_UNSUPPORTED_VERSION = 35


class Pending:
    """A request that is not answered yet. ``deadline``: when it counts as lost. ``end``: the bytes
    of its connection up to where its frame ends.
    """

    __slots__ = ("api", "correlation_id", "deadline", "end", "max_version", "message", "on_done", "version")

    def __init__(
        self, api: Api, message: Request, on_done: OnDone, deadline: float, max_version: int | None
    ) -> None:
        self.api = api
        self.message: Request | None = message
        self.on_done = on_done
        self.deadline = deadline
        self.max_version = max_version
        self.version = -1
        self.correlation_id = -1
        self.end = -1


class Connection:
    """The order of requests and responses of one connection."""

    __slots__ = ("_client_id", "_next_id", "departing", "in_flight", "versions")

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._next_id = 0
        self.in_flight: deque[Pending] = deque()
        self.departing: deque[Pending] = deque()
        """Those without a response (Produce with acks=0), until they have left."""
        self.versions: Versions | None = None

    def encode(self, request: Pending, version: int) -> Frame:
        """The frame of a request, which is in flight from now on, or departing if it has no response."""
        api, correlation_id, message = request.api, self._next_id, request.message
        frame: Frame
        if isinstance(message, Cast):
            silent = message.silent
            frame = message.encode(version, correlation_id, self._client_id)
        else:
            assert message is not None
            told = message if isinstance(message, Message) else message(version)
            silent = api is Produce and told.acks == 0  # type: ignore[attr-defined]
            frame = api.encode_request(version, correlation_id, self._client_id, told)
        request.version, request.correlation_id, request.message = version, correlation_id, None
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        (self.departing if silent else self.in_flight).append(request)
        return frame

    def decode(self, view: memoryview, start: int, end: int, reused: bool) -> tuple[Pending, Any]:
        """The request that a frame answers, and its response. Raises BrokenStream.

        ``reused``: the view's memory will be overwritten, so that a response that keeps views of
        it needs a copy.
        """
        if not self.in_flight:
            raise BrokenStream("a response that nothing asked for")
        request = self.in_flight[0]
        api, version = request.api, request.version
        if reused and api is Fetch:
            view, start, end = memoryview(bytes(view[start:end])), 0, end - start
        try:
            if api is ApiVersions:
                version = _version_of(view, start, end, version)
            decode = api.response_codec.decode_response
            response = decode(version, request.correlation_id, view, start, end)
        except DecodeError as error:
            raise BrokenStream(f"{api.name} v{version}: {error}") from error
        self.in_flight.popleft()
        return request, response

    def departed(self, sent: int) -> list[Pending]:
        """Those of ``departing`` that are gone when so many bytes of the connection are sent."""
        gone = []
        while self.departing and self.departing[0].end <= sent:
            gone.append(self.departing.popleft())
        return gone

    @property
    def is_busy(self) -> bool:
        """There are requests that are not done."""
        return bool(self.in_flight or self.departing)

    def __len__(self) -> int:
        """The requests that are not done."""
        return len(self.in_flight) + len(self.departing)

    def earliest_deadline(self) -> float | None:
        """When the first request is overdue, None without any."""
        waiting = (*self.in_flight, *self.departing)
        return min((request.deadline for request in waiting), default=None)

    def take_all(self) -> list[Pending]:
        """The requests that are not done, and never will be."""
        lost = [*self.in_flight, *self.departing]
        self.in_flight.clear()
        self.departing.clear()
        return lost


def _version_of(view: memoryview, start: int, end: int, asked: int) -> int:
    """The version of an ApiVersions response: who does not know the one that was asked for answers in
    the first one (KIP-511). The error code follows the correlation id in all of them.
    """
    at = min(start + 4, end)
    code = int.from_bytes(view[at : min(at + 2, end)], "big", signed=True)
    return 0 if code == _UNSUPPORTED_VERSION else asked
