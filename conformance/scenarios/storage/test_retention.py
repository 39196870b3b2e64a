"""Which records the broker keeps, and how long: S74."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from conformance.conftest import NewBroker
from conformance.data import batches
from conformance.scenarios.by_spark import BySpark
from conformance.scenarios.storage.files import MIB, base_offsets
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire
from harness.waiting import until
from harness.witnesses import used

pytestmark = pytest.mark.nightly
#: Retention runs all the time.
EAGER_RETENTION = {
    "log_retention_check_interval_ms": 100,
    "log_initial_task_delay_ms": 1,
    "log_segment_delete_delay_ms": 0,
}


def retention_has_run(wire: Wire) -> None:
    """Waits for a whole run: it deletes old records, and also those that are written and old later."""
    for name in ("canary-1", "canary-2"):
        await_deletion(wire, name)


def await_deletion(wire: Wire, topic: str) -> None:
    """Creates a topic whose record retention must delete, and waits for that."""
    wire.create_topic(topic, configs={"retention.ms": 1})
    wire.produce(topic, batches.batch([b"old"], base_timestamp=batches.now_ms() - 3_600_000))
    until(lambda: wire.offset(topic, -2).offset == 1, f"{topic} to be empty")


def test_s74_retention_by_time_uses_the_largest_timestamp_of_a_segment(
    new_broker: NewBroker, by_spark: BySpark
) -> None:
    broker = new_broker(**EAGER_RETENTION)
    hour = 3_600_000
    now = batches.now_ms()
    with Wire(broker.address) as wire:
        configs = {"segment.bytes": MIB, "retention.ms": -1}
        configs["message.timestamp.before.max.ms"] = 9_000_000_000_000
        wire.create_topic("t", configs=configs)
        for age in (5 * hour, 4 * hour):
            for _ in range(10):
                wire.produce("t", batches.batch([b"x" * 100_000], base_timestamp=now - age))
        wire.produce("t", batches.batch([b"x" * 100_000], base_timestamp=now - 3 * hour))
        wire.produce("t", batches.batch([b"young"], base_timestamp=now))
        assert base_offsets(broker, "t") == [0, 10, 20]
        wire.alter_topic("t", **{"retention.ms": hour})
        until(lambda: base_offsets(broker, "t") == [20], "the two old segments to go")
        assert wire.offset("t", -2).offset == 20
        assert wire.fetch("t", 0).error_code == error_codes.OFFSET_OUT_OF_RANGE
        assert len(batches.rows(wire.fetch("t", 20).records)) == 2
    assert [row.offset for row in by_spark(broker, "t")] == [20, 21]


def test_s74_retention_by_size_keeps_the_newest(new_broker: NewBroker) -> None:
    broker = new_broker(**EAGER_RETENTION)
    with Wire(broker.address) as wire:
        wire.create_topic("t", configs={"segment.bytes": MIB, "retention.bytes": 2 * MIB})
        for _ in range(55):
            wire.produce("t", batches.batch([b"x" * 100_000]))
        until(lambda: base_offsets(broker, "t")[0] >= 20, "the oldest segments to go")
        retention_has_run(wire)
        start = base_offsets(broker, "t")[0]
        assert start <= 30
        assert wire.offset("t", -2).offset == start
        assert wire.end_offset("t") == 55
    broker.crash()
    with Wire(broker.address) as wire:
        assert wire.offset("t", -2).offset >= start


def test_s74_case_29_one_future_timestamp_does_not_delete_a_segment(new_broker: NewBroker) -> None:
    broker = new_broker(**EAGER_RETENTION)
    now = batches.now_ms()
    with Wire(broker.address) as wire:
        limits = {"message.timestamp.after.max.ms": 10**13, "retention.ms": 3_600_000}
        wire.create_topic("t", configs={"segment.bytes": MIB, **limits})
        for number in range(25):
            start = now + 10**11 if number == 3 else now
            assert wire.produce("t", batches.batch([b"x" * 100_000], base_timestamp=start)).error_code == 0
    broker.restart()
    with Wire(broker.address) as wire:
        retention_has_run(wire)
        assert base_offsets(broker, "t") == [0, 3, 13, 23]
        assert (wire.offset("t", -2).offset, wire.end_offset("t")) == (0, 25)


def test_s74_nothing_is_deleted_before_the_check_interval(new_broker: NewBroker) -> None:
    """A broker that checks all the time gets the same records, and must delete them."""
    patient = new_broker(log_retention_check_interval_ms=3_600_000, log_initial_task_delay_ms=3_600_000)
    eager = new_broker(**EAGER_RETENTION)
    for broker in (patient, eager):
        with Wire(broker.address) as wire:
            wire.create_topic("t", configs={"segment.bytes": MIB, "retention.ms": 1})
            for _ in range(25):
                wire.produce("t", batches.batch([b"x" * 100_000]))
    until(lambda: base_offsets(eager, "t")[0] > 0, "the eager broker to delete")
    assert base_offsets(patient, "t") == [0, 10, 20]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 604_800_000),
        ({"log_retention_hours": 2}, 7_200_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3}, 180_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3, "log_retention_ms": 4_000}, 4_000),
    ],
)
def test_s74_milliseconds_win_over_minutes_over_hours(
    new_broker: NewBroker, config: dict[str, int], expected: int
) -> None:
    broker = new_broker(**config)
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    used("librdkafka")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
    described = admin.describe_configs([resource])[resource].result(90)
    assert described["retention.ms"].value == str(expected)
