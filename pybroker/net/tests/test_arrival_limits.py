"""Clients that connect too often: which wait in the backlog, and which are disconnected after a delay."""

from __future__ import annotations

from pybroker.net.quotas.arrival_limits import MOST_DELAYED, ArrivalLimits
from pybroker.net.tests.harness import ECHO, Harness, scenario, turns
from pybroker.quotas.arrivals import Arrivals
from pybroker.quotas.keys import CONNECTIONS, Entity
from pybroker.quotas.rate import Windows

ADDRESS = "127.0.0.1"


def limit(harness: Harness, *, broker: float | None = None, address: float | None = None) -> ArrivalLimits:
    rates = Arrivals(Windows())
    rates.update(broker, {}, {} if address is None else {Entity(ip=ADDRESS): {CONNECTIONS: address}})
    limits = ArrivalLimits(rates, harness.loop, lambda: int(harness.loop.time() * 1000), None)
    harness.server.arrivals = limits
    return limits


@scenario()
async def test_a_connection_beyond_the_brokers_connection_creation_rate_waits_in_the_backlog(harness: Harness) -> None:
    limit(harness, broker=0.1)
    first, second, third = [await harness.connect() for _ in range(3)]
    assert await first.ask(ECHO, 1) == (1, b"")
    assert await second.ask(ECHO, 2) == (2, b"")
    third.send(ECHO, 3, b"third")
    await turns()
    assert b"third" not in harness.seen
    assert len(harness.server.connections) == 2
    harness.loop.ahead_s += 1.0
    assert await third.receive() == (3, b"third")


@scenario()
async def test_a_connection_from_an_address_over_its_rate_is_closed_after_a_delay(harness: Harness) -> None:
    limits = limit(harness, address=0.1)
    first, second = await harness.connect(), await harness.connect()
    assert await first.ask(ECHO, 1) == (1, b"")
    second.send(ECHO, 2, b"second")
    await harness.until(lambda: limits._delayed)
    await turns()
    assert not second.reader.at_eof()
    harness.loop.ahead_s += 1.0
    assert await second.is_closed()
    assert limits._delayed == {}
    assert b"second" not in harness.seen
    assert harness.server._per_ip[ADDRESS] == 1


@scenario()
async def test_the_number_of_connections_that_wait_to_be_closed_is_limited(harness: Harness) -> None:
    limits = limit(harness, address=0.1)
    clients = [await harness.connect() for _ in range(MOST_DELAYED + 2)]
    assert await clients[0].ask(ECHO, 1) == (1, b"")
    assert await clients[1].is_closed()
    await harness.until(lambda: len(limits._delayed) == MOST_DELAYED)
    harness.server.stop_accepting()
    assert await clients[-1].is_closed()


@scenario()
async def test_a_server_that_stops_forgets_its_paused_listeners(harness: Harness) -> None:
    limit(harness, broker=0.1)
    clients = [await harness.connect() for _ in range(2)]
    assert await clients[1].ask(ECHO, 1) == (1, b"")
    await harness.until(lambda: harness.server._acceptor._paused)
    harness.server.stop_accepting()
    assert harness.server._acceptor._paused == {}
