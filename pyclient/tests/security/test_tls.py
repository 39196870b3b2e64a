"""Producer, consumer and admin by TLS, against a broker whose only listener speaks it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from harness.servers.brokers import OurBroker
from pyclient import Admin, Consumer, Producer, aio
from pyclient.errors import ClientForked, TlsRefused
from pyclient.security.tests.making import Identity, world
from pyclient.tests.brokers import QUICK
from pyclient.tests.support import PATIENCE_S, read_all, take

LARGE = 700_000
ALONE = 200


def key_settings(who: Identity) -> dict[str, str]:
    return {"ssl.keystore.key": who.key, "ssl.keystore.certificate.chain": "\n".join(who.chain)}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    made = world()
    secured = OurBroker(tmp_path_factory.mktemp("tls") / "data")
    secured.config |= QUICK | key_settings(made.server)
    secured.config |= {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": made.authority,
        "ssl.client.auth": "required",
    }
    with secured:
        yield secured.bootstrap


@pytest.fixture
def settings() -> dict[str, Any]:
    made = world()
    given = {"security.protocol": "SSL", "ssl.truststore.certificates": made.authority, **key_settings(made.client)}
    return {name.replace(".", "_"): value for name, value in given.items()}


numbers = count(1)


@pytest.fixture
def topic(address: str, settings: dict[str, Any]) -> str:
    name = f"t{next(numbers)}"
    with Admin(address, **settings) as admin:
        admin.create_topics(name, num_partitions=2)
    return name


def test_records_of_all_sizes_pass_tls_unchanged(address: str, settings: dict[str, Any], topic: str) -> None:
    sent = [os.urandom(size) for size in [0, 1, 16_384, LARGE, LARGE] + [700] * 2000]
    with Producer(address, linger_ms=5, **settings) as producer:
        producer.send_many(topic, sent)
        producer.flush()
    found = read_all(address, topic, 2, **settings)
    assert sorted(record.value for record in found) == sorted(sent)


def test_single_records_are_acknowledged_over_tls(address: str, settings: dict[str, Any], topic: str) -> None:
    with Producer(address, **settings) as producer:
        offsets = [producer.send(topic, value=b"x", partition=0).result(PATIENCE_S).offset for _ in range(ALONE)]
    assert offsets == list(range(ALONE))


def test_a_group_member_commits_in_a_transaction_over_tls(address: str, settings: dict[str, Any], topic: str) -> None:
    with Producer(address, transactional_id=f"x-{topic}", **settings) as producer, producer.transaction():
        producer.send_many(topic, [b"a", b"b", b"c"])
    group = {"group_id": topic, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(address, topics=[topic], **group, **settings) as consumer:
        assert sorted(record.value for record in take(consumer, 3)) == [b"a", b"b", b"c"]


def test_asyncio_clients_work_over_tls(address: str, settings: dict[str, Any], topic: str) -> None:
    async def work() -> list[bytes]:
        async with aio.Producer(address, **settings) as producer:
            await producer.send(topic, value=b"here")
            await producer.flush()
        earliest = {"auto_offset_reset": "earliest"}
        async with aio.Consumer(address, topics=[topic], **earliest, **settings) as consumer:
            while not (found := await consumer.poll(timeout=1)):
                pass
            return [record.value for record in found]

    assert asyncio.run(asyncio.wait_for(work(), PATIENCE_S)) == [b"here"]


@pytest.mark.nightly
def test_a_forked_child_does_not_disturb_the_connection_of_its_parent(
    address: str, settings: dict[str, Any], topic: str
) -> None:
    with Producer(address, **settings) as producer:
        producer.send(topic, value=b"before").result(PATIENCE_S)
        child = os.fork()
        if child == 0:
            try:
                producer.send(topic, value=b"child")
            except ClientForked:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        producer.send(topic, value=b"after").result(PATIENCE_S)
    assert sorted(record.value for record in read_all(address, topic, 2, **settings)) == [b"after", b"before"]


def test_the_error_says_that_the_broker_requires_a_client_certificate(address: str, settings: dict[str, Any]) -> None:
    bare = {name: value for name, value in settings.items() if "keystore" not in name}
    with Admin(address, **bare) as admin, pytest.raises(TlsRefused, match=r"certificate .*set ssl.keystore.location"):
        admin.connect(PATIENCE_S)


def test_the_error_says_that_the_authority_is_unknown(address: str, settings: dict[str, Any]) -> None:
    other = {name: value for name, value in settings.items() if "truststore" not in name}
    with Admin(address, **other) as admin, pytest.raises(TlsRefused, match="unknown authority"):
        admin.connect(PATIENCE_S)
