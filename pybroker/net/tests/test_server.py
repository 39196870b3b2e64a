"""Which clients the server accepts, and how it stops."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pybroker.config import BrokerConfig, ConfigError, Endpoint
from pybroker.net.acceptor import bind
from pybroker.net.limits import UNLIMITED, Limits, from_config, parse_overrides
from pybroker.net.tests.harness import ECHO, WAIT, Answer, Harness, scenario, turns


@scenario(Limits(max_per_ip=3))
async def test_case_50_connections_over_max_connections_per_ip_are_closed(harness: Harness) -> None:
    kept = [await harness.connect() for _ in range(3)]
    for number, client in enumerate(kept):
        assert await client.ask(ECHO, number) == (number, b"")
    assert await (await harness.connect()).is_closed()
    kept[0].reset()
    await harness.until(lambda: len(harness.server.connections) == 2)
    assert await (await harness.connect()).ask(ECHO, 9) == (9, b"")


@scenario(Limits(max_per_ip=0, per_ip={"127.0.0.1": 1}))
async def test_case_50_an_override_of_max_connections_per_ip_limits_its_address(harness: Harness) -> None:
    assert await (await harness.connect()).ask(ECHO, 1) == (1, b"")
    assert await (await harness.connect()).is_closed()


@scenario()
async def test_the_server_reports_each_change_of_the_number_of_connections(harness: Harness) -> None:
    clients = [await harness.connect() for _ in range(2)]
    await harness.until(lambda: harness.counts == [0, 1, 2])
    clients[0].reset()
    await harness.until(lambda: harness.counts == [0, 1, 2, 1])


@scenario(Limits(max_connections=5))
async def test_case_50_connections_over_max_connections_wait_until_others_close(
    harness: Harness,
) -> None:
    clients = [await harness.connect() for _ in range(8)]
    for client in clients:
        client.send(ECHO, 1)
    for client in clients[:5]:
        await client.receive()
    await turns()
    assert len(harness.server.connections) == 5
    for client in clients[:5]:
        client.reset()
    for client in clients[5:]:
        assert await client.receive() == (1, b"")


@scenario(Limits(max_connections=3, silent_s=5.0))
async def test_silent_connections_are_closed_to_admit_new_clients(harness: Harness) -> None:
    known = await harness.connect()
    assert await known.ask(ECHO, 1) == (1, b"")
    silent = [await harness.connect() for _ in range(2)]
    await harness.until(lambda: len(harness.server.connections) == 3)
    late = await harness.connect()
    late.send(ECHO, 2)
    await turns()
    assert len(harness.server.silent) == 2
    harness.later(5.0)
    another = await harness.connect()
    assert await another.ask(ECHO, 3) == (3, b"")
    assert await late.receive() == (2, b"")
    assert [await each.is_closed() for each in silent] == [True, True]
    assert await known.ask(ECHO, 4) == (4, b"")
    assert not harness.server.silent


@scenario(Limits(max_connections=1, silent_s=0.001))
async def test_a_waiting_connection_is_accepted_once_another_has_been_silent_too_long(harness: Harness) -> None:
    silent, late = await harness.connect(), await harness.connect()
    assert await late.ask(ECHO, 1) == (1, b"")
    assert await silent.is_closed()


@scenario(Limits(per_listener={"PLAINTEXT": 1}))
async def test_raised_limits_admit_waiting_connections(harness: Harness) -> None:
    known, late = await harness.connect(), await harness.connect()
    assert await known.ask(ECHO, 1) == (1, b"")
    late.send(ECHO, 2)
    await turns()
    assert len(harness.server.connections) == 1
    harness.server.limit(Limits(per_listener={"PLAINTEXT": 2}))
    assert await late.receive() == (2, b"")
    third = await harness.connect()
    third.send(ECHO, 3)
    await turns()
    assert len(harness.server.connections) == 2
    known.reset()
    assert await third.receive() == (3, b"")


@scenario()
async def test_case_50_a_flood_of_connections_leaks_no_file_or_memory(harness: Harness) -> None:
    for _ in range(5):
        clients = [await harness.connect() for _ in range(100)]
        assert await clients[-1].ask(ECHO, 1) == (1, b"")
        for client in clients:
            client.reset()
        await harness.until(lambda: not harness.server.connections)


@scenario()
async def test_shutdown_answers_requests_in_progress_and_refuses_new_connections(harness: Harness) -> None:
    quiet, busy = await harness.connect(), await harness.connect()
    busy.send(WAIT, 1)
    await harness.until(lambda: len(harness.waiting) == 1)
    closing = asyncio.ensure_future(harness.server.close(grace_s=60))
    assert await quiet.is_closed()
    with pytest.raises(ConnectionRefusedError):
        await harness.connect()
    harness.waiting[0].set_result(Answer(b"in time"))
    assert await busy.receive() == (1, b"in time")
    assert await busy.is_closed()
    await closing


@scenario()
async def test_shutdown_waits_for_a_request_no_longer_than_its_grace_period(harness: Harness) -> None:
    client = await harness.connect()
    client.send(WAIT, 1)
    await harness.until(lambda: len(harness.waiting) == 1)
    await harness.server.close(grace_s=0.05)
    assert await client.is_closed()
    await harness.until(lambda: harness.waiting[0].cancelled())


def test_a_port_in_use_is_reported_when_a_listener_binds_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        bind(Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", taken.getsockname()[1]))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "", "::1"])
def test_a_listener_binds_an_ipv4_or_ipv6_address_a_host_name_or_all_addresses(host: str) -> None:
    if host == "::1" and not socket.has_ipv6:
        return
    try:
        listener = bind(Endpoint("PLAINTEXT", "PLAINTEXT", host, 0))
    except OSError:
        assert host == "::1"
        return
    assert listener.endpoint.port > 0
    listener.listen()
    target = host or "127.0.0.1"
    socket.create_connection((target, listener.endpoint.port)).close()
    listener.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
def test_a_listener_on_all_ipv6_addresses_is_reached_over_ipv4() -> None:
    with bind(Endpoint("PLAINTEXT", "PLAINTEXT", "::", 0)) as listener:
        listener.listen()
        socket.create_connection(("127.0.0.1", listener.endpoint.port)).close()


@pytest.mark.parametrize(
    ("addresses", "bound"), [(("::1", "127.0.0.1"), "127.0.0.1"), (("127.0.0.1",), "127.0.0.1"), (("::1",), "::1")]
)
def test_a_listener_on_a_host_name_binds_its_ipv4_address_or_else_its_ipv6_address(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...], bound: str
) -> None:
    if bound == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6")
    of = socket.getaddrinfo
    found = lambda _, *more, **flags: [of(each, *more, **flags)[0] for each in addresses]  # noqa: E731
    monkeypatch.setattr(socket, "getaddrinfo", found)
    with bind(Endpoint("PLAINTEXT", "PLAINTEXT", "broker.example", 0)) as listener:
        assert listener.getsockname()[0] == bound


def test_overrides_of_max_connections_per_ip_accept_ipv4_ipv6_and_host_names() -> None:
    assert parse_overrides("127.0.0.1:5, [::1]:7") == {"127.0.0.1": 5, "::1": 7}
    assert parse_overrides("localhost:9")["127.0.0.1"] == 9
    assert parse_overrides("") == {}


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:many", "no.such.host.invalid:1"])
def test_an_invalid_override_of_max_connections_per_ip_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="overrides"):
        parse_overrides(text)


def test_the_servers_limits_come_from_the_broker_configuration() -> None:
    config = BrokerConfig(
        {
            "socket.request.max.bytes": 1000,
            "connections.max.idle.ms": -1,
            "max.connections.per.ip.overrides": "127.0.0.1:2",
            "listeners": "PLAINTEXT://:9092,OWN://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OWN:PLAINTEXT",
            "listener.name.own.max.connections": 3,
            "socket.send.buffer.bytes": 4096,
        }
    )
    limits = from_config(config)
    assert limits.max_request_bytes == 1000
    assert limits.idle_ms > 1 << 60
    assert limits.of_address("127.0.0.1") == 2
    assert limits.of_address("10.0.0.1") == 2**31 - 1
    assert (limits.of_listener("OWN"), limits.of_listener("PLAINTEXT")) == (3, UNLIMITED)
    assert (limits.send_buffer, limits.receive_buffer) == (4096, -1)
