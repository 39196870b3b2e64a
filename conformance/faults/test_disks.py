"""Lets disks fill up or fail: cases 11 and 12."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.conftest import NewBroker
from conformance.data import batches
from conformance.faults.means.small_disk import SmallDisk
from harness.protocol import error_codes
from harness.protocol.wire_client import ConnectionClosed, Wire
from harness.servers.brokers import Broker
from harness.waiting import until

pytestmark = pytest.mark.nightly
CHUNK = b"x" * 100_000


def fill(wire: Wire, topic: str, limit: int = 1_000) -> tuple[int, int]:
    """Writes until an error; returns how many batches were acked, and the error (0: the connection ended)."""
    for acked in range(limit):
        try:
            row = wire.produce(topic, batches.batch([b"%d " % acked + CHUNK]))
        except (ConnectionClosed, OSError):
            return acked, 0
        if row.error_code != 0:
            return acked, int(row.error_code)
    raise AssertionError("the disk is never full")


def check_kept(broker: Broker, topic: str, acked: int) -> None:
    """Checks that everything acked is there, valid and in order."""
    with Wire(broker.address) as wire:
        end = wire.end_offset(topic)
        assert end >= acked
        for offset in range(end):
            data = wire.fetch(topic, offset, partition_max_bytes=1).records
            assert all(header.crc_is_right for header in batches.headers(data))
            assert batches.values(data) == [b"%d " % offset + CHUNK]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", 12 << 20) as small:
        yield small


@pytest.mark.ours
def test_case_11_a_full_disk_acknowledges_nothing_and_loses_nothing(new_broker: NewBroker, disk: SmallDisk) -> None:
    """With its only disk full, the broker returns an error and stops; with more space it restarts with all acked
    records.
    """
    broker = new_broker(start=False, offsets_topic_num_partitions=1)
    broker.data_dir = disk.path / "data"
    broker.wrapper = disk.wrapper
    broker.start()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        acked, error = fill(wire, "t")
    assert acked > 20
    assert error in (error_codes.KAFKA_STORAGE_ERROR, 0)
    assert broker.process is not None
    assert broker.process.wait(20) == 1
    assert "every log dir has failed" in broker.logged()
    disk.make_room()
    broker.start()
    check_kept(broker, "t", acked)
    with Wire(broker.address) as wire:
        assert wire.produce("t", batches.batch([b"more"])).error_code == 0


@pytest.mark.ours
def test_case_11_a_broker_with_a_second_disk_continues_to_serve_from_it(
    new_broker: NewBroker, disk: SmallDisk, tmp_path: Path
) -> None:
    """The small one of two log dirs fills up. Its partitions return error 56, and the others continue."""
    broker = new_broker(start=False, log_dirs=f"{tmp_path / 'large'},{disk.path / 'small'}")
    broker.wrapper = disk.wrapper
    broker.start()
    topics = [f"t{number}" for number in range(6)]
    with Wire(broker.address) as wire:
        for topic in topics:
            wire.create_topic(topic)
    on_small = [topic for topic in topics if (disk.files / "small" / f"{topic}-0").exists()]
    on_large = [topic for topic in topics if topic not in on_small]
    assert on_small
    assert on_large
    with Wire(broker.address) as wire:
        acked, error = fill(wire, on_small[0])
        assert error == error_codes.KAFKA_STORAGE_ERROR
        assert wire.produce(on_small[0], batches.batch([b"x"])).error_code in error_codes.DISK_GONE
        for topic in on_large:
            assert wire.produce(topic, batches.batch([b"x"])).error_code == 0
            assert batches.values(wire.fetch(topic, 0).records) == [b"x"]
        wire.create_topic("new")
        assert wire.produce("new", batches.batch([b"x"])).error_code == 0
        rows = {row.name: row for row in wire.ask("Metadata", 9, topics=None).topics}
        assert {*topics, "new"} <= rows.keys()
    assert broker.alive
    broker.kill()
    disk.make_room()
    broker.start()
    check_kept(broker, on_small[0], acked)


@pytest.mark.ours
def test_case_12_a_failed_fsync_is_never_retried_and_nothing_is_acknowledged_after_it(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    """strace fails the log's third sync once; Linux would report success for the next."""
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t", configs={"flush.acks": "true"})
    broker.stop()
    path = broker.partition_dir("t") / f"{0:020}.log"
    trace = tmp_path / "trace"
    inject = "inject=fsync,fdatasync:error=EIO:when=3"
    options = ["-D", "-f", "-qq", "-P", str(path), "-e", "trace=fsync,fdatasync", "-e", inject]
    broker.wrapper = ["strace", *options, "-o", str(trace)]
    broker.start()
    acked = 0
    with Wire(broker.address) as wire:
        for number in range(20):
            try:
                row = wire.produce("t", batches.batch([b"%d" % number]))
            except (ConnectionClosed, OSError):
                break
            if row.error_code != 0:
                assert row.error_code in error_codes.DISK_GONE
                break
            acked += 1
    assert acked == 2
    assert broker.process is not None
    assert until(lambda: broker.process is not None and broker.process.poll() is not None, "the stop")
    calls = re.findall(r"f(?:data)?sync\(.*", trace.read_text())
    assert len(calls) == 3, calls
    assert "INJECTED" in calls[2]
    broker.wrapper = []
    broker.start()
    with Wire(broker.address) as wire:
        assert wire.end_offset("t") >= 2
        assert batches.values(wire.fetch("t", 0).records)[:2] == [b"0", b"1"]


@pytest.mark.ours
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS"])
def test_case_11_a_partial_write_is_not_acknowledged_and_leaves_no_torn_batch(
    new_broker: NewBroker, tmp_path: Path, error: str
) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        assert wire.produce("t", batches.batch([b"good"])).error_code == 0
    broker.stop()
    path = broker.partition_dir("t") / f"{0:020}.log"
    calls = "write,pwrite64,writev,pwritev,pwritev2"
    options = ["-D", "-f", "-qq", "-P", str(path), "-e", f"trace={calls}"]
    options += ["-e", f"inject={calls}:error={error}:when=2+", "-o", str(tmp_path / "trace")]
    broker.wrapper = ["strace", *options]
    broker.start()
    codes = []
    with Wire(broker.address) as wire:
        for number in range(3):
            try:
                codes.append(wire.produce("t", batches.batch([b"%d" % number])).error_code)
            except (ConnectionClosed, OSError):
                break
    assert codes[0] == 0
    assert set(codes[1:]) <= set(error_codes.DISK_GONE)
    broker.kill()
    broker.wrapper = []
    broker.start()
    with Wire(broker.address) as wire:
        assert wire.end_offset("t") == 2
        assert batches.values(wire.fetch("t", 0).records) == [b"good", b"0"]
