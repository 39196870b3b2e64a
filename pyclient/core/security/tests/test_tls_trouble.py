"""The error when TLS fails: phase, peer, received bytes, and the setting to change. Each case uses a real connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import pickle
import socket
import ssl
import threading
from datetime import UTC, datetime

import pytest
import trustme

from pyclient.core.security import tls_trouble
from pyclient.core.security.tests.test_tls import listener, trusting
from pyclient.core.tests.scripted import ScriptedBroker, client_of
from pyclient.core.tests.test_client import on_loop
from pyclient.errors import ConnectionFailed, TlsRefused
from pyclient.protocol import Metadata
from pyclient.security.tests.making import identity, world
from pyclient.tests.support import PATIENCE_S

AUTHORITY = trustme.CA(organization_name="Strangers")
TRUSTS_STRANGERS = {"ssl_truststore_certificates": AUTHORITY.cert_pem.bytes().decode()}


def keys_of(who):
    return {"ssl_keystore_key": who.key, "ssl_keystore_certificate_chain": "\n".join(who.chain)}


def issued(*hosts, **when):
    return keys_of(identity(AUTHORITY.issue_cert(*hosts, **when)))


@contextlib.contextmanager
def blunt(context):
    """Starts a server that answers a failed handshake with an alert, which asyncio's server does not. Returns its
    address.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server, context), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def serve(server, context):
    with contextlib.suppress(OSError):
        while True:
            plain, _ = server.accept()
            with plain, contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as secure:
                secure.recv(1)


async def failure(context, settings):
    """Returns the error that ``start`` raises, and the server's address."""
    with blunt(context) as address:
        async with client_of(address, **settings) as client:
            with pytest.raises(ConnectionFailed) as caught:
                await client.start(PATIENCE_S)
        return caught.value, address


async def first_trouble(address, settings):
    """Returns the first retriable error, after which ``start`` tries again."""
    async with client_of(address, **settings) as client:
        starting = asyncio.ensure_future(client.start(PATIENCE_S))
        while client.nodes.bootstrap[0].trouble is None:
            await asyncio.sleep(0)
        starting.cancel()
        return client.nodes.bootstrap[0].trouble


def listening(**settings):
    return listener(**{**keys_of(world().server), **settings})


LASTING = [
    (
        listening,
        {"ssl_truststore_certificates": None},
        ["signed by an unknown authority, organizationName=trustme", "set ssl.truststore.location"],
    ),
    (
        lambda: listening(**issued("broker.example", "10.0.0.7")),
        TRUSTS_STRANGERS,
        ["the certificate is for broker.example, 10.0.0.7, not for 127.0.0.1", "ssl.endpoint.identification.algorithm"],
    ),
    (
        lambda: listening(**issued("127.0.0.1", not_after=datetime(2020, 3, 1, tzinfo=UTC))),
        TRUSTS_STRANGERS,
        ["has expired: Mar  1 00:00:00 2020", "the broker needs a new one"],
    ),
    (
        lambda: listening(**issued("127.0.0.1", not_before=datetime(2990, 3, 1, tzinfo=UTC))),
        TRUSTS_STRANGERS,
        ["is not valid yet, only from Mar  1 00:00:00 2990", "clocks"],
    ),
    (
        lambda: listening(ssl_enabled_protocols="TLSv1.2"),
        {"ssl_enabled_protocols": "TLSv1.3"},
        ["there is no common TLS version", "ssl.enabled.protocols"],
    ),
    (
        lambda: listening(ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
        ["no cipher suite in common", "ssl.cipher.suites"],
    ),
]


@pytest.mark.parametrize(("context", "settings", "told"), LASTING)
@on_loop
async def test_a_permanent_tls_error_names_broker_phase_cause_and_remedy_at_once(context, settings, told):
    error, address = await failure(context(), trusting(**settings))
    assert isinstance(error, TlsRefused)
    assert (error.host, error.phase) == (address, "TLS handshake")
    assert str(error).startswith(f"{address}: TLS handshake failed: ")
    for text in told:
        assert text in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@on_loop
async def test_a_permanent_tls_error_is_raised_at_once_without_an_earlier_connection():
    with blunt(listening()) as address:
        async with client_of(address, **trusting(ssl_truststore_certificates=None)) as client:

            async def attempt():
                return await client.send(client.nodes.any_node(), Metadata, Metadata.Request(topics=[]))

            with pytest.raises(TlsRefused):
                await client.retrying(attempt, deadline=math.inf)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@on_loop
async def test_the_error_about_a_missing_certificate_is_the_same_in_every_tls_version(version):
    context = listening(
        ssl_client_auth="required", ssl_truststore_certificates=world().authority, ssl_enabled_protocols=version
    )
    with blunt(context) as address:
        error = await first_trouble(address, trusting())
    assert "certificate" in str(error)
    assert "set ssl.keystore.location" in str(error)


@on_loop
async def test_an_error_suggests_tls_if_a_plaintext_client_reaches_a_tls_port():
    with blunt(listening()) as address:
        error = await first_trouble(address, {})
    assert error.phase == "handshake"
    assert "is security.protocol right? This client's is PLAINTEXT" in str(error)
    assert not isinstance(error, TlsRefused)


@on_loop
async def test_a_tls_alert_to_a_plaintext_client_is_reported_as_tls():
    async def alert(reader, writer):
        await reader.read(1)
        writer.write(b"\x15\x03\x03\x00\x02\x02\x50")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(alert, "127.0.0.1", 0)
    error = await first_trouble(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
    server.close()
    assert "it speaks TLS; is security.protocol right? This client's is PLAINTEXT" in str(error)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4abcd"])
@on_loop
async def test_an_answer_that_is_not_tls_is_reported(answer):
    async def other(reader, writer):
        await reader.read(1)
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    async with client_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", **trusting()) as client:
        with pytest.raises(TlsRefused, match=r"the peer's answer is not TLS; is security.protocol right\? .* is SSL"):
            await client.start(PATIENCE_S)
    server.close()


@on_loop
async def test_an_error_suggests_plaintext_if_a_tls_client_reaches_a_plaintext_port():
    async def closes(reader, writer):
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(closes, "127.0.0.1", 0)
    error = await first_trouble(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", trusting())
    server.close()
    assert "TLS handshake failed: the peer closed the connection; is security.protocol right?" in str(error)
    assert not isinstance(error, TlsRefused)


@on_loop
async def test_bootstrap_continues_after_a_server_with_a_refused_certificate():
    async with (
        ScriptedBroker(6, listening(**issued("127.0.0.1"))) as stranger,
        ScriptedBroker(7, listening()) as broker,
        client_of(stranger.address, broker.address, **trusting()) as client,
    ):
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        await client.start(PATIENCE_S)
        assert list(client.cluster.brokers) == [7]


@pytest.mark.parametrize(
    ("reason", "has_key", "told"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", False, "requires a certificate of this client"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", False, "requires a certificate of this client"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", True, "rejects the certificate of this client: bad certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", True, "rejects the certificate of this client: unknown ca"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", True, "there is no common TLS version"),
        ("SOMETHING_NEW", True, "something new"),
    ],
)
def test_tls_alerts_are_reported_in_words(reason, has_key, told):
    error = ssl.SSLError(1, reason)
    error.reason = reason
    trouble = tls_trouble.of_tls(error, "h", {}, has_key)
    assert trouble is not None
    assert told in trouble.why
    assert trouble.lasts
