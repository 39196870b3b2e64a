"""A broker with listeners of SASL, and our own client and command line."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.cli.tests.running import Shell
from pybroker.tests.security.test_sasl import LISTENERS, SETTINGS, USERS, VALUES, add_users, address, ways
from pybroker.tests.security.test_tls import Running, running
from pybroker.tests.waiting import PATIENCE_S
from pyclient import Admin, Consumer, KafkaError, Producer, aio
from pyclient.errors import SaslRefused
from pyclient.tests.support import take

LIFETIME_MS = 2000
RENEWALS = 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limit = {"listener.name.inside.scram-sha-512.connections.max.reauth.ms": str(LIFETIME_MS)}
    with running(tmp_path_factory.mktemp("sdk"), **SETTINGS, **limit) as broker:
        add_users(broker)
        yield broker


def settings_of(served: Running, listener: str, mechanism: str, **more: Any) -> dict[str, Any]:
    """Returns the settings of a client."""
    known = {"security_protocol": LISTENERS[listener], "sasl_mechanism": mechanism}
    if listener == "OUTSIDE":
        known["ssl_truststore_location"] = served.ca
    return known | {"sasl_username": "bob", "sasl_password": USERS["bob"]} | more


@ways
def test_the_sync_and_async_clients_produce_and_fetch_by_sasl(served: Running, listener: str, mechanism: str) -> None:
    where, settings = address(served, listener), settings_of(served, listener, mechanism)
    topic = f"by-sdk-{listener}-{mechanism}"

    async def send() -> None:
        async with aio.Producer(where, **settings) as producer:
            for value in VALUES[:50]:
                await producer.send(topic, value)

    asyncio.run(send())
    with Producer(where, **settings) as producer:
        producer.send_many(topic, VALUES[50:])
    with Consumer(where, topics=[topic], group_id=topic, auto_offset_reset="earliest", **settings) as consumer:
        assert sorted(record.value for record in take(consumer, len(VALUES))) == sorted(VALUES)
        assert "User:bob" in served.principals


@ways
@pytest.mark.parametrize("wrong", [{"sasl_password": "hush"}, {"sasl_username": "nobody"}])
def test_a_wrong_name_or_password_is_reported(
    served: Running, listener: str, mechanism: str, wrong: dict[str, str]
) -> None:
    settings = settings_of(served, listener, mechanism, **wrong)
    with Admin(address(served, listener), **settings) as admin, pytest.raises(SaslRefused) as caught:
        admin.describe_cluster(timeout=PATIENCE_S)
    assert str(caught.value).endswith("; are sasl.username and sasl.password right?")


def test_an_error_says_that_security_protocol_does_not_match_the_listener(served: Running) -> None:
    def told(listener: str, settings: dict[str, Any]) -> str:
        with Admin(address(served, listener), **settings) as admin, pytest.raises(KafkaError) as caught:
            admin.describe_cluster(timeout=1)
        return str(caught.value)

    assert "set security.protocol=PLAINTEXT" in told("PLAINTEXT", settings_of(served, "INSIDE", "PLAIN"))
    assert "This client's is PLAINTEXT" in told("INSIDE", {})
    assert "This client's is PLAINTEXT" in told("OUTSIDE", {})
    token = settings_of(served, "INSIDE", "OAUTHBEARER", sasl_oauth_token_provider=lambda: "t")
    assert "the broker has no OAUTHBEARER, but PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in told("INSIDE", token)


@pytest.mark.nightly
def test_a_connection_outlasts_the_time_that_the_broker_grants_it(
    served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyclient")
    end = time.monotonic() + RENEWALS * LIFETIME_MS / 1000
    with Producer(address(served, "INSIDE"), **settings_of(served, "INSIDE", "SCRAM-SHA-512")) as producer:
        while time.monotonic() < end:
            producer.send("lasting", b"x").result(PATIENCE_S)
    assert "lost" not in caplog.text


def test_the_command_line_logs_in_too_and_creates_users(served: Running, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="alice-secret";'
    lines = {"security.protocol": "SASL_SSL", "ssl.truststore.location": served.ca, "sasl.mechanism": "SCRAM-SHA-256"}
    file.write_text("".join(f"{name}={text}\n" for name, text in {**lines, "sasl.jaas.config": login}.items()))
    shell = Shell(address(served, "OUTSIDE"))
    shell.done("user", "create", "dora", "--password-file", "-", "--command-config", file, stdin="dora-secret")
    told = shell.done("kafka-configs", "--describe", "--user", "dora", "--command-config", file).out
    both = "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096"
    assert told == f"SCRAM credential configs for user-principal 'dora' are {both}\n"
    hers = settings_of(served, "INSIDE", "SCRAM-SHA-512", sasl_username="dora", sasl_password="dora-secret")
    with Admin(address(served, "INSIDE"), **hers) as admin:
        assert admin.describe_cluster(timeout=PATIENCE_S)
    found = json.loads(shell("doctor", "--command-config", file, "-o", "json").out)
    assert "ok" in [each["level"] for each in found if each["check"].startswith("bootstrap")]
    shell.done("user", "delete", "dora", "--command-config", file)
