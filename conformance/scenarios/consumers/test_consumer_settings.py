"""Settings that decide which records a consumer gets and when, with foreign clients and ours: S59.

S56 covers ``enable.auto.commit`` true; ``test_group_clients`` tests ``isolation.level`` and ``group.id`` too.
"""

from __future__ import annotations

import pytest

from conformance.drivers.base import ClientError, Consumer, Driver, Place
from conformance.scenarios.conftest import NewMember
from harness.clients.librdkafka import write
from harness.clients.members import committed
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

FOREVER_MS = 25_000
SMALL, LARGE = b"s" * 100, b"l" * 2_000


@pytest.fixture
def place(broker: Broker, topic: str) -> Place:
    """Makes a partition with one small record."""
    write(broker, topic, [SMALL])
    return Place(topic, 0)


def values(consumer: Consumer, count: int) -> list[bytes | None]:
    """Returns the next records' values."""
    found: list[bytes | None] = []

    def enough() -> bool:
        found.extend(row.value for row in consumer.poll(0.2))
        return len(found) >= count

    until(enough, f"{count} records")
    return found


def test_s59_a_consumer_waits_for_fetch_min_bytes(broker: Broker, place: Place, driver: Driver) -> None:
    with driver.consumer(broker.bootstrap, fetch_min_bytes=1_000, fetch_max_wait_ms=FOREVER_MS) as consumer:
        consumer.assign({place: 0})
        assert consumer.poll(0.5) == []
        write(broker, place.topic, [LARGE])
        assert values(consumer, 2) == [SMALL, LARGE]


def test_s59_a_consumer_waits_no_longer_than_fetch_max_wait(broker: Broker, place: Place, driver: Driver) -> None:
    with driver.consumer(broker.bootstrap, fetch_min_bytes=1_000_000, fetch_max_wait_ms=50) as consumer:
        consumer.assign({place: 0})
        assert values(consumer, 1) == [SMALL]


def test_s59_a_new_group_starts_as_auto_offset_reset_says(
    broker: Broker, place: Place, group: str, new_member: NewMember
) -> None:
    late = new_member(broker, group_id=f"{group}-latest", auto_offset_reset="latest")
    strict = new_member(broker, group_id=f"{group}-none", auto_offset_reset="none")
    early = new_member(broker, auto_offset_reset="earliest")
    for member in (late, strict, early):
        member.subscribe([place.topic])
    until(lambda: late.poll(0.05) or (late.assignment() and late.position(place) == 1), "the end of the log")
    with pytest.raises(ClientError, match=r"(?i)offset"):
        until(lambda: strict.poll(0.2), "an error")
    write(broker, place.topic, [LARGE])
    assert values(late, 1) == [LARGE]
    assert values(early, 2) == [SMALL, LARGE]


def test_s59_nothing_is_committed_without_auto_commit(
    broker: Broker, place: Place, group: str, new_member: NewMember
) -> None:
    settings = {"enable_auto_commit": False, "auto_commit_interval_ms": 10}
    for _ in range(2):
        member = new_member(broker, **settings)
        member.subscribe([place.topic])
        assert values(member, 1) == [SMALL]
        assert member.poll(0.1) == []
        member.close()
        with Wire(broker.address) as wire:
            assert committed(wire, group, place.topic) == -1
