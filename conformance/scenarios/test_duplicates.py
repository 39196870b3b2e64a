"""Duplicates: S40. The ack is lost on purpose; the idempotent producer's record is in the log once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import confluent_kafka
import pytest
from kafka import KafkaProducer

from conformance import batches
from conformance.brokers import Broker, free_port
from conformance.conftest import NewBroker
from conformance.faults.proxy import FaultProxy
from conformance.scenarios.support import Deliveries, read
from conformance.wire_client import Wire
from conformance.witnesses import used

COUNT = 2_000


@pytest.fixture
def lossy(new_broker: NewBroker) -> Iterator[tuple[Broker, FaultProxy]]:
    """A broker whose clients see it only through a proxy."""
    port = free_port()
    with FaultProxy(lambda: ("127.0.0.1", port)) as proxy:
        broker = new_broker(start=False, advertised_listeners=f"PLAINTEXT://{proxy.bootstrap}")
        broker.port = port
        broker.start()
        with Wire(broker.address) as wire:
            wire.create_topic("t")
        yield broker, proxy


def write_through(proxy: FaultProxy, *, idempotent: bool) -> None:
    reports = Deliveries()
    options: dict[str, object] = {"acks": "all", "linger.ms": 2, "batch.num.messages": 20}
    options |= {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "enable.idempotence": idempotent}
    client = confluent_kafka.Producer({"bootstrap.servers": proxy.bootstrap, **options})
    proxy.lose_replies(every=3, count=15)
    for number in range(COUNT):
        client.produce("t", b"%d" % number, on_delivery=reports)
        client.poll(0)
    assert client.flush(60) == 0
    assert not reports.errors
    assert len(proxy.lost) >= 5, "the fault did not happen"


def stored(broker: Broker) -> list[int]:
    """All values, read from the broker itself, not through the proxy that it advertises."""
    found: list[int] = []
    with Wire(broker.address) as wire:
        end = wire.end_offset("t")
        while len(found) < end:
            found += [int(value or b"") for value in batches.values(wire.fetch("t", len(found)).records)]
    return found


def test_s40_lost_acks_yield_no_duplicate_for_an_idempotent_producer(
    lossy: tuple[Broker, FaultProxy],
) -> None:
    broker, proxy = lossy
    write_through(proxy, idempotent=True)
    assert stored(broker) == list(range(COUNT))


def test_s40_the_same_losses_do_yield_duplicates_without_idempotence(
    lossy: tuple[Broker, FaultProxy],
) -> None:
    """Proves that the test above can fail."""
    broker, proxy = lossy
    write_through(proxy, idempotent=False)
    counts = Counter(stored(broker))
    assert set(counts) == set(range(COUNT))
    assert max(counts.values()) > 1


def test_s40_kafka_pythons_idempotent_producer_survives_lost_acks(
    lossy: tuple[Broker, FaultProxy],
) -> None:
    broker, proxy = lossy
    proxy.lose_replies(count=2)
    used("kafka-python")
    client = KafkaProducer(
        bootstrap_servers=proxy.bootstrap, acks="all", enable_idempotence=True, linger_ms=5, retry_backoff_ms=20
    )
    futures = [client.send("t", b"%d" % number) for number in range(500)]
    assert [future.get(60).offset for future in futures] == list(range(500))
    client.close()
    assert proxy.lost
    assert stored(broker) == list(range(500))


def test_s40_a_resent_batch_is_dropped_and_a_gap_is_refused(broker: Broker, topic: str) -> None:
    with Wire(broker.address) as wire:
        producer_id = wire.new_producer_id()

        def send(sequence: int) -> tuple[int, int]:
            data = batches.batch(
                [b"a", b"b"], producer_id=producer_id, producer_epoch=0, base_sequence=sequence
            )
            row = wire.produce(topic, data)
            return row.error_code, row.base_offset

        assert send(0) == (0, 0)
        assert send(2) == (0, 2)
        assert send(0) == (0, 0)
        assert send(2) == (0, 2)
        assert send(6)[0] == 45
        assert wire.end_offset(topic) == 4
        assert [row.value() for row in read(broker, topic, 4)] == [b"a", b"b"] * 2


def test_s40_sequences_are_kept_per_partition_and_over_a_crash(new_broker: NewBroker) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t", 2)
        producer_id = wire.new_producer_id()
    first = batches.batch([b"x"], producer_id=producer_id, producer_epoch=0, base_sequence=0)
    with Wire(broker.address) as wire:
        assert wire.produce("t", first, 0).base_offset == 0
        assert wire.produce("t", first, 1).base_offset == 0
        assert wire.produce("t", first, 1).base_offset == 0
    broker.crash()
    with Wire(broker.address) as wire:
        assert wire.produce("t", first, 0).base_offset == 0
        assert wire.end_offset("t", 0) == 1
        assert wire.end_offset("t", 1) == 1
