"""The client core with TLS, against a scripted broker."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from pyclient.config import PRODUCER, load
from pyclient.core.security.secured import secured
from pyclient.core.tests.scripted import ScriptedBroker, client_of
from pyclient.core.tests.test_client import on_loop
from pyclient.errors import ConfigError, ConnectionFailed
from pyclient.keywords import with_dots
from pyclient.protocol import Heartbeat, Produce
from pyclient.security import server_context
from pyclient.security.tests.making import world
from pyclient.tests.support import PATIENCE_S

LARGE = 5 << 20


def listener(**settings):
    """Returns the TLS context of a server."""
    made = world()
    keys = {"ssl.keystore.key": made.server.key, "ssl.keystore.certificate.chain": "\n".join(made.server.chain)}
    return server_context(keys | with_dots(settings))


def trusting(**settings):
    """Returns the TLS settings of a client."""
    return {"security_protocol": "SSL", "ssl_truststore_certificates": world().authority, **settings}


@on_loop
async def test_requests_of_all_sizes_are_answered_over_tls():
    async with ScriptedBroker(7, listener()) as broker, client_of(broker.address, **trusting()) as client:
        broker.handlers[Heartbeat] = lambda request, _: Heartbeat.Response(throttle_time_ms=request.generation_id)
        broker.handlers[Produce] = lambda *_: Produce.Response()
        await client.start(PATIENCE_S)
        rows = [Produce.Request.PartitionProduceData(index=0, records=bytes(LARGE))]
        topic = Produce.Request.TopicProduceData(name="t", topic_id=bytes(16), partition_data=rows)
        beats = [
            client.send(7, Heartbeat, Heartbeat.Request(group_id="g", generation_id=number, member_id="m"))
            for number in range(50)
        ]
        large = client.send(7, Produce, Produce.Request(acks=1, topic_data=[topic]))
        *answers, _ = await asyncio.gather(*beats, large)
        assert [each.throttle_time_ms for each in answers] == list(range(50))
        (asked,) = broker.asked(Produce)
        assert len(asked.topic_data[0].partition_data[0].records) == LARGE
        assert broker.connections == 1


@on_loop
async def test_a_server_without_tls_fails_in_the_phase_of_the_handshake():
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    settings = trusting(socket_connection_setup_timeout_ms=50, socket_connection_setup_timeout_max_ms=50)
    async with client_of(address, **settings) as client:
        with pytest.raises(ConnectionFailed) as caught:
            await client.start(0.5)
    server.close()
    assert (caught.value.host, caught.value.phase) == (address, "TLS handshake")


@on_loop
async def test_a_client_that_is_closed_during_the_handshake_closes_its_socket():
    met, gone = asyncio.Event(), asyncio.Event()

    async def silent(reader, writer):
        met.set()
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with client_of(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", **trusting()) as client:
        starting = asyncio.ensure_future(client.start(PATIENCE_S))
        await met.wait()
    await gone.wait()
    with pytest.raises(Exception):  # noqa: B017, PT011
        await starting
    server.close()


@on_loop
async def test_a_client_sends_its_certificate_if_the_broker_requests_one():
    made = world()
    context = listener(ssl_client_auth="required", ssl_truststore_certificates=made.authority)
    settings = trusting(
        ssl_keystore_key=made.client.encrypted_key,
        ssl_keystore_certificate_chain="\n".join(made.client.chain),
        ssl_key_password="key secret",
    )
    async with ScriptedBroker(7, context) as broker, client_of(broker.address, **settings) as client:
        await client.start(PATIENCE_S)


def test_tls_settings_are_checked_when_the_client_is_created():
    async def work():
        async with client_of("h:1", security_protocol="SSL", ssl_truststore_location="/no/file"):
            pass

    with pytest.raises(ConfigError, match=r"ssl.truststore.location: /no/file: No such file"):
        asyncio.run(work())


def test_a_plaintext_client_creates_no_tls_context(monkeypatch):
    monkeypatch.setattr(ssl, "SSLContext", None)

    async def work():
        async with ScriptedBroker(7) as broker, client_of(broker.address) as client:
            await client.start(PATIENCE_S)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"ssl_keystore_type": "PEM", "ssl_key_password": "hush"}, "ssl.keystore.type, ssl.key.password"),
        ({"ssl_truststore_location": "/ca.pem", "security_protocol": "PLAINTEXT"}, None),
        ({}, None),
    ],
)
def test_a_warning_names_tls_settings_without_effect(settings, names, caplog):
    assert secured(load(PRODUCER, "h:1", settings)) is None
    told = [row.getMessage() for row in caplog.records if row.name == "pyclient"]
    told_of = [text.partition(" has no effect, nothing is encrypted: set security.protocol=SSL")[0] for text in told]
    assert told_of == ([] if names is None else [names])
    assert "hush" not in caplog.text
