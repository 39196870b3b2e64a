"""Throttles clients that exceed their quotas. It exists only while clients have quotas.

Most requests do not get here: the connection asks its client's ``share``, which this module has stored in it. The
broker sends a response without delay. The response tells for how long its connection is then *muted*: nothing more is
read from it. A request may have several delays, of which the longest counts. One is for its bytes (Produce), one comes
from its handler (Fetch, and changes of topics), and one is for the loop time that its client has used. Loop time is the
time of whole visits to a connection (decode, handle, encode, send) and of later steps of handlers. Work on threads does
not count.

Brokers of this cluster have no quotas, and unauthenticated clients have none yet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from inspect import iscoroutine
from types import coroutine
from typing import Any, Final, Protocol

from cy.quota import Share
from pybroker.net.routes import Route
from pybroker.quotas.client_quotas import LONGEST, ClientQuotas

TOLD: Final = "throttle_time_ms"
PERCENT: Final = 100


class Connection(Protocol):
    """The part of ``connection.Connection`` that this module uses."""

    principal: str
    broker_id: int | None
    authentication: Any
    sasl: Any
    share: Share | None
    active_at: float

    @property
    def closed(self) -> bool: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...


class Call(Protocol):
    """The part of ``handlers.common.call.Call`` that this module uses."""

    connection: Any
    client_id: str | None


class Throttling:
    """The quotas of the clients of one server."""

    def __init__(self, quotas: ClientQuotas, loop: asyncio.AbstractEventLoop) -> None:
        self._quotas = quotas
        self._loop = loop
        self._muted: dict[Connection, asyncio.TimerHandle] = {}

    @property
    def counts_time(self) -> bool:
        """True if any client has a quota of loop time."""
        return self._quotas.limit_time

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def count(self, route: Route, result: Any, call: Call, size: int) -> Any:
        """Counts a handled request of ``size`` bytes whose client's ``share`` does not allow an immediate answer.

        Returns the result to send instead of ``result``.
        """
        connection: Connection = call.connection
        if connection.broker_id is not None or (connection.sasl is not None and not connection.sasl.is_known):
            return result
        if iscoroutine(result):
            return self._later(route, result, call, size)
        if isinstance(result, asyncio.Future):
            result.add_done_callback(partial(self._count_done, route, call, size))
        else:
            self._count(route, result, call, size)
        return result

    async def _later(self, route: Route, result: Any, call: Call, size: int) -> Any:
        if self.counts_time:
            self._share(call, self._now_ms())  # the first steps count for it
            result = _timed(result, partial(self.spent, call))
        response = await result
        self._count(route, response, call, size)
        return response

    def _count_done(self, route: Route, call: Call, size: int, result: asyncio.Future[Any]) -> None:
        """Counts a request whose handler had to wait, before the connection takes the result."""
        if not result.cancelled() and result.exception() is None:
            self._count(route, result.result(), call, size)

    def spent(self, call: Call, seconds: float) -> None:
        """Counts loop time of the call's client, if its share is known."""
        connection: Connection = call.connection
        client_id = call.client_id and call.client_id[:LONGEST]
        share = self._quotas.known.get((connection.principal, client_id))
        if share is not None and connection.broker_id is None:
            share.spend(seconds, self._loop.time())

    def _share(self, call: Call, now_ms: int) -> Share:
        """Returns the share of the call's client. The connection caches it, unless a broker's proof is in progress."""
        connection: Connection = call.connection
        share = self._quotas.share(connection.principal, call.client_id, now_ms)
        if connection.authentication is None:
            connection.share = share
        return share

    def _count(self, route: Route, response: Any, call: Call, size: int) -> None:
        now_ms = self._now_ms()
        share = self._share(call, now_ms)
        delay_ms = 0 if share.request is None else share.request.delay_ms(now_ms)
        if route.produces and share.produce is not None:
            delay_ms = max(delay_ms, share.produce.use(size, now_ms))
        self._tell(call.connection, response, delay_ms)

    def _tell(self, connection: Connection, response: Any, delay_ms: int) -> None:
        """Puts the longer delay, the client's or the handler's, into ``response``, and mutes the connection for it."""
        told_ms = getattr(response, TOLD, None)
        if told_ms is not None and delay_ms > told_ms:
            response.throttle_time_ms = delay_ms
        elif told_ms:
            delay_ms = told_ms
        if delay_ms:
            self._mute(connection, delay_ms)

    def _mute(self, connection: Connection, delay_ms: int) -> None:
        """Mutes the connection for this time, unless it is already muted for longer."""
        if connection.closed:
            return
        until = self._loop.time() + delay_ms / 1000
        muted = self._muted.get(connection)
        if muted is None:
            connection.hold()
        elif muted.when() >= until:
            return
        else:
            muted.cancel()
        self._muted[connection] = self._loop.call_at(until, self._unmute, connection)

    def _unmute(self, connection: Connection) -> None:
        del self._muted[connection]
        connection.release()

    def forget(self, connection: Connection) -> None:
        """Forgets a closed connection."""
        muted = self._muted.pop(connection, None)
        if muted is not None:
            muted.cancel()

    def unmute_all(self) -> None:
        """Unmutes all connections after a change of quotas; the new quotas delay their next requests."""
        for connection, muted in list(self._muted.items()):
            muted.cancel()
            self._unmute(connection)


@coroutine
def _timed(work: Coroutine[Any, Any, Any], spent: Callable[[float], None]) -> Generator[Any, Any, Any]:
    """Awaits ``work`` and reports how long its steps take, except the first, which is part of a visit."""
    try:
        waits_for = work.send(None)
        while True:
            try:
                got = yield waits_for
            except BaseException as error:
                step = partial(work.throw, error)
            else:
                step = partial(work.send, got)
            begun_at = time.perf_counter()
            try:
                waits_for = step()
            finally:
                spent(time.perf_counter() - begun_at)
    except StopIteration as done:
        return done.value
