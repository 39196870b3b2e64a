"""Producer, consumer and admin by SASL, in plain text and by TLS, against a real Kafka."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.servers.brokers import RealKafka, free_port
from pyclient import Admin, Consumer, KafkaError, Producer, aio
from pyclient.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyclient.core.security.oauth import unsecured
from pyclient.errors import SaslRefused
from pyclient.protocol.errors import ResourceNotFound
from pyclient.security.tests.making import world
from pyclient.tests.brokers import QUICK
from pyclient.tests.support import PATIENCE_S, answered, take

USER, PASSWORD = "alice", "pen,cil=ä"
REAUTHENTICATED_MS = 2000
MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="kafka" password="x" user_{USER}="{PASSWORD}";'
SCRAM = f"{MODULES}.scram.ScramLoginModule required;"
OAUTH = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="kafka";'
LOGINS = {"PLAIN": PLAIN, "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM, "OAUTHBEARER": OAUTH}
WAYS = [
    *(("SASL_PLAINTEXT", mechanism) for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    *(("SASL_SSL", mechanism) for mechanism in LOGINS),
]
PLAIN_CONTROLLER = ",CONTROLLER:PLAINTEXT"
QUICKLY_S = 20.0


class SecuredKafka(RealKafka):
    """Has listeners with SASL beside the plain one. The one with TLS has every mechanism, the other one all but
    OAUTHBEARER.
    """

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.ports = {"PLAINTEXT": free_port(), "SASL_PLAINTEXT": free_port(), "SASL_SSL": free_port()}
        self.port = self.ports["PLAINTEXT"]
        self.config |= QUICK

    def at(self, protocol: str) -> str:
        """Returns the address of a listener."""
        return f"{self.host}:{self.ports[protocol]}"

    def _properties(self) -> dict[str, str]:
        known = super()._properties()
        own = ",".join(f"{name}://{self.at(name)}" for name in self.ports)
        server = world().server
        keys = {"ssl.keystore.key": server.key, "ssl.keystore.certificate.chain": "\n".join(server.chain)}
        logins = {
            f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": login.replace("ä", "\\u00e4")
            for name in ("sasl_plaintext", "sasl_ssl")
            for mechanism, login in LOGINS.items()
        }
        return known | {name: text.replace("\n", "\\n") for name, text in keys.items()} | logins | {
            "listeners": f"{own},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": own,
            "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in self.ports) + PLAIN_CONTROLLER,
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "sasl.enabled.mechanisms": ",".join(LOGINS),
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.connections.max.reauth.ms": str(REAUTHENTICATED_MS),
            "listener.name.sasl_ssl.scram-sha-256.connections.max.reauth.ms": str(REAUTHENTICATED_MS),
        }


@pytest.fixture(scope="module")
def java_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("sasl") / "data") as broker:
        with Admin(broker.bootstrap) as admin:
            users = [UserScramCredentialUpsertion(USER, ScramCredentialInfo(ScramMechanism(number)), PASSWORD)
                     for number in (1, 2)]  # fmt: skip
            for each in users:  # Kafka takes one of a user at a time
                admin.alter_user_scram_credentials([each])
            answered(lambda: len(admin.describe_user_scram_credentials(USER)[USER]) == 2)
        yield broker


def client(protocol: str, mechanism: str, **more: Any) -> dict[str, Any]:
    """Returns a client's settings."""
    known: dict[str, Any] = {"security_protocol": protocol, "sasl_mechanism": mechanism}
    if protocol == "SASL_SSL":
        known["ssl_truststore_certificates"] = world().authority
    if mechanism == "OAUTHBEARER":
        known["sasl_oauth_token_provider"] = token
    else:
        known |= {"sasl_username": USER, "sasl_password": PASSWORD}
    return known | more


async def token() -> str:
    now = time.time()
    return unsecured({"sub": USER, "iat": now, "exp": now + 600})


numbers = count(1)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_records_are_sent_and_read_over_sasl(java_broker: SecuredKafka, protocol: str, mechanism: str) -> None:
    address, settings, topic = java_broker.at(protocol), client(protocol, mechanism), f"t{next(numbers)}"
    with Admin(address, **settings) as admin:
        admin.create_topics(topic, num_partitions=2)
    sent = [b"%d" % number for number in range(1000)] + [bytes(700_000)]
    with Producer(address, **settings) as producer:
        producer.send_many(topic, sent)
        producer.flush()
    group = {"group_id": topic, "auto_offset_reset": "earliest"}
    with Consumer(address, topics=[topic], **group, **settings) as consumer:
        assert sorted(record.value for record in take(consumer, len(sent))) == sorted(sent)

    async def asynchronously() -> int:
        async with aio.Producer(address, **settings) as producer:
            return (await producer.send(topic, value=b"here", partition=0)).partition

    assert asyncio.run(asyncio.wait_for(asynchronously(), PATIENCE_S)) == 0


