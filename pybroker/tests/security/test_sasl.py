"""A broker with listeners of SASL, and other projects' clients, with their own settings."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

import pytest

from pybroker.tests.security.test_tls import Running, running
from pybroker.tests.waiting import PATIENCE_S

USERS = {"alice": "alice-secret", "bob": 'b"o b=,'}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = {"INSIDE": "SASL_PLAINTEXT", "OUTSIDE": "SASL_SSL"}
VALUES = [b"record %d" % number for number in range(100)]
PLAIN_USERS = """org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="admin-secret"  // those of the broker itself
    user_alice="alice-secret" user_bob='b"o b=,';"""
SETTINGS = {
    "listeners": "PLAINTEXT://localhost:0,INSIDE://localhost:0,OUTSIDE://localhost:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_SSL",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.inside.plain.sasl.jaas.config": PLAIN_USERS,
    "listener.name.outside.plain.sasl.jaas.config": PLAIN_USERS,
    "listener.name.outside.scram-sha-256.sasl.jaas.config":
        "org.apache.kafka.common.security.scram.ScramLoginModule required;",
}
ways = pytest.mark.parametrize(("listener", "mechanism"), [(each, way) for each in LISTENERS for way in MECHANISMS])


def address(served: Running, listener: str) -> str:
    """Returns ``host:port`` of a listener."""
    return next(each for each in served.broker.listeners().split(",") if each.startswith(listener)).partition("://")[2]


def add_users(served: Running) -> None:
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    admin = AdminClient({"bootstrap.servers": address(served, "PLAINTEXT")})
    changes = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        for user, password in USERS.items()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for done in admin.alter_user_scram_credentials(changes).values():
        done.result(PATIENCE_S)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("sasl"), **SETTINGS) as broker:
        add_users(broker)
        yield broker


def librdkafka(
    served: Running, listener: str, mechanism: str, user: str = "alice", password: str = ""
) -> dict[str, str]:
    return {
        "bootstrap.servers": address(served, listener),
        "security.protocol": LISTENERS[listener],
        "ssl.ca.location": served.ca,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or USERS[user],
    }


@ways
@pytest.mark.parametrize("user", USERS)
def test_librdkafka_produces_and_fetches(served: Running, listener: str, mechanism: str, user: str) -> None:
    from confluent_kafka import Consumer, Producer

    settings, topic = librdkafka(served, listener, mechanism, user), f"by-librdkafka-{listener}-{mechanism}-{user}"
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values = []
    while len(values) < len(VALUES):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        values.append(message.value())
    assert f"User:{user}" in served.principals
    consumer.close()
    assert values == VALUES


@ways
def test_kafka_python_produces_and_fetches(served: Running, listener: str, mechanism: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    settings = {
        "bootstrap_servers": address(served, listener),
        "security_protocol": LISTENERS[listener],
        "ssl_cafile": served.ca,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "bob",
        "sasl_plain_password": USERS["bob"],
    }
    topic = f"by-kafka-python-{listener}-{mechanism}"
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **settings)
    values = [record.value for _, record in zip(VALUES, consumer, strict=False)]
    consumer.close()
    assert values == VALUES


@ways
def test_aiokafka_produces_and_fetches(served: Running, listener: str, mechanism: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def scenario() -> None:
        settings = {
            "bootstrap_servers": address(served, listener),
            "security_protocol": LISTENERS[listener],
            "ssl_context": ssl.create_default_context(cafile=served.ca) if LISTENERS[listener] == "SASL_SSL" else None,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": USERS["alice"],
        }
        topic = f"by-aiokafka-{listener}-{mechanism}"
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            assert [(await consumer.getone()).value for _ in VALUES] == VALUES

    asyncio.run(scenario())


@ways
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "alice-secret")])
def test_a_wrong_password_and_an_unknown_user_get_the_same_error(
    served: Running, listener: str, mechanism: str, user: str, password: str
) -> None:
    from confluent_kafka import Producer

    told: list[str] = []
    settings = librdkafka(served, listener, mechanism, user, password)
    producer = Producer(settings, error_cb=lambda error: told.append(error.str()), log_level=0)
    while not told:
        producer.poll(PATIENCE_S)
    says = {
        "PLAIN": "Authentication failed: Invalid username or password",
    }.get(mechanism, f"due to invalid credentials with SASL mechanism {mechanism}")
    assert says in told[0]
    assert not any("nobody" in each for each in served.principals)


def test_settings_of_a_sasl_listener_cannot_change_while_it_runs(served: Running) -> None:
    """Passwords would be readable in the coordination store, and a running authentication began with other settings."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    admin = AdminClient(librdkafka(served, "INSIDE", "PLAIN"))
    for key in ("sasl.enabled.mechanisms", "listener.name.inside.plain.sasl.jaas.config", "connections.max.reauth.ms"):
        entry = ConfigEntry(key, "hunter2", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        (done,) = admin.incremental_alter_configs([resource]).values()
        with pytest.raises(Exception, match=f"{key} cannot be changed while the broker runs") as caught:
            done.result(PATIENCE_S)
        assert "hunter2" not in str(caught.value)


def test_users_are_described_without_their_secrets(served: Running) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(librdkafka(served, "INSIDE", "PLAIN"))
    found = admin.describe_user_scram_credentials().result(PATIENCE_S)
    assert {name: len(each.scram_credential_infos) for name, each in found.items()} == dict.fromkeys(USERS, 2)
    named = admin.describe_user_scram_credentials(["alice", "nobody"])
    assert [each.iterations for each in named["alice"].result(PATIENCE_S).scram_credential_infos] == [4096, 4096]
    with pytest.raises(Exception, match="does not exist: nobody"):
        named["nobody"].result(PATIENCE_S)


def test_a_user_whose_password_is_deleted_is_refused(served: Running) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": address(served, "PLAINTEXT")})

    def alter(change: object) -> None:
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(PATIENCE_S)

    def topics() -> object:
        settings = librdkafka(served, "INSIDE", "SCRAM-SHA-512", "carol", "carol-secret")
        return AdminClient({**settings, "log_level": "0"}).list_topics(timeout=PATIENCE_S)

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    alter(UserScramCredentialUpsertion("carol", info, b"carol-secret"))
    assert topics()
    alter(UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_512))
    told: list[str] = []
    settings = librdkafka(served, "INSIDE", "SCRAM-SHA-512", "carol", "carol-secret")
    again = AdminClient({**settings, "error_cb": lambda error: told.append(error.str()), "log_level": "0"})
    while not told:
        again.poll(PATIENCE_S)
    assert "invalid credentials" in told[0]
