"""A connection whose client must authenticate by SASL before anything else, and perhaps repeatedly.

``security.sasl.authentication`` decides which request is valid at each step; the handlers pass the messages to it. A
refused client gets its answer after a delay, and then its connection ends.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from pybroker import waiting
from pybroker.net import complaint
from pybroker.net.channel import ANONYMOUS, Accepted, Server
from pybroker.net.connection import Connection
from pybroker.net.reply import Reply
from pybroker.net.routes import Refused
from pyclient.protocol.errors import IllegalSaslState, KafkaError

if TYPE_CHECKING:
    from pybroker.net.strangers import Strangers

_key = struct.Struct(">h")
_length = struct.Struct(">i")
UNKNOWN: Final = -1
MOST_OF_STRANGERS: Final = 64 << 20
"""How many bytes of incomplete frames all unauthenticated clients of a listener may hold together."""
LARGE: Final = 16 << 10
"""Only incomplete frames of more bytes count for this: a login rarely has so many."""


class Says(Protocol):
    """The part of ``security.sasl.authentication.Authentication`` that this module uses."""

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
    """The part of a listener's SASL (``security.sasl.listener_sasl``) that this module uses."""

    def begin(self) -> Says:
        """Returns the authentication of a new connection."""


class SaslConnection(Connection):
    """A connection of a SASL listener; ``principal`` is that of its user, once the client is authenticated."""

    __slots__ = ("_began_at", "_is_refused", "sasl")
    sasl: Says

    def __init__(self, sasl: Says, server: Server, number: int, accepted: Accepted) -> None:
        super().__init__(server, number, accepted._replace(principal=ANONYMOUS))  # a certificate gives no user here
        self.sasl = sasl
        self._began_at = self.active_at
        self._is_refused = False
        self._reader.max_frame = server.limits.strange_bytes_at(self.listener_name)
        strangers = server.strangers[self.listener_name]
        strangers.add(self)
        if len(strangers) > server.limits.max_handshakes:
            next(iter(strangers)).give_way()

    def give_way(self, why: str = "it had not authenticated") -> None:
        """Closes the connection, because there are too many connections or too many unauthenticated ones."""
        complaint.refused(self._server.log, self, f"{why}, and gives way to others")
        self.close()

    def _serve_frames(self) -> None:
        super()._serve_frames()
        if self.sasl.is_strange:
            strangers, taken = self._server.strangers[self.listener_name], self._reader.taken
            strangers.note(self, taken if taken > LARGE else 0)
            if strangers.held > MOST_OF_STRANGERS:
                self._limit_strangers(strangers)

    def _limit_strangers(self, strangers: Strangers[SaslConnection]) -> None:
        """Closes the oldest unauthenticated clients with large frames, until the others hold few enough bytes."""
        for each in strangers.holders():
            if strangers.held <= MOST_OF_STRANGERS:
                break
            each.give_way("it had a long frame and had not authenticated")

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
        if not sasl.is_known:  # the client authenticates again
            self._reader.max_frame = self._server.limits.strange_bytes_at(self.listener_name)

    def _take(self, token: bytes) -> None:
        """Handles a mechanism's message without a request around it (SaslHandshake v0)."""
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
        """Waits for work that belongs to no request, so that no response waits for it."""
        result = waiting.start(work, self._server.loop)
        self._answer_with(result, Reply(None, 0, 0))  # type: ignore[arg-type]

    async def answer(self, answer: Future[bytes]) -> bytes:
        """Returns a thread's answer to the client's message; reads nothing meanwhile. Raises KafkaError."""
        self.hold()
        try:
            with suppress(Exception):  # on_answer raises it
                await asyncio.wrap_future(answer, loop=self._server.loop)
            return self.sasl.on_answer(answer, self._server.loop.time())
        finally:
            self.release()

    def on_said(self) -> None:
        """Notes that a message of the client was correct."""
        if self.sasl.is_known:
            self.principal = ANONYMOUS if self.sasl.user is None else f"User:{self.sasl.user}"
            self._reader.max_frame = self._server.limits.max_request_bytes
            self._server.strangers[self.listener_name].drop(self)

    async def refuse(self, response: Any, error: KafkaError, *, is_due: bool = False) -> Any:
        """Returns the last response after a delay; from now on, reads nothing from the client.

        If earlier replies are pending in an expired session, the connection ends without a response. ``is_due`` tells
        that this response is one of the pending ones.
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
        """Returns why the sweep should close this connection, or None. A late authentication is a reason too."""
        limit_s = self._server.limits.handshake_s
        if self.sasl.is_strange and now - self._began_at > limit_s:
            return f"it did not authenticate within {limit_s:.0f} s"
        return super().is_overdue(now)
