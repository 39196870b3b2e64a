"""Kills two of three brokers: S32, S34."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from conformance.data import batches
from conformance.drivers.base import Place
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.cluster.brokers import OpenCluster
from conformance.scenarios.cluster.traffic import whole_log
from harness.clients.librdkafka import Deliveries, producer, write
from harness.protocol.error_codes import NOT_ENOUGH_REPLICAS
from harness.protocol.wire_client import Wire
from harness.waiting import until

VALUES = [b"%d" % number for number in range(100)]


@pytest.fixture(scope="module")
def two_down(embedded_cluster: OpenCluster) -> Iterator[OpenCluster]:
    """Kills brokers 1 and 2. Topics ``one`` and ``two``, which broker 1 led, then have only the replica on broker 3."""
    embedded = embedded_cluster
    embedded.wait_for(*embedded.ids)
    embedded.place_topic("one", {0: (1, 2, 3)}, min_insync_replicas=1)
    embedded.place_topic("two", {0: (1, 2, 3)}, min_insync_replicas=2)
    write(embedded, "one", VALUES)
    write(embedded, "two", VALUES)
    with embedded.down(1, 2):
        until(lambda: embedded.leader("one") == embedded.leader("two") == 3, "the last one to lead")
        yield embedded
    embedded.await_sync("one", "two")


def test_s34_three_replicas_survive_two_failures(two_down: OpenCluster, by_spark: BySpark) -> None:
    assert [value for _, value in whole_log(two_down, Place("one", 0))] == VALUES
    write(two_down, "one", [b"more"])
    assert [value for _, value in whole_log(two_down, Place("one", 0))] == [*VALUES, b"more"]
    assert by_spark.values(two_down, "one") == [*VALUES, b"more"]


def test_s32_below_min_insync_replicas_writes_fail_with_the_reason(
    two_down: OpenCluster, by_spark: BySpark
) -> None:
    with Wire(two_down.address(3)) as wire:
        assert wire.produce("two", batches.batch([b"never"])).error_code == NOT_ENOUGH_REPLICAS
        assert wire.end_offset("two") == len(VALUES)
    told = Deliveries()
    client = producer(two_down, acks="all", retries=0)
    client.produce("two", b"never", on_delivery=told)
    assert client.flush(60) == 0
    assert [error.code() for error in told.errors] == [confluent_kafka.KafkaError.NOT_ENOUGH_REPLICAS]
    assert [value for _, value in whole_log(two_down, Place("two", 0))] == by_spark.values(two_down, "two") == VALUES
