"""Clients with tokens of OAUTHBEARER, which they get from functions of the application."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from pybroker.cluster.node import ClusterNode
from pybroker.config import ConfigError
from pybroker.security.sasl.key_fetcher import KeyFetcher
from pybroker.security.sasl.tests.keys_server import jwks, serving
from pybroker.tests.security.test_sasl import VALUES, address
from pybroker.tests.security.test_tls import Running, running
from pybroker.tests.waiting import PATIENCE_S

KEY = RSAKey.generate_key(2048, {"kid": "one"})
LIFETIME_S = 3600


class Served(NamedTuple):
    broker: Running
    bootstrap: str


def token(sub: str = "alice", key: RSAKey = KEY) -> str:
    now_s = int(time.time())
    claims = {"sub": sub, "iss": "https://issuer", "aud": "kafka", "iat": now_s, "exp": now_s + LIFETIME_S}
    return str(jwt.encode({"alg": "RS256", "kid": "one"}, claims, key))


def settings_for(url: str) -> dict[str, str]:
    return {
        "listeners": "OUTSIDE://localhost:0",
        "listener.security.protocol.map": "OUTSIDE:SASL_SSL",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "kafka",
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("oauth")
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    with running(folder, **settings_for(keys.as_uri())) as broker:
        yield Served(broker, address(broker, "OUTSIDE"))


def librdkafka(served: Served, text: str) -> dict[str, object]:
    return {
        "bootstrap.servers": served.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": served.broker.ca,
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (text, time.time() + LIFETIME_S),
    }


def test_unreadable_keys_stop_the_start_before_the_registration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[ClusterNode] = []
    monkeypatch.setattr(ClusterNode, "join", lambda self, *given, **named: joined.append(self))
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    with pytest.raises(ConfigError, match=f"{keys}: it is not a"), running(tmp_path, **settings_for(keys.as_uri())):
        pytest.fail("not reached")
    assert not joined


def test_a_broker_registers_after_its_first_attempt_to_fetch_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a slow key server would leave the clients of a registered leader without service."""
    order: list[str] = []
    join, tried = ClusterNode.join, KeyFetcher.tried

    async def first(self: KeyFetcher) -> None:
        await tried(self)
        order.append("tried")

    async def then(self: ClusterNode, *given: Any, **named: Any) -> None:
        order.append("joined")
        await join(self, *given, **named)

    monkeypatch.setattr(KeyFetcher, "tried", first)
    monkeypatch.setattr(ClusterNode, "join", then)
    with serving(jwks(KEY)) as server, running(tmp_path, **settings_for(server.url)):
        assert order == ["tried", "joined"]


def test_keys_may_come_by_http_also_when_the_broker_runs_already(tmp_path: Path) -> None:
    from pyclient import Producer
    from pyclient.errors import SaslRefused

    with serving() as server:
        server.status = 503
        with running(tmp_path, **settings_for(server.url)) as broker:
            known = {"security_protocol": "SASL_SSL", "ssl_truststore_location": broker.ca}
            known |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token}
            bootstrap = address(broker, "OUTSIDE")
            with Producer(bootstrap, **known) as producer, pytest.raises(SaslRefused):
                producer.send("by-http", b"x").result(PATIENCE_S)
            server.status, server.body = 200, jwks(KEY)
            broker.until(lambda: broker.broker.protection.sasl["OUTSIDE"].tokens.keys)  # type: ignore[union-attr]
            with Producer(bootstrap, **known) as producer:
                producer.send("by-http", b"x").result(PATIENCE_S)
                assert "User:alice" in broker.principals


def test_librdkafka_comes_in_with_a_token(served: Served) -> None:
    from confluent_kafka import Producer

    producer = Producer(librdkafka(served, token("alice")))
    for value in VALUES:
        producer.produce("by-librdkafka", value)
    assert producer.flush(PATIENCE_S) == 0
    assert "User:alice" in served.broker.principals


def test_kafka_python_comes_in_with_a_token(served: Served) -> None:
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token("bob")

    producer = KafkaProducer(
        bootstrap_servers=served.bootstrap,
        security_protocol="SASL_SSL",
        ssl_cafile=served.broker.ca,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    producer.send("by-kafka-python", b"x").get(PATIENCE_S)
    assert "User:bob" in served.broker.principals
    producer.close()


def test_aiokafka_comes_in_with_a_token(served: Served) -> None:
    import ssl

    from aiokafka import AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token("carol")

    async def scenario() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=served.bootstrap,
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=served.broker.ca),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        ) as producer:
            await producer.send_and_wait("by-aiokafka", b"x")
            assert "User:carol" in served.broker.principals

    asyncio.run(scenario())


def test_our_client_comes_in_with_a_token_and_is_told_if_it_is_refused(served: Served) -> None:
    from pyclient import Producer
    from pyclient.errors import SaslRefused

    known = {"security_protocol": "SASL_SSL", "ssl_truststore_location": served.broker.ca}
    known["sasl_mechanism"] = "OAUTHBEARER"
    with Producer(served.bootstrap, sasl_oauth_token_provider=lambda: token("dora"), **known) as producer:
        producer.send("by-sdk", b"x").result(PATIENCE_S)
        assert "User:dora" in served.broker.principals
    stranger = token("mallory", RSAKey.generate_key(2048, {"kid": "one"}))
    refused = pytest.raises(SaslRefused, match="does the broker know the token's issuer")
    with Producer(served.bootstrap, sasl_oauth_token_provider=lambda: stranger, **known) as producer, refused:
        producer.send("by-sdk", b"x").result(PATIENCE_S)


def test_a_token_with_an_unknown_signature_is_refused(served: Served) -> None:
    from confluent_kafka import Producer

    told: list[str] = []
    stranger = token("mallory", RSAKey.generate_key(2048, {"kid": "one"}))
    settings = {**librdkafka(served, stranger), "error_cb": lambda error: told.append(error.str()), "log_level": 0}
    producer = Producer(settings)
    while not told:
        producer.poll(PATIENCE_S)
    assert "invalid_token" in told[0]
    assert not any("mallory" in each for each in served.broker.principals)
