"""System calls show which data are synced, and sent without a copy: S77, S78."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.conftest import NewBroker
from conformance.data import batches
from conformance.scenarios.storage.files import count_calls, traced
from harness.clients.librdkafka import read, write
from harness.protocol.wire_client import Wire
from harness.waiting import until

pytestmark = pytest.mark.nightly


def test_s77_nothing_is_synced_by_default(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(start=False)
    with traced(broker, "fsync,fdatasync", tmp_path / "trace") as trace:
        with Wire(broker.address) as wire:
            wire.create_topic("t")
            for _ in range(20):
                assert wire.produce("t", batches.batch([b"x"])).error_code == 0
        assert count_calls(trace, r"f(data)?sync\(\d+<[^>]*/t-0/\d+\.log>") == 0


def test_s77_flush_messages_syncs_after_that_many_records(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(start=False)
    with traced(broker, "fsync,fdatasync", tmp_path / "trace") as trace:
        with Wire(broker.address) as wire:
            wire.create_topic("t", configs={"flush.messages": 5})
            for _ in range(20):
                assert wire.produce("t", batches.batch([b"x"])).error_code == 0
        pattern = r"f(data)?sync\(\d+<[^>]*/t-0/\d+\.log>"
        until(lambda: count_calls(trace, pattern) >= 4, "four syncs")
        assert count_calls(trace, pattern) == 4


def test_s77_flush_ms_syncs_records_of_that_age(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(start=False, log_flush_scheduler_interval_ms=50)
    with traced(broker, "fsync,fdatasync", tmp_path / "trace") as trace, Wire(broker.address) as wire:
        wire.create_topic("t", configs={"flush.ms": 300})
        pattern = r"f(data)?sync\(\d+<[^>]*/t-0/\d+\.log>"
        for number in range(1, 4):
            assert wire.produce("t", batches.batch([b"x"])).error_code == 0
            until(lambda: count_calls(trace, pattern) >= number, "a sync")  # noqa: B023


@pytest.mark.ours
def test_s77_flush_acks_syncs_before_the_ack_of_acks_all(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(start=False)
    with traced(broker, "fsync,fdatasync", tmp_path / "trace") as trace, Wire(broker.address) as wire:
        wire.create_topic("t", configs={"flush.acks": "true"})
        pattern = r"f(data)?sync\(\d+<[^>]*/t-0/\d+\.log>"
        for number in range(1, 11):
            assert wire.produce("t", batches.batch([b"x"])).error_code == 0
            assert count_calls(trace, pattern) >= number


def test_s78_a_fetch_without_tls_uses_sendfile(
    new_broker: NewBroker, tmp_path: Path, flights: Path
) -> None:
    broker = new_broker(start=False)
    with traced(broker, "sendfile", tmp_path / "trace") as trace:
        lines = flights.read_bytes().splitlines()[:50_000]
        write(broker, "t", lines)
        assert [row.value() for row in read(broker, "t", len(lines))] == lines
        size = (broker.partition_dir("t") / f"{0:020}.log").stat().st_size

        def sent() -> int:
            calls = re.findall(r"sendfile\(\d+<[^>]*>, \d+<[^>]*/t-0/[^>]*>.* = (\d+)", trace.read_text())
            return sum(map(int, calls))

        until(lambda: sent() >= size, f"{size} bytes by sendfile")
