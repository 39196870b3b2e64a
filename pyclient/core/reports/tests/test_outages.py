"""An unreachable server is logged once, in clear words, even without a logging configuration."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pyclient.core.nodes import node
from pyclient.core.reports import outages
from pyclient.core.tests.scripted import ScriptedBroker, client_of
from pyclient.core.tests.test_client import on_loop
from pyclient.errors import ConnectionFailed
from pyclient.protocol import ListGroups
from pyclient.tests.closing.test_unclosed import stderr_of
from pyclient.tests.support import PATIENCE_S

AT_ONCE = 0.05
LONG_S, HOUR_S = 30.0, 3600.0


@pytest.fixture
def impatient(monkeypatch):
    """Returns a function that makes later connection failures count as an outage at once."""
    monkeypatch.setattr(node, "FIRST_S", LONG_S)
    return lambda: monkeypatch.setattr(node, "FIRST_S", AT_ONCE)


def told(caplog) -> list[str]:
    return [row.getMessage() for row in caplog.records if getattr(row, outages.URGENT, False)]


async def fails_until(client, number: int, caplog, count: int) -> None:
    """Sends requests in vain until ``count`` lines are logged, and a few more."""
    more = 5
    while len(told(caplog)) < count or (more := more - 1):
        with pytest.raises(ConnectionFailed):
            await client.send(number, ListGroups, ListGroups.Request())


def dead(number: int) -> ScriptedBroker:
    """Returns a broker on whose port nothing listens."""
    broker = ScriptedBroker(number)
    broker.port = 1
    return broker


@on_loop
async def test_a_broker_with_an_unreachable_advertised_address_is_logged_once(caplog, impatient):
    async with ScriptedBroker(1) as first, client_of(first.address) as client:
        first.others.append(dead(7))
        await client.metadata(["t"], timeout=PATIENCE_S)
        impatient()
        await fails_until(client, 7, caplog, 1)
    (line,) = told(caplog)
    assert "broker 7 cannot be reached: 127.0.0.1:1: connect failed" in line
    assert "advertised.listeners" in line


@on_loop
async def test_the_loss_and_the_return_of_a_broker_are_logged(caplog, impatient):
    async with ScriptedBroker(1) as first, client_of(first.address) as client:
        await client.metadata(["t"], timeout=PATIENCE_S)
        async with ScriptedBroker(2) as second:
            first.others.append(second)
            client.refresh()
            while 2 not in client.cluster.brokers:
                await asyncio.sleep(0)
            second.handlers[ListGroups] = lambda request, version: ListGroups.Response()
            await client.send(2, ListGroups, ListGroups.Request())
            address, port = second.address, second.port
            impatient()
            second._server.close()
            second.hang_up()
            while client.nodes.is_ready(2):
                await asyncio.sleep(0)
            await fails_until(client, 2, caplog, 1)
        third = ScriptedBroker(2)
        third.port = port
        third.handlers[ListGroups] = second.handlers[ListGroups]
        async with third:
            await client.send(2, ListGroups, ListGroups.Request())
            gone, back = told(caplog)
    assert f"broker 2 can no longer be reached: {address}: connect failed" in gone
    assert "advertised" not in gone
    assert back == f"{address} can be reached again"


@on_loop
async def test_an_unreachable_bootstrap_server_is_not_logged_if_another_answers(caplog, monkeypatch):
    monkeypatch.setattr(node, "FIRST_S", LONG_S)  # until the other one is reached
    async with ScriptedBroker(1) as first, client_of(first.address, "127.0.0.1:1") as client:
        await client.metadata(["t"], timeout=PATIENCE_S)
        await fails_until_refused(client)
    assert told(caplog) == []


@on_loop
async def test_two_failed_attempts_an_hour_apart_are_not_an_outage(caplog, monkeypatch):
    monkeypatch.setattr(node, "FIRST_S", LONG_S)
    async with client_of("127.0.0.1:1") as client:
        (server,) = client.nodes.bootstrap
        for later, count in ((0.0, 0), (HOUR_S, 0), (HOUR_S + LONG_S, 1)):
            server._clock = lambda later=later: client.clock() + later
            with pytest.raises(ConnectionFailed):
                await client.send(-1, ListGroups, ListGroups.Request(), timeout=2 * HOUR_S)
            assert len(told(caplog)) == count


@on_loop
async def test_an_outage_is_forgotten_when_its_broker_moves(caplog, impatient):
    async with ScriptedBroker(1) as first, client_of(first.address) as client:
        first.others.append(dead(7))
        await client.metadata(["t"], timeout=PATIENCE_S)
        impatient()
        await fails_until(client, 7, caplog, 1)
        client.nodes.by_id[7].move("127.0.0.1", 2)
        assert not client.outages._told


async def fails_until_refused(client) -> None:
    """Sends requests in vain to the second bootstrap server while its clock advances."""
    server = client.nodes.by_id[-2]
    for later in range(5):
        server._clock = lambda later=later: client.clock() + later * LONG_S
        with pytest.raises(ConnectionFailed):
            await client.send(-2, ListGroups, ListGroups.Request())


def test_an_outage_is_logged_again_only_after_a_while():
    class Server:
        id, name, was_reached = 3, "h:1", False

    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("pyclient").addHandler(handler)
    try:
        known = outages.Outages()
        for now in (0.0, 1.0, 59.0, 61.0, 62.0):
            known.tell(Server(), 3, ConnectionFailed("h:1", "connect"), now, False)
    finally:
        logging.getLogger("pyclient").removeHandler(handler)
    assert len(lines) == 2


MUTE = """
import time
from pyclient import Consumer, Producer
from pyclient.core.nodes import node
node.FIRST_S = 0.2
consumer = Consumer("127.0.0.1:1", group_id="g", topics=["t"])
end = time.monotonic() + 30
while not consumer._core.client.outages._told and time.monotonic() < end:
    consumer.poll(timeout=0.1)
for _ in range(5):
    consumer.poll(timeout=0.1)
consumer.close(0)
"""


@pytest.mark.nightly
def test_a_consumer_that_reaches_no_broker_writes_one_line_to_stderr():
    line = stderr_of(MUTE)
    assert line.count("\n") == 1, line
    assert "no broker can be reached: 127.0.0.1:1: connect failed: " in line
    assert "bootstrap.servers names this address; still trying; `pybroker doctor -b 127.0.0.1:1` finds out why" in line
