"""librdkafka learns how long to wait, and its bytes per second match the quota."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from conformance.conftest import NewBroker
from harness.clients.librdkafka import write
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until
from harness.witnesses import used

pytestmark = pytest.mark.nightly

RATE = 1_000_000
SECONDS = 15
SHARE = 0.1
"""The measured rate may differ by this share."""
VALUE = b"v" * 10_000
PIECE = 25_000
"""Most bytes of a batch or a partition's part of a fetch: so few that a wait is short.

By Kafka's arithmetic each client writes one batch too many before it waits. Eight of 50,000 bytes are a seventh of the
two to three seconds that are measured."""
TOPIC = "measured"


def set_quota(broker: Broker, key: str, value: float) -> None:
    """Sets a quota for all users: clients without a name share it."""
    entity = [{"entity_type": "user", "entity_name": None}]
    entry = {"entity": entity, "ops": [{"key": key, "value": value, "remove": False}]}
    with Wire(broker.address) as wire:
        [result] = wire.ask("AlterClientQuotas", 1, entries=[entry], validate_only=False).entries
    assert result.error_code == 0, result.error_message


@contextmanager
def running(work: Callable[[int, Callable[[], bool]], None], count: int) -> Iterator[None]:
    """Runs ``work(number, is_over)`` on this many threads."""
    over = threading.Event()
    threads = [threading.Thread(target=work, args=(number, over.is_set)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def rate_of(count: Callable[[], int]) -> float:
    """Returns bytes of values per second, once ``count`` has settled."""
    first = count()
    until(lambda: count() > first + 2 * RATE // len(VALUE), "the first seconds' worth")
    begin, begun_at = count(), time.monotonic()
    time.sleep(SECONDS)
    return (count() - begin) * len(VALUE) / (time.monotonic() - begun_at)


class Waits:
    """Collects the throttle times that librdkafka reports."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    def __call__(self, event: Any) -> None:
        self.longest_s = max(self.longest_s, event.throttle_time)


@pytest.fixture
def measured(new_broker: NewBroker) -> Broker:
    """Starts a broker that measures over two seconds, so the measurement contains no burst."""
    broker = new_broker(quota_window_num=2)
    with Wire(broker.address) as wire:
        wire.create_topic(TOPIC, partitions=1)
    used("librdkafka")
    return broker


@pytest.mark.parametrize("clients", [1, 8])
def test_producers_together_write_as_fast_as_their_users_quota(measured: Broker, clients: int) -> None:
    waits = Waits()
    set_quota(measured, "producer_byte_rate", RATE)

    def produce(number: int, is_over: Callable[[], bool]) -> None:
        settings = {"client.id": f"p{number}", "linger.ms": 5, "batch.size": PIECE, "throttle_cb": waits}
        client = confluent_kafka.Producer({"bootstrap.servers": measured.bootstrap, **settings, "acks": 1})
        while not is_over():
            try:
                client.produce(TOPIC, VALUE)
            except BufferError:
                client.poll(0.1)
            client.poll(0)
        client.purge()
        client.flush(30)

    with Wire(measured.address) as wire, running(produce, clients):
        found = rate_of(lambda: wire.end_offset(TOPIC))
    assert found == pytest.approx(RATE, rel=SHARE)
    assert waits.longest_s > 0


@pytest.mark.parametrize("clients", [1, 8])
def test_consumers_together_read_as_fast_as_their_users_quota(measured: Broker, clients: int) -> None:
    waits = Waits()
    write(measured, TOPIC, [VALUE] * (RATE * 3 * SECONDS // len(VALUE)), batch_size=PIECE)
    set_quota(measured, "consumer_byte_rate", RATE)
    counts = [0] * clients

    def consume(number: int, is_over: Callable[[], bool]) -> None:
        settings = {"client.id": f"c{number}", "group.id": f"g{number}", "throttle_cb": waits}
        sizes = {"max.partition.fetch.bytes": PIECE, "enable.auto.commit": False}
        client = confluent_kafka.Consumer({"bootstrap.servers": measured.bootstrap, **settings, **sizes})
        client.assign([TopicPartition(TOPIC, 0, 0)])
        while not is_over():
            for message in client.consume(100, 0.1):
                assert message.error() is None
                counts[number] += 1
        client.close()

    with running(consume, clients):
        found = rate_of(lambda: sum(counts))
    assert found == pytest.approx(RATE, rel=SHARE)
    assert waits.longest_s > 0
