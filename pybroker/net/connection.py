"""One client's connection: requests in, replies out in the order of the requests.

A *visit* begins when the socket is readable: the connection receives once, serves every whole frame, and sends all
replies by one call. If that takes long (``VISIT_S``), the remaining frames wait for the next turn of the loop, so that
other connections are served in between. A request or reply with many parts is decoded or encoded on a thread
(``large_messages``). Meanwhile the connection is *held*: none of its further requests is served. Handlers that depend
on the order of requests hold their connection too.

A reply that is not ready takes a place in ``_replies``. Later replies wait behind it: replies leave in the order of
their requests, in whatever order they become ready.

Reading stops (the ``channel`` below is *muted*) while the connection is held, too many requests are unanswered, or too
many bytes are unsent. Every event that ends such a state resumes reading.

The connection ends if the peer closes it, if bytes do not parse, if a request is unsupported, or if a handler failed.
The sweep of the server also ends it (idle, a frame that stays incomplete, shutdown). Its waiting requests are then
cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from inspect import iscoroutine
from typing import Any

from cy.wire.buffer import DecodeError, TooMuch
from cy.wire.frames import FrameError
from pybroker import waiting
from pybroker.loop_watch import STALL_S
from pybroker.net import complaint
from pybroker.net.channel import Accepted, Channel, Server
from pybroker.net.large_messages import ENCODED_UNITS, LOOP_UNITS
from pybroker.net.reply import Reply
from pybroker.net.routes import Refused, Route
from pyclient.protocol.frames import decode_request_header

MALFORMED = (FrameError, DecodeError, Refused)
VISIT_S = 0.003
"""The time limit of a visit: further frames wait until other connections have been served."""


class Connection(Channel):
    """The requests and replies of one client. The server creates it; when it ends, it calls the server's ``closed``."""

    sasl: Any = None
    """The client's authentication (``security.sasl.authentication``), on SASL listeners."""
    __slots__ = (
        "_apart",
        "_call",
        "_held",
        "_replies",
        "_route",
        "_sending_soon",
        "authentication",
        "broker_id",
        "client_software_name",
        "client_software_version",
        "principal",
        "share",
    )

    def __init__(self, server: Server, number: int, accepted: Accepted) -> None:
        super().__init__(server, number, accepted)
        self._replies: deque[Reply] | None = None
        self._call: Any = None
        self._sending_soon = self._apart = False
        self._route: Route | None = None
        self._held = 0
        self.client_software_name = self.client_software_version = "unknown"
        self.broker_id: int | None = None
        self.authentication: Any = None
        self.principal = accepted.principal
        self.share: Any = None
        self._read(True)

    @property
    def unanswered(self) -> int:
        """The number of requests whose replies are not being sent yet."""
        return len(self._replies) if self._replies else 0

    # -- in ----------------------------------------------------------------------------------------

    def _visit(self) -> None:
        """Serves the received frames and sends the replies, as far as the limits allow."""
        while self._socket is not None:
            self._stopped = False
            try:
                self._serve_frames()
            except MALFORMED as error:
                self._malformed(error)
                break
            except Exception as error:
                self._failed("a request", error)
                break
            if self._out.unsent and not self._writing:
                self._flush()
            if not self._stopped or self._reader.late or self._is_full():
                break
        took_s = self._reader.visit_s()
        if took_s > self._server.notable_s:
            share = self.share
            if took_s > STALL_S or share is None or not share.spend(took_s, self.active_at):
                self._server.visited(self._route, self._call, took_s)

    def _serve_frames(self) -> None:
        reader, served = self._reader, False
        while not self._is_full():
            frame = reader.next(VISIT_S)
            if frame is None:
                if reader.late:
                    self._stopped = True
                    self._server.loop.call_soon(self._go_on)
                break
            served = True
            self._serve(*frame)
            if self._socket is None:
                return
        else:
            self._stopped = True
        reader.keep()
        if not reader.pending:
            self._partial_since = 0.0
        elif served or not self._partial_since:
            self._partial_since = self._server.loop.time()

    def _is_full(self) -> bool:
        limits = self._server.limits
        replies = self._replies
        return (
            self._held > 0
            or self._out.unsent > limits.max_unsent
            or (replies is not None and len(replies) >= limits.max_unanswered)
        )

    def hold(self) -> None:
        """Serves no further request until ``release`` has been called as often."""
        self._held += 1

    def release(self) -> None:
        """Ends a ``hold``; requests received meanwhile are served in the next turn of the loop."""
        self._held -= 1
        if self._stopped and not self._held:
            self._server.loop.call_soon(self._go_on)

    def _serve(self, view: memoryview, start: int, end: int) -> None:
        """Decodes one request and passes it to its handler."""
        header = decode_request_header(view, start, end)
        version, correlation_id = header.api_version, header.correlation_id
        route = self._server.routes.find(header.api_key, version)
        if route is None:
            self._put(self._server.routes.unsupported(correlation_id))
            return
        call, client_id = self._call, header.client_id
        if route is not self._route or call.version != version or call.client_id != client_id:
            if self._route is None:
                self._server.silent.pop(self, None)
            if call is None or call.client_id != client_id:
                self.share = None
            self._route = route
            call = self._call = self._server.routes.make_call(version, client_id, self, route.name)
        try:
            request = route.decode(version, view, header.position, end, LOOP_UNITS)
        except TooMuch:
            data = view[header.position : end]
            self._serve_apart(route, call, correlation_id, bytes(data) if self._reader.reuses else data)
            return
        try:
            result = route.handle(request, call)
            is_ready = type(result) is route.response
            throttling = self._server.throttling
            if throttling is not None:
                share = self.share
                if share is None or not share.is_within(route.produces, result, end - start, self.active_at):
                    result = throttling.count(route, result, call, end - start)
            if not is_ready and iscoroutine(result):
                result = waiting.start(result, self._server.loop)
                is_ready = type(result) is route.response
            if is_ready and not self._replies:
                try:
                    self._out.append(route.encode(version, correlation_id, result, ENCODED_UNITS))
                    return
                except TooMuch:
                    pass  # _set encodes it on a thread
        except Exception as error:
            self._failed(route.name, error)
            return
        self._answer_with(result, Reply(route, version, correlation_id))

    def _serve_apart(self, route: Route, call: Any, correlation_id: int, data: Any) -> None:
        """Decodes a large request on a thread. The connection is held until its handler has begun."""
        self.hold()
        work = self._handle_apart(route, call, data)
        reply = Reply(route, call.version, correlation_id)
        self._answer_with(self._server.loop.create_task(work), reply)

    async def _handle_apart(self, route: Route, call: Any, data: Any) -> Any:
        try:
            size = len(data)
            request = await self._server.large_messages.decode(route, call.version, data, 0, size)
            del data
            self._apart = True
            result = route.handle(request, call)
            if self._server.throttling is not None:
                result = self._server.throttling.count(route, result, call, size)
            del request
            if iscoroutine(result):
                result = waiting.start(result, self._server.loop)
        finally:
            self._apart = False
            self.release()
        return await result if isinstance(result, asyncio.Future) else result

    @property
    def pinned(self) -> bool:
        """True if the bytes of the current request stay valid as long as they are referenced."""
        return self._apart or not self._reader.reuses

    # -- sending -----------------------------------------------------------------------------------

    def _put(self, data: Any) -> None:
        """Queues a reply that is ready, behind those that are not."""
        if not self._replies:
            self._out.append(data)
            return
        reply = Reply(None, 0, 0)  # type: ignore[arg-type]
        reply.data, reply.ready = data, True
        self._replies.append(reply)

    def _answer_with(self, result: Any, reply: Reply) -> None:
        """Sends the reply from a handler's result: a response, None, or a future of either."""
        if result is None:
            return
        if self._replies is None:
            self._replies = deque()
        self._replies.append(reply)
        if isinstance(result, asyncio.Future):
            reply.source = result
            result.add_done_callback(partial(self._on_result, reply))
        else:
            self._set(reply, result)

    def _on_result(self, reply: Reply, source: asyncio.Future[Any]) -> None:
        """Handles the result of a handler that had to wait."""
        if self._socket is None:
            if not source.cancelled():
                source.exception()
            return
        reply.source = None
        try:
            try:
                result = source.result()
            finally:
                del source  # it refers to its exception, which refers to this frame and the request: a cycle
            self._set(reply, result)
        except asyncio.CancelledError:
            self.close()
            return
        except MALFORMED as error:
            self._malformed(error)
            return
        except Exception as error:
            self._failed(reply.route.name, error)
            return
        self._after_reply()

    def _on_encoded(self, reply: Reply, source: asyncio.Future[Any]) -> None:
        """Sends a large response that was encoded on a thread."""
        if self._socket is None or source.cancelled():
            return
        reply.source = None
        if (error := source.exception()) is not None:
            self._failed(reply.route.name, error)
            return
        reply.data = source.result()
        self._ready(reply)
        self._after_reply()

    def _set(self, reply: Reply, result: Any) -> None:
        """Encodes the response, and moves the replies that are ready to the socket's queue."""
        if result is not None:
            route, version, correlation_id = reply.route, reply.version, reply.correlation_id
            try:
                reply.data = route.encode(version, correlation_id, result, ENCODED_UNITS)
            except TooMuch:
                reply.source = self._server.large_messages.encode(route, version, correlation_id, result)
                reply.source.add_done_callback(partial(self._on_encoded, reply))
                return
        self._ready(reply)

    def _ready(self, reply: Reply) -> None:
        reply.ready = True
        replies = self._replies
        assert replies is not None
        while replies and replies[0].ready:
            data = replies.popleft().data
            if data is not None:
                self._out.append(data)
        if not replies:
            self._replies = None

    def _after_reply(self) -> None:
        """Sends now, or at the end of this turn of the loop if other replies may become ready."""
        if not self._replies:
            self._send()
        elif not self._sending_soon:
            self._sending_soon = True
            self._server.loop.call_soon(self._send_soon)

    def _send_soon(self) -> None:
        self._sending_soon = False
        self._send()

    def _send(self) -> None:
        if self._out.unsent and not self._writing:
            self._flush()
        self._go_on()

    # -- the end -----------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        """Returns True if no request is being handled and no reply is being sent, so that closing loses nothing."""
        return not self._replies and not self._out.unsent

    def _cancel(self) -> None:
        replies, self._replies = self._replies, None
        for reply in replies or ():
            if reply.source is not None:
                reply.source.cancel()

    def _malformed(self, error: Exception) -> None:
        """Closes the connection after the peer's error. First sends earlier replies, as far as the socket takes them.
        """
        complaint.malformed(self._server.log, self, error)
        if self._out.unsent and not self._writing:
            self._flush()
        self.close()

    def _failed(self, what: str, error: BaseException) -> None:
        """Closes the connection because a handler failed. Sends ready replies first, as far as the socket takes them.
        """
        complaint.failed(self._server.log, self, what, error)
        if self._out.unsent and not self._writing:
            self._flush()
        self.close()
