"""Files: S70–S74 and S76–S80, read off the disk while a broker serves from it."""

from __future__ import annotations

import re
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from conformance import batches
from conformance.brokers import Broker
from conformance.conftest import NewBroker, NewTopic
from conformance.members import committed, find_coordinator
from conformance.scenarios.by_spark import BySpark, offsets
from conformance.scenarios.support import consumer, read, take, until, write
from conformance.wire_client import Wire
from conformance.witnesses import used

MIB = 1 << 20
SEGMENT = re.compile(r"\d{20}\.(log|index|timeindex)")
#: Retention runs all the time.
EAGER_RETENTION = {
    "log_retention_check_interval_ms": 100,
    "log_initial_task_delay_ms": 1,
    "log_segment_delete_delay_ms": 0,
}


def base_offsets(broker: Broker, topic: str, suffix: str = ".log") -> list[int]:
    return sorted(int(path.stem) for path in broker.partition_dir(topic).glob(f"*{suffix}"))


def test_s70_a_partition_is_a_folder_of_segments_named_by_their_20_digit_base_offset(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark
) -> None:
    topic = new_topic(partitions=2, segment_bytes=MIB)
    write(broker, topic, [b"x" * 1000] * 3_000, partition=1, batch_num_messages=100)
    assert broker.partition_dir(topic, 0).is_dir()
    folder = broker.partition_dir(topic, 1)
    offsets = sorted(int(path.stem) for path in folder.glob("*.log"))
    assert offsets[0] == 0
    assert len(offsets) >= 3
    for offset in offsets:
        names = {f"{offset:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
        assert names <= {path.name for path in folder.iterdir()}
    for path in folder.glob("*.log"):
        found = batches.headers(path.read_bytes())
        assert found[0].base_offset == int(path.stem)
        assert all(header.crc_is_right for header in found)
    assert [(row.partition, row.offset) for row in by_spark(broker, topic)] == [(1, n) for n in range(3_000)]


def test_s71_a_segment_rolls_by_size(broker: Broker, new_topic: NewTopic, by_spark: BySpark) -> None:
    topic = new_topic(segment_bytes=MIB)
    with Wire(broker.address) as wire:
        for _ in range(24):
            assert wire.produce(topic, batches.batch([b"x" * 100_000])).error_code == 0
    assert base_offsets(broker, topic) == [0, 10, 20]
    sizes = [path.stat().st_size for path in broker.partition_dir(topic).glob("*.log")]
    assert max(sizes) <= MIB
    assert [row.offset for row in by_spark(broker, topic)] == list(range(24))


def test_s71_a_segment_rolls_by_age(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(segment_ms=200)
    with Wire(broker.address) as wire:
        for _ in range(3):
            wire.produce(topic, batches.batch([b"x"]))
            time.sleep(0.3)
    assert base_offsets(broker, topic) == [0, 1, 2]


def test_s71_age_is_that_of_the_records(broker: Broker, new_topic: NewTopic) -> None:
    """Kafka measures a segment's age by the timestamps in it: an hour between two records is an hour."""
    topic = new_topic(segment_ms=3_600_000)
    start = batches.now_ms() - 10 * 3_600_000
    with Wire(broker.address) as wire:
        for step in range(4):
            wire.produce(topic, batches.batch([b"x"], base_timestamp=start + step * 2_000_000))
    assert base_offsets(broker, topic) == [0, 2]


def test_s71_a_segment_rolls_when_its_index_is_full(broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(segment_index_bytes=80, index_interval_bytes=0)
    with Wire(broker.address) as wire:
        for _ in range(40):
            wire.produce(topic, batches.batch([b"x"]))
    offsets = base_offsets(broker, topic)
    assert len(offsets) >= 4
    for path in sorted(broker.partition_dir(topic).glob("*.index"))[:-1]:
        assert path.stat().st_size <= 80


@pytest.mark.parametrize(
    ("key", "config", "expected"),
    [
        ("log.segment.bytes", {"log_segment_bytes": MIB}, [0, 10, 20]),
        ("log.roll.ms", {"log_roll_ms": 2_000}, [0, 10, 20]),
        ("log.index.size.max.bytes", {"log_index_size_max_bytes": 80, "log_index_interval_bytes": 0}, [0, 11, 22]),
    ],
)
def test_s71_the_brokers_own_keys_roll_segments(
    new_broker: NewBroker, key: str, config: dict[str, int], expected: list[int]
) -> None:
    broker = new_broker(**config)
    start = batches.now_ms() - 60_000
    with Wire(broker.address) as wire:
        wire.create_topic("t")
        for number in range(24):
            apart_ms = number // 10 * 5_000 if key == "log.roll.ms" else 0
            data = batches.batch([b"x" * 100_000], base_timestamp=start + apart_ms)
            assert wire.produce("t", data).error_code == 0
    assert base_offsets(broker, "t") == expected


def index_entries(path: Path) -> list[tuple[int, int]]:
    """(relative offset, position) of an offset index, without the zeros that fill a preallocated one."""
    rows = list(struct.iter_unpack(">ii", path.read_bytes()))
    return [row for row in rows if row != (0, 0)]


def test_s72_the_offset_index_has_an_entry_per_4_kib_and_points_at_batches(
    broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic(segment_bytes=MIB)
    with Wire(broker.address) as wire:
        for number in range(1_300):
            wire.produce(topic, batches.batch([b"%d" % number * 200]))
    first = broker.partition_dir(topic) / f"{0:020}"
    data = first.with_suffix(".log").read_bytes()
    starts, position = {}, 0
    for header in batches.headers(data):
        starts[position] = header.base_offset
        position += header.size
    entries = index_entries(first.with_suffix(".index"))
    assert 0.5 * len(data) / 4_096 < len(entries) <= len(data) / 4_096
    assert [starts[position] for _, position in entries] == [offset for offset, _ in entries]
    gaps = [b[1] - a[1] for a, b in pairwise(entries)]
    assert min(gaps) > 4_096


def test_s72_every_offset_is_found_in_a_log_of_several_segments(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark
) -> None:
    topic = new_topic(segment_bytes=MIB)
    with Wire(broker.address) as wire:
        for first in range(0, 600, 3):
            rows = [b"%d-" % number + b"x" * 5_000 for number in range(first, first + 3)]
            wire.produce(topic, batches.batch(rows))
        assert len(base_offsets(broker, topic)) > 2
        for offset in range(0, 600, 7):
            found = batches.rows(wire.fetch(topic, offset, partition_max_bytes=1).records)
            assert [row[0] for row in found] == [offset // 3 * 3 + place for place in range(3)]
            value = found[offset % 3][2]
            assert value is not None
            assert value.startswith(b"%d-" % offset)
    for offset in (1, 299, 598):
        options = {"startingOffsets": offsets(topic, {0: offset}), "endingOffsets": offsets(topic, {0: offset + 1})}
        ((_, found_at, _, value),) = by_spark(broker, topic, options)
        assert (found_at, (value or b"").partition(b"-")[0]) == (offset, b"%d" % offset)


@pytest.mark.ours
def test_s72_a_lookup_maps_one_index_and_scans_from_its_entry_to_the_batch(
    new_broker: NewBroker, tmp_path: Path, flights: Path
) -> None:
    """As the kernel sees it: one segment's index is mapped, and its log is read from the entry before the offset on."""
    broker = new_broker()
    broker.make_topic("t", segment_bytes=11_000_000)
    lines = flights.read_bytes().splitlines()[:250_000]
    write(broker, "t", lines, batch_num_messages=50, linger_ms=50)
    first, second, _ = base_offsets(broker, "t")
    broker.stop()
    with traced(broker, "mmap,pread64,preadv,readv,read,sendfile", tmp_path / "trace") as trace:
        for offset in (first + 60_000, second + 1_000, second + 77_777):
            start = trace.stat().st_size
            with Wire(broker.address) as wire:
                header = batches.headers(wire.fetch("t", offset, partition_max_bytes=1).records)[0]
            assert header.base_offset <= offset < header.next_offset
            name = f"{first if offset < second else second:020}"
            entry = index_lookup(broker.partition_dir("t") / f"{name}.index", offset - int(name))
            until(lambda: "sendfile" in trace.read_text(errors="replace")[start:], "the answer in the trace")  # noqa: B023
            calls = [line for line in trace.read_text(errors="replace")[start:].splitlines() if "/t-0/" in line]
            assert all(f"/t-0/{name}." in line for line in calls), "no file of another segment"
            positions = [int(found) for found in re.findall(r"pread\w*\(.*, (\d+)\) = \d+", "\n".join(calls))]
            assert positions[0] == entry
            assert max(positions) <= entry + 4_096 + 2 * header.size
            sizes = [int(found) for found in re.findall(r"(?:pread|sendfile)\w*\(.*\) = (\d+)", "\n".join(calls))]
            assert sum(sizes) < 100_000
        mapped = re.findall(r"mmap\(NULL, \d+, PROT_READ, MAP_SHARED, \d+<[^>]*/t-0/(\d+)\.index>", trace.read_text())
    assert {int(name) for name in mapped} == {first, second}


def index_lookup(path: Path, relative: int) -> int:
    """The position of the last entry that is not behind an offset."""
    return max((entry for entry in index_entries(path) if entry[0] <= relative), default=(0, 0))[1]


@pytest.mark.parametrize("second", [368_769, 368_796])
def test_s73_the_documents_lookup_finds_its_offsets_through_the_right_files(
    broker: Broker, new_topic: NewTopic, second: int, by_spark: BySpark
) -> None:
    """Segments 0, 368769 (or 368796) and 737337, as the documents draw them; both offsets are then read."""
    topic = new_topic(segment_bytes=1_500_000, max_message_bytes=1_200_000, index_interval_bytes=0)
    filler = batches.batch([b"x" * 1_100_000])
    with Wire(broker.address) as wire:
        assert wire.produce(topic, filler).error_code == 0
        _fill_up_to(wire, topic, 1, 368_760)
        for start in range(368_760, second, 3):
            _fill_up_to(wire, topic, start, min(start + 3, second))
        assert wire.produce(topic, filler).error_code == 0
        for start in range(second + 1, second + 61, 3):
            _fill_up_to(wire, topic, start, start + 3)
        _fill_up_to(wire, topic, second + 61, 737_337)
        assert wire.produce(topic, filler).error_code == 0
        assert base_offsets(broker, topic) == [0, second, 737_337]
        for offset in (368_776, 368_801, 0, second, 737_336, 737_337):
            _check_file(broker, wire, topic, offset)
    for offset in (368_776, 368_801):
        options = {"startingOffsets": offsets(topic, {0: offset}), "endingOffsets": offsets(topic, {0: offset + 1})}
        assert [row.offset for row in by_spark(broker, topic, options)] == [offset]


def _fill_up_to(wire: Wire, topic: str, start: int, end: int) -> None:
    """One batch, packed small, of empty records that take the offsets [start, end)."""
    count = end - start
    bodies = (b"\0\0" + batches.varint(delta) + b"\1\0\0" for delta in range(count))
    records = b"".join(bytes((len(body) * 2,)) + body for body in bodies)
    payload = batches.COMPRESS[batches.ZSTD](records)
    data = batches.batch(codec=batches.ZSTD, payload=payload, count=count, last_offset_delta=count - 1)
    reply = wire.produce(topic, data)
    assert (reply.error_code, reply.base_offset) == (0, start)


def _check_file(broker: Broker, wire: Wire, topic: str, offset: int) -> None:
    data = wire.fetch(topic, offset, partition_max_bytes=1).records
    header = batches.headers(data)[0]
    assert header.base_offset <= offset < header.next_offset
    holder = max(base for base in base_offsets(broker, topic) if base <= offset)
    assert bytes(data[: header.size]) in (broker.partition_dir(topic) / f"{holder:020}.log").read_bytes()


def test_s74_retention_by_time_goes_by_the_largest_timestamp_of_a_segment(
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
        assert wire.fetch("t", 0).error_code == 1
        assert len(batches.rows(wire.fetch("t", 20).records)) == 2
    assert [row.offset for row in by_spark(broker, "t")] == [20, 21]


def test_s74_retention_by_size_keeps_the_newest(new_broker: NewBroker) -> None:
    broker = new_broker(**EAGER_RETENTION)
    with Wire(broker.address) as wire:
        wire.create_topic("t", configs={"segment.bytes": MIB, "retention.bytes": 2 * MIB})
        for _ in range(55):
            wire.produce("t", batches.batch([b"x" * 100_000]))
        until(lambda: base_offsets(broker, "t")[0] >= 20, "the oldest segments to go")
        time.sleep(0.5)
        start = base_offsets(broker, "t")[0]
        assert start <= 30
        assert wire.offset("t", -2).offset == start
        assert wire.end_offset("t") == 55
    broker.crash()
    with Wire(broker.address) as wire:
        assert wire.offset("t", -2).offset >= start


def test_s74_case_29_one_timestamp_of_the_future_does_not_wipe_a_segment(new_broker: NewBroker) -> None:
    broker = new_broker(**EAGER_RETENTION)
    now = batches.now_ms()
    with Wire(broker.address) as wire:
        limits = {"message.timestamp.after.max.ms": 10**13, "retention.ms": 3_600_000}
        wire.create_topic("t", configs={"segment.bytes": MIB, **limits})
        for number in range(25):
            start = now + 10**11 if number == 3 else now
            assert wire.produce("t", batches.batch([b"x" * 100_000], base_timestamp=start)).error_code == 0
    broker.restart()
    time.sleep(0.5)
    with Wire(broker.address) as wire:
        assert base_offsets(broker, "t") == [0, 3, 13, 23]
        assert (wire.offset("t", -2).offset, wire.end_offset("t")) == (0, 25)


def test_s74_nothing_goes_before_the_check_interval(new_broker: NewBroker) -> None:
    broker = new_broker(log_retention_check_interval_ms=3_600_000, log_initial_task_delay_ms=3_600_000)
    with Wire(broker.address) as wire:
        wire.create_topic("t", configs={"segment.bytes": MIB, "retention.ms": 1})
        for _ in range(25):
            wire.produce("t", batches.batch([b"x" * 100_000]))
        time.sleep(0.5)
        assert base_offsets(broker, "t") == [0, 10, 20]


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
    described = admin.describe_configs([resource])[resource].result(20)
    assert described["retention.ms"].value == str(expected)


def test_s76_checkpoints_hold_what_was_flushed_and_replicated(new_broker: NewBroker) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t", 2)
    write(broker, "t", [b"x"] * 30, partition=0)
    write(broker, "t", [b"x"] * 12, partition=1)
    broker.stop()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert {"t 0 30", "t 1 12"} <= set((broker.log_dir / name).read_text().splitlines())


@contextmanager
def traced(broker: Broker, calls: str, file: Path) -> Iterator[Path]:
    """Starts the broker below strace."""
    broker.wrapper = ["strace", "-D", "-f", "-qq", "-y", "-e", f"trace={calls}", "-o", str(file)]
    with broker:
        yield file


def count_calls(trace: Path, pattern: str) -> int:
    return len(re.findall(pattern, trace.read_text(errors="replace")))


def test_s77_nothing_is_synced_by_default(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(start=False)
    with traced(broker, "fsync,fdatasync", tmp_path / "trace") as trace:
        with Wire(broker.address) as wire:
            wire.create_topic("t")
            for _ in range(20):
                assert wire.produce("t", batches.batch([b"x"])).error_code == 0
        assert count_calls(trace, r"f(data)?sync\(\d+<[^>]*/t-0/\d+\.log>") == 0


def test_s77_flush_messages_syncs_every_so_many_records(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(start=False)
    with traced(broker, "fsync,fdatasync", tmp_path / "trace") as trace:
        with Wire(broker.address) as wire:
            wire.create_topic("t", configs={"flush.messages": 5})
            for _ in range(20):
                assert wire.produce("t", batches.batch([b"x"])).error_code == 0
        pattern = r"f(data)?sync\(\d+<[^>]*/t-0/\d+\.log>"
        until(lambda: count_calls(trace, pattern) >= 4, "four syncs")
        assert count_calls(trace, pattern) == 4


def test_s77_flush_ms_syncs_what_is_so_old(new_broker: NewBroker, tmp_path: Path) -> None:
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


def test_s78_a_fetch_of_plain_text_goes_by_sendfile(
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


@pytest.mark.parametrize("magic", [0, 1])
def test_s79_a_segment_of_an_old_message_format_is_read_and_new_records_are_v2(
    new_broker: NewBroker, magic: int, by_spark: BySpark
) -> None:
    """The old file is put into the partition's folder while the broker is down, as an upgrade would leave it."""
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("t")
    broker.stop()
    old = b"".join(
        batches.message(b"old %d" % number, b"key", magic=magic, offset=number, timestamp=1_000 + number)
        for number in range(10)
    )
    folder = broker.partition_dir("t")
    (folder / f"{0:020}.log").write_bytes(old)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = broker.log_dir / name
        path.write_text(path.read_text().replace("t 0 0\n", "t 0 10\n"))
    broker.start()
    write(broker, "t", [b"new"])
    values = [row.value() for row in read(broker, "t", 11)]
    assert values == [b"old %d" % number for number in range(10)] + [b"new"]
    assert by_spark.values(broker, "t") == values
    with Wire(broker.address) as wire:
        served = [wire.fetch("t", offset).records for offset in (0, 10)]
    assert {header.magic for data in served for header in batches.headers(data)} == {2}


@pytest.mark.parametrize("magic", [0, 1])
def test_s79_new_requests_take_format_v2_only(broker: Broker, topic: str, magic: int) -> None:
    with Wire(broker.address) as wire:
        reply = wire.produce(topic, batches.message(b"old", magic=magic, timestamp=1))
        assert reply.error_code == 87
        assert wire.end_offset(topic) == 0


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_s80_a_broker_that_comes_back_has_kept_everything(
    new_broker: NewBroker, how: str, by_spark: BySpark
) -> None:
    broker = new_broker()
    with Wire(broker.address) as wire:
        wire.create_topic("a", 3, {"retention.ms": 123_456_789})
        wire.create_topic("b", 1)
        wire.create_topic("gone")
        find_coordinator(wire, "g")
        topic_id = wire.topic_id("a")
    write(broker, "a", [b"%d" % n for n in range(900)], keys=[b"%d" % n for n in range(900)])
    write(broker, "b", [b"%d" % n for n in range(50)])
    used("librdkafka")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["gone"])["gone"].result(20)
    with consumer(broker, "g", enable_auto_commit=False) as client:
        client.subscribe(["b"])
        client.commit(message=take(client, 20)[-1], asynchronous=False)
    with Wire(broker.address) as wire:
        before = [wire.fetch("a", 0, partition).records for partition in range(3)]
    broker.crash() if how == "crash" else broker.restart()
    with Wire(broker.address) as wire:
        assert [wire.fetch("a", 0, partition).records for partition in range(3)] == before
        assert wire.topic_id("a") == topic_id
        assert committed(wire, "g", "b") == 20
        names = {topic.name for topic in wire.ask("Metadata", 9, topics=None).topics}
        assert {"a", "b"} <= names
        assert "gone" not in names
    resource = ConfigResource(ConfigResource.Type.TOPIC, "a")
    used("librdkafka")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == "123456789"
    write(broker, "b", [b"more"])
    assert [row.value() for row in read(broker, "b", 1, offset=50)] == [b"more"]
    assert sorted(int(value or b"") for value in by_spark.values(broker, "a")) == list(range(900))


def test_s80_two_brokers_do_not_share_a_data_folder(new_broker: NewBroker) -> None:
    broker = new_broker()
    process = subprocess.run(broker._command(), capture_output=True, timeout=60, check=False)
    assert process.returncode != 0
    assert broker.alive
