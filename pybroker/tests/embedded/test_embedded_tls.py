"""``pybroker.run(tls=True)``, and the settings that it gives to clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pybroker
from harness.peers import Java
from pybroker.client_settings import settings_for
from pyclient import Consumer, Producer
from pyclient.errors import TlsRefused

PATIENCE_S = 60.0
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def broker() -> Iterator[pybroker.EmbeddedBroker]:
    with pybroker.run(tls=True) as running:
        yield running


def test_our_client_connects_by_the_settings_that_the_broker_returns(broker: pybroker.EmbeddedBroker) -> None:
    with Producer(**broker.client_settings()) as producer:
        producer.send("ours", b"hello").result(timeout=PATIENCE_S)
    with Consumer(**broker.client_settings(), topics=["ours"], auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"hello"


def test_confluent_kafka_comes_in_by_the_settings_that_the_broker_gives(broker: pybroker.EmbeddedBroker) -> None:
    from confluent_kafka import Producer as ConfluentProducer

    delivered: list[object] = []
    producer = ConfluentProducer(broker.client_settings(library="confluent-kafka"))
    producer.produce("confluent", b"hello", on_delivery=lambda error, message: delivered.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert delivered == [None]


def test_aiokafka_and_kafka_python_come_in_by_the_settings_that_the_broker_gives(
    broker: pybroker.EmbeddedBroker,
) -> None:
    from aiokafka import AIOKafkaProducer
    from kafka import KafkaProducer

    async def send() -> int:
        async with AIOKafkaProducer(**broker.client_settings(library="aiokafka")) as producer:
            return (await producer.send_and_wait("theirs", b"hello")).offset

    assert asyncio.run(send()) == 0
    with KafkaProducer(**broker.client_settings(library="kafka-python")) as producer:
        assert producer.send("theirs", b"hello").get(PATIENCE_S).offset == 1


@pytest.mark.nightly
def test_a_client_gets_a_certificate_if_it_needs_one_and_a_restart_keeps_it(tmp_path: Path) -> None:
    with pybroker.run(tls=True, ssl_client_auth="required", data_dir=tmp_path) as broker:
        settings = broker.client_settings()
        with Producer(**settings) as producer:
            producer.send("t", b"one").result(timeout=PATIENCE_S)
            broker.restart()
            producer.send("t", b"two").result(timeout=PATIENCE_S)
        assert broker.client_settings() == settings
        assert settings["ssl_keystore_location"] == str(tmp_path / "tls" / "client.pem")
    with (
        pybroker.run(tls=True, ssl_client_auth="required", data_dir=tmp_path) as broker,
        Consumer(**broker.client_settings(), topics=["t"], auto_offset_reset="earliest") as consumer,
    ):
        assert [record.value for _, record in zip(range(2), consumer, strict=False)] == [b"one", b"two"]


@pytest.mark.nightly
def test_a_client_may_need_both_a_password_and_a_certificate() -> None:
    both: dict[str, Any] = {"tls": True, "sasl": "PLAIN", "users": {"alice": "secret"}}
    with pybroker.run(**both, ssl_client_auth="required") as broker:
        settings = broker.client_settings("alice")
        with Producer(**settings) as producer:
            producer.send("t", b"one").result(timeout=PATIENCE_S)
        del settings["ssl_keystore_location"]
        with pytest.raises(TlsRefused), Producer(**settings) as producer:
            producer.send("t", b"two").result(timeout=PATIENCE_S)
    assert "has no effect" not in broker.log
    assert "without effect" not in broker.log


@pytest.mark.nightly
def test_java_comes_in_with_a_certificate_by_the_settings_that_the_broker_gives(tmp_path: Path) -> None:
    java, own = Java(), tmp_path / "client.properties"
    with pybroker.run(tls=True, ssl_client_auth="required") as broker:
        settings = broker.client_settings(library="java")
        own.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        there = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "java", "--command-config", str(own))
        java(f"{TOOLS}.ConsoleProducer", *there, stdin="hello\n")
        read = java(f"{TOOLS}.consumer.ConsoleConsumer", *there, "--from-beginning", "--max-messages", "1", check=False)
        assert read == "hello\n"


@pytest.mark.nightly
def test_several_brokers_reach_each_other_by_tls() -> None:
    with pybroker.run(processes=3, tls=True, default_replication_factor=3, min_insync_replicas=3) as cluster:
        with Producer(**cluster.client_settings(), acks="all") as producer:
            producer.send("t", b"hello").result(timeout=PATIENCE_S)
        folder = cluster.data_dir
    assert not folder.exists()


def test_a_broker_without_tls_gives_its_address_only() -> None:
    assert settings_for("java", "localhost:1", None, None) == {"bootstrap.servers": "localhost:1"}
    assert settings_for("aiokafka", "localhost:1", None, None) == {"bootstrap_servers": "localhost:1"}


def test_java_gets_the_files_as_pem(tmp_path: Path) -> None:
    authority, own = tmp_path / "ca.pem", tmp_path / "client.pem"
    assert settings_for("java", "localhost:1", authority, own) == {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
    }


def test_unknown_libraries_and_contradicting_listeners_are_refused() -> None:
    with pytest.raises(ValueError, match="library='rdkafka' is not one of pyclient, confluent-kafka"):
        settings_for("rdkafka", "localhost:1", None, None)
    with pytest.raises(ValueError, match="tls and sasl already set listeners: give only one"):
        pybroker.EmbeddedBroker(tls=True, listeners="SSL://:9093")
