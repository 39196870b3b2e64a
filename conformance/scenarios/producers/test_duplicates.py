"""Duplicates: S40, S41. The ack is lost on purpose; the idempotent producer's record is in the log once."""

from __future__ import annotations

from collections import Counter

import confluent_kafka
import pytest
from kafka import KafkaProducer

from conformance import drivers
from conformance.conftest import Counted, NewBroker
from conformance.data import batches
from conformance.drivers.base import ClientError
from conformance.scenarios.by_spark import BySpark
from harness.clients.librdkafka import Deliveries, read
from harness.faults.proxy import FaultProxy
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker, free_port
from harness.witnesses import used

COUNT = 2_000


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
    """Returns all values in the log. Reads them from the broker itself, not through the proxy that the broker
    advertises.
    """
    with Wire(broker.address) as wire:
        return values_of(wire, "t")


def test_s40_lost_acks_cause_no_duplicate_for_an_idempotent_producer(
    proxied: tuple[Broker, FaultProxy], by_spark: BySpark, counted: Counted
) -> None:
    broker, proxy = proxied
    write_through(proxy, idempotent=True)
    assert stored(broker) == list(range(COUNT))
    counted("idempotent", sent=COUNT, acks_lost=len(proxy.lost), doubled=0)
    proxy.heal()
    assert [int(value or b"") for value in by_spark.values(proxy, "t")] == list(range(COUNT))


def test_s40_the_same_lost_acks_cause_duplicates_without_idempotence(
    proxied: tuple[Broker, FaultProxy], counted: Counted
) -> None:
    """Proves that the test above can fail."""
    broker, proxy = proxied
    write_through(proxy, idempotent=False)
    counts = Counter(stored(broker))
    assert set(counts) == set(range(COUNT))
    assert max(counts.values()) > 1
    counted("not idempotent", sent=COUNT, acks_lost=len(proxy.lost), doubled=counts.total() - COUNT)


def test_s40_kafka_pythons_idempotent_producer_survives_lost_acks(
    proxied: tuple[Broker, FaultProxy],
) -> None:
    broker, proxy = proxied
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


def test_s40_sequences_are_kept_per_partition_and_survive_a_crash(new_broker: NewBroker) -> None:
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


#: The ways in which a producer handles a failure.
GUARANTEES: dict[str, dict[str, object]] = {
    "at most once": {"enable_idempotence": False, "retries": 0},
    "at least once": {"enable_idempotence": False},
    "exactly once": {"enable_idempotence": True},
}


@pytest.mark.parametrize("name", ["confluent", "java", "pyclient"])
def test_s41_each_delivery_guarantee_yields_its_expected_counts_under_faults(
    new_broker: NewBroker, name: str, by_spark: BySpark, counted: Counted
) -> None:
    """Of six requests, one never arrives, and another loses its ack. aiokafka always retries."""
    port = free_port()
    with FaultProxy(lambda: ("127.0.0.1", port)) as proxy:
        broker = new_broker(start=False, advertised_listeners=f"PLAINTEXT://{proxy.bootstrap}")
        broker.port = port
        broker.start()
        told = {}
        for guarantee, settings in GUARANTEES.items():
            topic = guarantee.replace(" ", "-")
            broker.make_topic(topic)
            refused = write_portions(proxy, name, topic, settings)
            with Wire(broker.address) as wire:
                found = Counter(values_of(wire, topic))
            lost, doubled = PORTIONS * PORTION - len(found), sum(found.values()) - len(found)
            told[guarantee] = {"lost": lost, "doubled": doubled}
            assert Counter(int(value or b"") for value in by_spark.values(proxy, topic)) == found
            counted(f"{guarantee}, {name}", sent=PORTIONS * PORTION, portions_refused=refused, **told[guarantee])
    assert told["at most once"]["lost"] > 0 == told["at most once"]["doubled"]
    assert told["at least once"]["doubled"] > 0 == told["at least once"]["lost"]
    assert told["exactly once"] == {"lost": 0, "doubled": 0}


PORTIONS, PORTION = 24, 10


def write_portions(proxy: FaultProxy, name: str, topic: str, settings: dict[str, object]) -> int:
    """Writes portions of one request each; returns how many the producer gave up."""
    refused = 0
    with drivers.opened(name).producer(proxy.bootstrap, linger_ms=20, retry_backoff_ms=10, **settings) as producer:
        for turn in range(PORTIONS):
            if turn % 6 == 2:
                proxy.cut_produces([40])
            if turn % 6 == 4:
                proxy.lose_replies(count=1)
            for number in range(PORTION):
                producer.send(topic, b"%d" % (turn * PORTION + number), partition=0)
            try:
                producer.flush()
            except ClientError:
                refused += 1
    proxy.heal()
    return refused


def values_of(wire: Wire, topic: str) -> list[int]:
    """Returns all values of the partition, from the broker itself."""
    found: list[int] = []
    end = wire.end_offset(topic)
    while len(found) < end:
        found += [int(value or b"") for value in batches.values(wire.fetch(topic, len(found)).records)]
    return found
