"""Holds back clients that have used more than their quotas allow. It is there while any quota of clients is set.

Most requests do not come here: the connection asks the ``share`` of its client, which this has found and left there.

A response is sent first, and says how long its connection is *muted* from then on: nothing more is read of it. The
longest of a request's times counts. There is one for its bytes (Produce), one that its handler says (Fetch, and changes
of topics), and one for what its client has taken of the event loop. The loop's time is counted as it passes: whole
visits to a connection, which decode, handle, encode and send, and later steps of handlers. What threads do is not
counted.

Brokers of this cluster have no quotas, and a client that has not yet said who it is has none yet.
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

PRODUCE: Final = "Produce"
TOLD: Final = "throttle_time_ms"
PERCENT: Final = 100


class Connection(Protocol):
    """The part of ``connection.Connection`` that is used here."""

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
    """The part of ``handlers.common.call.Call`` that is used here."""

    connection: Any
    client_id: str | None


class Throttling:
    """Quotas of the clients of one server."""

    def __init__(self, quotas: ClientQuotas, loop: asyncio.AbstractEventLoop) -> None:
        self._quotas = quotas
        self._loop = loop
        self._muted: dict[Connection, asyncio.TimerHandle] = {}

    @property
    def counts_time(self) -> bool:
        """Whether any client has a quota of the loop's time."""
        return self._quotas.limit_time

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def count(self, route: Route, result: Any, call: Call, size: int) -> Any:
        """A request of ``size`` bytes has been handled, and ``share`` of its connection cannot say that it may be
        answered at once. Returns what takes the place of ``result``.
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
            self._share(call, self._now_ms())  # for its first steps
            result = _timed(result, partial(self.spent, call))
        response = await result
        self._count(route, response, call, size)
        return response

    def _count_done(self, route: Route, call: Call, size: int, result: asyncio.Future[Any]) -> None:
        """A handler that had to wait is done, and the connection has not yet looked at what it says."""
        if not result.cancelled() and result.exception() is None:
            self._count(route, result.result(), call, size)

    def spent(self, call: Call, seconds: float) -> None:
        """The call's client has taken so much of the loop's time, unless nothing is known of it yet."""
        connection: Connection = call.connection
        client_id = call.client_id and call.client_id[:LONGEST]
        share = self._quotas.known.get((connection.principal, client_id))
        if share is not None and connection.broker_id is None:
            share.spend(seconds, self._loop.time())

    def _share(self, call: Call, now_ms: int) -> Share:
        """What holds for the call's client. Its connection remembers it, unless it may turn out to be a broker's."""
        connection: Connection = call.connection
        share = self._quotas.share(connection.principal, call.client_id, now_ms)
        if connection.authentication is None:
            connection.share = share
        return share

    def _count(self, route: Route, response: Any, call: Call, size: int) -> None:
        now_ms = self._now_ms()
        share = self._share(call, now_ms)
        delay_ms = 0 if share.request is None else share.request.delay_ms(now_ms)
        if share.produce is not None and route.name == PRODUCE:
            delay_ms = max(delay_ms, share.produce.use(size, now_ms))
        self._tell(call.connection, response, delay_ms)

    def _tell(self, connection: Connection, response: Any, delay_ms: int) -> None:
        """``response`` says how long its client waits, if it is longer than what its handler says."""
        told_ms = getattr(response, TOLD, None)
        if told_ms is not None and delay_ms > told_ms:
            response.throttle_time_ms = delay_ms
        elif told_ms:
            delay_ms = told_ms
        if delay_ms:
            self._mute(connection, delay_ms)

    def _mute(self, connection: Connection, delay_ms: int) -> None:
        """Holds the connection for so long, or as long as before where that is longer."""
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
        """The connection has closed."""
        muted = self._muted.pop(connection, None)
        if muted is not None:
            muted.cancel()

    def unmute_all(self) -> None:
        """Quotas have changed: the next request of each connection says how long it waits now."""
        for connection, muted in list(self._muted.items()):
            muted.cancel()
            self._unmute(connection)


@coroutine
def _timed(work: Coroutine[Any, Any, Any], spent: Callable[[float], None]) -> Generator[Any, Any, Any]:
    """Awaits ``work`` and tells how long its steps take, but for the first, which is part of a visit."""
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
