"""TLS below the frames: the handshake, and the encrypted connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import trustme

from pybroker.net.limits import Limits
from pybroker.net.tests.harness import (
    BULK,
    ECHO,
    HANDSHAKE_S,
    LIMIT_S,
    WAIT,
    Answer,
    Client,
    Harness,
    frame,
    scenario,
    turns,
)
from pybroker.net.tests.test_client_hello import FFDHE8192
from pybroker.net.tests.test_client_hello import hello as slow_hello

CA = trustme.CA()
OTHER_CA = trustme.CA()
MB = 1 << 20


@dataclass
class Secured:
    """TLS of a listener, without a configuration."""

    context: ssl.SSLContext

    def principal(self, certificate: bytes | None) -> str:
        if certificate is None:
            return "User:ANONYMOUS"
        if b"stranger" in certificate:
            raise ValueError("no rule matches")
        return "User:known"


def server(verify: ssl.VerifyMode = ssl.CERT_NONE) -> Secured:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1").configure_cert(context)
    CA.configure_trust(context)
    context.verify_mode = verify
    return Secured(context)


def client(ca: trustme.CA = CA, name: str | None = None, issuer: trustme.CA = CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if name:
        issuer.issue_cert("client.test", organization_name=name).configure_cert(context)
    return context


async def is_served(harness: Harness) -> bool:
    """Returns whether the server still answers a new client."""
    answer = await (await harness.connect_tls(client())).ask(ECHO, 9, b"served")
    return answer == (9, b"served")


async def raw(harness: Harness, data: bytes = b"") -> Client:
    connected = await harness.connect_tls(None)
    connected.writer.write(data)
    return connected


async def ended(connected: Client) -> None:
    """Waits until the server has closed the connection, perhaps after an alert."""
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(LIMIT_S):
            await connected.reader.read()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "pybroker.net"]


@scenario(secured=server())
async def test_requests_over_tls_are_answered_in_order(harness: Harness) -> None:
    connected = await harness.connect_tls(client())
    for number in range(500):
        connected.send(ECHO, number, b"%d" % number)
    assert [await connected.receive() for _ in range(500)] == [(n, b"%d" % n) for n in range(500)]
    assert {each.principal for each in harness.server.connections} == {"User:ANONYMOUS"}
    assert (await (await harness.connect()).ask(ECHO, 1))[0] == 1, "the plain one beside it"


@scenario(secured=server())
async def test_large_requests_and_replies_over_tls_arrive_whole(harness: Harness) -> None:
    connected = await harness.connect_tls(client())
    body = bytes(range(256)) * 8192
    connected.send(ECHO, 1, body + b"end")
    connected.send(BULK, 2, b"%d" % (20 * MB))
    connected.send(ECHO, 3, b"after")
    assert await connected.receive() == (1, body + b"end")
    assert await connected.receive() == (2, b"z" * 20 * MB)
    assert await connected.receive() == (3, b"after")


@scenario(secured=server())
async def test_an_unread_large_reply_is_encrypted_only_in_part(harness: Harness) -> None:
    connected = await harness.connect_tls(client())
    connected.send(BULK, 1, b"%d" % (20 * MB))
    await harness.until(lambda: any(each.unsent for each in harness.server.connections))
    (connection,) = harness.server.connections
    await turns()
    assert connection.unsent > 10 * MB
    assert len(connection._out._layer._left) < MB  # type: ignore[attr-defined]
    assert await connected.receive() == (1, b"z" * 20 * MB)
    await harness.until(lambda: connection.unsent == 0)


@scenario(secured=server())
async def test_a_delayed_reply_is_sent_over_tls_when_it_is_ready(harness: Harness) -> None:
    connected = await harness.connect_tls(client())
    connected.send(WAIT, 1)
    await harness.until(lambda: bool(harness.waiting))
    harness.waiting[0].set_result(Answer(b"now"))
    assert await connected.receive() == (1, b"now")


@scenario(Limits(queued_bytes=3 * MB), secured=server())
async def test_a_tls_request_that_exceeds_the_memory_limit_waits_until_memory_is_free(harness: Harness) -> None:
    first, second = [await harness.connect_tls(client()) for _ in range(2)]
    body = b"x" * (2 * MB)
    whole = frame(ECHO, 1, body)
    first.writer.write(whole[:-9])
    await harness.until(lambda: harness.server.memory.taken > 2 * MB)
    second.send(ECHO, 2, body)
    await harness.until(lambda: bool(harness.server._starved))
    first.writer.write(whole[-9:])
    assert await first.receive() == (1, body)
    assert await second.receive() == (2, body)


def hello() -> bytes:
    """Returns the first bytes of a TLS client."""
    outgoing = ssl.MemoryBIO()
    begun = client().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        begun.do_handshake()
    return outgoing.read()


BAD = {
    "kafka": (struct.pack(">ihhi", 20, 18, 3, 1) + b"x" * 20, "without TLS: set its security.protocol=SSL"),
    "http": (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP"),
    "garbage": (b"\xff" * 100, "does not speak TLS"),
    "no hello": (b"\x16\x03\x01\x00\x10" + b"\xff" * 16, "handshake failed"),
    "a huge record": (b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000, "handshake failed"),
    "a hello and garbage": (hello() + b"\xff" * 100, "handshake failed"),
}


@pytest.mark.parametrize("what", BAD)
def test_case_58_a_failed_tls_handshake_closes_its_connection_and_is_logged(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    data, told = BAD[what]

    @scenario(secured=server())
    async def run(harness: Harness) -> None:
        connected = await raw(harness, data)
        await ended(connected)
        (line,) = lines(caplog)
        assert "closed the connection of 127.0.0.1:" in line
        assert "to OUTSIDE, which speaks TLS" in line
        assert told in line
        assert await is_served(harness)

    run()


@scenario(secured=server())
async def test_a_tls_record_that_cannot_be_decrypted_closes_only_its_connection(harness: Harness) -> None:
    near = socket.create_connection(("127.0.0.1", harness.tls_port))
    near.setblocking(False)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    begun = client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    while True:
        try:
            begun.do_handshake()
            break
        except ssl.SSLWantReadError:
            await harness.loop.sock_sendall(near, outgoing.read())
            incoming.write(await harness.loop.sock_recv(near, 65536))
    await harness.loop.sock_sendall(near, outgoing.read() + b"\x17\x03\x03\x00\x20" + b"\xff" * 32)
    await harness.until(lambda: not harness.server.connections and not harness.server.handshakes["OUTSIDE"].open)
    near.close()
    assert await is_served(harness)


@scenario(Limits(max_handshakes=3, max_per_ip=20), secured=server())
async def test_the_oldest_stalled_tls_handshakes_are_closed_to_admit_new_ones(harness: Harness) -> None:
    silent = [await raw(harness) for _ in range(5)]
    half = [await raw(harness, hello()[:100]) for _ in range(5)]
    assert await is_served(harness)
    assert len(harness.server.handshakes["OUTSIDE"].open) <= 3
    assert all([await each.is_closed() for each in (*silent, *half[:2])])


def test_a_client_hello_with_a_finite_field_group_is_refused_before_the_handshake(
    caplog: pytest.LogCaptureFixture
) -> None:
    @scenario(secured=server())
    async def run(harness: Harness) -> None:
        handshakes = harness.server.handshakes["OUTSIDE"]
        steps: list[object] = []
        handshakes.work = lambda step, then: steps.append(step)  # type: ignore[method-assign]
        slow = await raw(harness, slow_hello([FFDHE8192], [FFDHE8192]))
        assert await slow.is_closed()
        assert not steps
        del handshakes.work
        assert await is_served(harness)

    run()
    (line,) = lines(caplog)
    assert "finite field" in line


@scenario(Limits(max_handshakes=3, max_per_ip=20), secured=server())
async def test_waiting_tls_handshakes_are_limited_and_those_closed_meanwhile_cost_no_work(harness: Harness) -> None:
    handshakes = harness.server.handshakes["OUTSIDE"]
    steps: list[Callable[[], str | None]] = []
    handshakes.work = lambda step, then: steps.append(step)  # type: ignore[method-assign]
    begun = []
    for number in range(5):
        begun.append(await raw(harness, hello()))
        await harness.until(lambda: len(steps) == number + 1)  # noqa: B023
        assert len(handshakes.open) <= 3
    assert all([await each.is_closed() for each in begun[:2]])
    assert [step() for step in steps[:2]] == [None, None]
    assert [step.__self__._tls is None for step in steps] == [True, True, False, False, False]  # type: ignore[attr-defined]
    del handshakes.work
    assert await is_served(harness)


@scenario(secured=server())
async def test_an_endless_client_hello_closes_its_connection(harness: Harness) -> None:
    piece = b"\x16\3\1\x40\0" + bytes(1 << 14)
    first = b"\x16\3\1\0\4\1\xff\xff\xff"
    endless = await raw(harness, first + 5 * piece)
    await ended(endless)
    assert await is_served(harness)


@scenario(secured=server())
async def test_a_tls_handshake_that_takes_too_long_is_closed(harness: Harness) -> None:
    silent, half = await raw(harness), await raw(harness, hello())
    await harness.until(lambda: len(harness.server.handshakes["OUTSIDE"].open) == 2)
    harness.later(HANDSHAKE_S / 2)
    assert len(harness.server.handshakes["OUTSIDE"].open) == 2
    harness.later(HANDSHAKE_S)
    assert not harness.server.handshakes["OUTSIDE"].open
    assert await silent.is_closed()
    await ended(half)
    assert not harness.server._per_ip


@scenario(Limits(max_connections=2), secured=server())
async def test_tls_handshakes_count_towards_max_connections(harness: Harness) -> None:
    clients = [await raw(harness) for _ in range(3)]
    await harness.until(lambda: harness.server.count() == 2)
    await turns()
    assert harness.server.count() == 2
    for each in clients:
        each.reset()
    assert await is_served(harness)


@scenario(Limits(per_listener={"OUTSIDE": 2}), secured=server())
async def test_a_listener_at_its_own_connection_limit_does_not_limit_other_listeners(harness: Harness) -> None:
    known = await harness.connect_tls(client())
    assert await known.ask(ECHO, 1) == (1, b"")
    silent = await raw(harness)
    await harness.until(lambda: harness.server.count() == 2)
    plain = [await harness.connect() for _ in range(3)]
    for number, each in enumerate(plain):
        assert await each.ask(ECHO, number) == (number, b"")
    another = await harness.connect_tls(client())
    assert await another.ask(ECHO, 2) == (2, b"")
    assert await silent.is_closed()
    waiting = await raw(harness)
    assert await (await harness.connect()).ask(ECHO, 3) == (3, b"")
    await turns()
    assert len(harness.server.handshakes["OUTSIDE"].open) == 0
    another.reset()
    await harness.until(lambda: len(harness.server.handshakes["OUTSIDE"].open) == 1)
    assert await known.ask(ECHO, 4) == (4, b"")
    waiting.reset()


@scenario(Limits(max_connections=2, protected="PLAINTEXT"), secured=server())
async def test_an_inter_broker_connection_at_max_connections_closes_the_least_recently_used_client(
    harness: Harness
) -> None:
    first, second = [await harness.connect_tls(client()) for _ in range(2)]
    for each in (first, second, first):
        harness.loop.ahead_s += 1
        assert await each.ask(ECHO, 1) == (1, b"")
    waiting = await raw(harness)
    await turns()
    assert harness.server.count() == 2
    brokers = [await harness.connect() for _ in range(2)]
    for each, ended_one in zip(brokers, (second, first), strict=True):
        assert await each.ask(ECHO, 2) == (2, b"")
        assert await ended_one.is_closed()
    late = await harness.connect()
    late.send(ECHO, 3)
    await turns()
    assert harness.server.count() == 2
    waiting.reset()
    brokers[0].reset()
    assert await late.receive() == (3, b"")


@pytest.mark.parametrize(
    ("context", "told"),
    [
        (client(), "has no certificate, and ssl.client.auth=required"),
        (client(name="org", issuer=OTHER_CA), "its certificate is not accepted: .*issuer.*ssl.truststore.location"),
        (client(OTHER_CA, "org"), "not accept this broker's certificate: its trust store|it closed the connection"),
        (client(name="stranger"), "no rule matches"),
    ],
    ids=["no certificate", "of another CA", "that trusts another CA", "without a principal"],
)
def test_clients_that_fail_tls_authentication_are_refused_and_the_reason_is_logged(
    context: ssl.SSLContext, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @scenario(secured=server(ssl.CERT_REQUIRED))
    async def run(harness: Harness) -> None:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await (await harness.connect_tls(context)).ask(ECHO, 1)
        await harness.until(lambda: bool(lines(caplog)))
        assert not harness.seen
        known = await harness.connect_tls(client(name="org"))
        assert await known.ask(ECHO, 1, b"mine") == (1, b"mine")
        (connection,) = harness.server.connections
        assert connection.principal == "User:known"

    run()
    (line,) = lines(caplog)
    assert re.search(told, line), line
