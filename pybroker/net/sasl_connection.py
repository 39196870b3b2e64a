"""A connection whose client has to say by SASL who it is, before anything else and perhaps again and again.

Which request may come when is decided in ``security.authentication``; what it says, its handlers hand on. A client that
is refused hears so after a delay, and its connection ends.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Protocol

from cy.wire.frames import FrameReader
from cy.wire.send_queue import SendQueue
from pybroker import waiting
from pybroker.net import complaint
from pybroker.net.connection import ANONYMOUS, Connection, Server
from pybroker.net.reply import Reply
from pybroker.net.routes import Refused
from pyclient.protocol.errors import IllegalSaslState, KafkaError

_key = struct.Struct(">h")
_length = struct.Struct(">i")
UNKNOWN: Final = -1


class Says(Protocol):
    """What is needed of ``security.authentication.Authentication``."""

    user: str | None
    is_strange: bool

    @property
    def takes_tokens(self) -> bool: ...

    @property
    def is_known(self) -> bool: ...

    @property
    def is_open(self) -> bool: ...

    def admit(self, api_key: int, now_s: float) -> None: ...

    def on_message(self, message: bytes, now_s: float) -> bytes | Future[bytes]: ...

    def on_answer(self, answer: Future[bytes], now_s: float) -> bytes: ...


class Authenticated(Protocol):
    """What is needed of a listener's SASL (``security.listener_sasl``)."""

    def begin(self) -> Says:
        """For a new connection."""


class SaslConnection(Connection):
    """A connection of a listener of SASL; ``principal`` is that of its user, once it is known."""

    __slots__ = ("_began_at", "_is_refused", "sasl")
    sasl: Says

    def __init__(
        self,
        sasl: Says,
        server: Server,
        sock: socket.socket,
        number: int,
        listener_name: str,
        local_address: tuple[str, int],
        peer_address: tuple[str, int],
        reader: FrameReader | None = None,
        out: SendQueue | None = None,
        principal: str = ANONYMOUS,
    ) -> None:
        """``principal``: what a certificate says, which does not count here."""
        super().__init__(server, sock, number, listener_name, local_address, peer_address, reader, out)
        self.sasl = sasl
        self._began_at = self.active_at
        self._is_refused = False
        self._reader.max_frame = server.limits.strange_bytes
        strangers = server.strangers[listener_name]
        strangers[self] = None
        if len(strangers) > server.limits.max_handshakes:
            next(iter(strangers)).give_way()

    def give_way(self, why: str = "it had not said who it is") -> None:
        """Ends, as there are too many connections, or too many whose client has not said who it is."""
        complaint.refused(self._server.log, self, f"{why}, and gives way to others")
        self.close()

    def _serve(self, view: memoryview, start: int, end: int) -> None:
        sasl = self.sasl
        if sasl.is_open:
            super()._serve(view, start, end)
            return
        if sasl.takes_tokens:
            self._take(bytes(view[start:end]))
            return
        key = _key.unpack_from(view, start)[0] if end - start >= _key.size else UNKNOWN
        try:
            sasl.admit(key, self._server.loop.time())
        except IllegalSaslState as error:
            raise Refused(str(error)) from None
        super()._serve(view, start, end)
        if not sasl.is_known:  # it says again who it is
            self._reader.max_frame = self._server.limits.strange_bytes

    def _take(self, token: bytes) -> None:
        """A message of the mechanism, without a request around it (SaslHandshake v0)."""
        try:
            answer = self.sasl.on_message(token, self._server.loop.time())
        except KafkaError as error:
            self._wait_for(self.refuse(None, error))
            return
        if isinstance(answer, Future):
            self._wait_for(self._take_later(answer))
            return
        self._put(_length.pack(len(answer)) + answer)
        self.on_said()

    async def _take_later(self, answer: Future[bytes]) -> None:
        try:
            found = await self.answer(answer)
        except KafkaError as error:
            await self.refuse(None, error, is_due=True)
            return
        self._put(_length.pack(len(found)) + found)
        self.on_said()

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        """What follows has no request, and so no response."""
        result = waiting.start(work, self._server.loop)
        self._answer_with(result, Reply(None, 0, 0))  # type: ignore[arg-type]

    async def answer(self, answer: Future[bytes]) -> bytes:
        """What a thread makes of the client's message; nothing further is read meanwhile. Raises KafkaError."""
        self.hold()
        try:
            with suppress(Exception):  # on_answer raises it
                await asyncio.wrap_future(answer, loop=self._server.loop)
            return self.sasl.on_answer(answer, self._server.loop.time())
        finally:
            self.release()

    def on_said(self) -> None:
        """The client has said something that was right."""
        if self.sasl.is_known:
            self.principal = ANONYMOUS if self.sasl.user is None else f"User:{self.sasl.user}"
            self._reader.max_frame = self._server.limits.max_request_bytes
            self._server.strangers[self.listener_name].pop(self, None)

    async def refuse(self, response: Any, error: KafkaError, *, is_due: bool = False) -> Any:
        """The last response, after a delay; nothing is read any more. Where others are due before it, in a session that
        is over, the connection ends without any. ``is_due``: it is one of those that are due.
        """
        why = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        complaint.refused(self._server.log, self, why)
        self.hold()
        if self.unanswered > is_due:
            self.close()
        await asyncio.sleep(self._server.limits.refusal_delay_s)
        self._is_refused = True
        return response

    def _send(self) -> None:
        super()._send()
        if self._is_refused and not self.closed and not self.unanswered:
            self.close()

    def is_overdue(self, now: float) -> str | None:
        """Also where it does not say who it is."""
        limit_s = self._server.limits.handshake_s
        if self.sasl.is_strange and now - self._began_at > limit_s:
            return f"it did not say who it is within {limit_s:.0f} s"
        return super().is_overdue(now)