@pytest.mark.parametrize(("protocol", "mechanism"), [way for way in WAYS if way[1] != "OAUTHBEARER"])
def test_a_wrong_password_raises_an_error_at_once(java_broker: SecuredKafka, protocol: str, mechanism: str) -> None:
    settings = client(protocol, mechanism, sasl_password="hush")
    with Admin(java_broker.at(protocol), **settings) as admin, pytest.raises(SaslRefused) as caught:
        admin.describe_cluster(timeout=PATIENCE_S)
    plain, other = "Invalid username or password", f"due to invalid credentials with SASL mechanism {mechanism}"
    assert f"{plain if mechanism == 'PLAIN' else other}; are sasl.username" in str(caught.value)


def test_producer_and_consumer_raise_an_error_for_a_wrong_password(java_broker: SecuredKafka) -> None:
    address, settings = java_broker.at("SASL_PLAINTEXT"), client("SASL_PLAINTEXT", "PLAIN", sasl_password="hush")
    with Producer(address, **settings) as producer, pytest.raises(SaslRefused):
        producer.send("t", b"x").result(PATIENCE_S)
    with Consumer(address, topics=["t"], group_id="g", **settings) as consumer, pytest.raises(SaslRefused):
        consumer.poll(PATIENCE_S)


def test_the_error_about_an_unsupported_mechanism_lists_the_supported_ones(java_broker: SecuredKafka) -> None:
    address = java_broker.at("SASL_PLAINTEXT")
    with Admin(address, **client("SASL_PLAINTEXT", "OAUTHBEARER")) as admin, pytest.raises(SaslRefused) as caught:
        admin.describe_cluster(timeout=PATIENCE_S)
    told = str(caught.value)
    assert "the broker has no OAUTHBEARER, but " in told
    assert all(name in told for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))


def test_an_error_says_that_security_protocol_does_not_match_the_listener(java_broker: SecuredKafka) -> None:
    def told(address: str, settings: dict[str, Any]) -> str:
        with Admin(address, **settings) as admin, pytest.raises(KafkaError) as caught:
            admin.describe_cluster(timeout=QUICKLY_S / 10)
        return str(caught.value)

    sasl, tls = client("SASL_PLAINTEXT", "PLAIN"), client("SASL_SSL", "PLAIN")
    assert "does not use SASL; set security.protocol=PLAINTEXT" in told(java_broker.at("PLAINTEXT"), sasl)
    is_right = "is security.protocol right? This client's is {}"
    assert is_right.format("PLAINTEXT") in told(java_broker.at("SASL_PLAINTEXT"), {})
    assert is_right.format("PLAINTEXT") in told(java_broker.at("SASL_SSL"), {})
    assert is_right.format("SASL_SSL") in told(java_broker.at("SASL_PLAINTEXT"), tls)


def test_a_connection_reauthenticates_and_outlasts_its_session(
    java_broker: SecuredKafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyclient")
    end = time.monotonic() + 3 * REAUTHENTICATED_MS / 1000
    sent = 0
    with Producer(java_broker.at("SASL_SSL"), **client("SASL_SSL", "PLAIN")) as producer:
        while time.monotonic() < end:
            producer.send("lasting", b"x").result(PATIENCE_S)
            sent += 1
    assert sent > 10
    assert "lost" not in caplog.text


def test_a_consumer_gets_an_error_when_its_user_is_deleted(java_broker: SecuredKafka) -> None:
    eve, settings = "eve", client("SASL_SSL", "SCRAM-SHA-256", sasl_username="eve")
    weak = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256)
    with Admin(java_broker.bootstrap) as admin:
        admin.create_topics("taken")
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(eve, weak, PASSWORD)])
        answered(lambda: admin.describe_user_scram_credentials(eve))
        with Consumer(java_broker.at("SASL_SSL"), topics=["taken"], group_id=eve, **settings) as consumer:
            answered(lambda: consumer.poll(0.1) or consumer.assignment())
            admin.alter_user_scram_credentials([UserScramCredentialDeletion(eve, weak.mechanism)])
            with pytest.raises(SaslRefused, match="invalid credentials"):
                consumer.poll(PATIENCE_S)


def test_users_are_created_listed_and_deleted(java_broker: SecuredKafka) -> None:
    bob, strong = "bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    settings = client("SASL_PLAINTEXT", "SCRAM-SHA-512", sasl_username=bob)
    with Admin(java_broker.bootstrap) as admin:
        assert admin.alter_user_scram_credentials([UserScramCredentialUpsertion(bob, strong, PASSWORD)]) == {bob: None}
        assert answered(lambda: admin.describe_user_scram_credentials(bob)) == {bob: [strong]}
        assert set(admin.describe_user_scram_credentials()) == {USER, bob}
        with Admin(java_broker.at("SASL_PLAINTEXT"), **settings) as his:
            answered(lambda: his.describe_cluster(timeout=QUICKLY_S))
        admin.alter_user_scram_credentials([UserScramCredentialDeletion(bob, strong.mechanism)])
        gone = answered(lambda: admin.describe_user_scram_credentials(bob, check=False), lambda found: found.errors)
        assert isinstance(gone.errors[bob], ResourceNotFound)
        again = admin.alter_user_scram_credentials([UserScramCredentialDeletion(bob, strong.mechanism)], check=False)
        assert isinstance(again.errors[bob], ResourceNotFound)
