"""Checks that a real file comes back byte-identical and in order, with every client and codec, over a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.clients.streams import READERS, write_by_kcat
from conformance.conftest import QUICK_GROUPS
from conformance.data.batches import CODEC_NAMES
from harness.servers.brokers import Broker


@pytest.fixture(scope="module")
def crashed_broker(broker_kind: type[Broker], data_root: Path, flights: Path) -> Iterator[Broker]:
    """Returns a broker that took the file once per codec and was then killed, started, stopped and started again."""
    with broker_kind(data_root / "real-file", **QUICK_GROUPS) as broker:
        for codec in CODEC_NAMES:
            write_by_kcat(broker, f"flights-{codec}", flights, codec)
        broker.crash().restart()
        yield broker


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("reader", READERS)
def test_file_written_by_kcat_comes_back_byte_identical_over_a_crash_and_a_restart(
    crashed_broker: Broker, flights: Path, reader: str, codec: str
) -> None:
    expected = flights.read_bytes()
    found = READERS[reader](crashed_broker, f"flights-{codec}", expected.count(b"\n"))
    assert found == expected


def test_file_is_read_before_the_crash_as_well(broker: Broker, topic: str, flights: Path) -> None:
    write_by_kcat(broker, topic, flights, "lz4")
    expected = flights.read_bytes()
    assert READERS["kcat"](broker, topic, expected.count(b"\n")) == expected
