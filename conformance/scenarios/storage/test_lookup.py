"""How the broker finds an offset: S72, S73."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from conformance.conftest import NewBroker, NewTopic
from conformance.data import batches
from conformance.scenarios.by_spark import BySpark, offsets
from conformance.scenarios.storage.files import MIB, base_offsets, index_entries, index_lookup, traced
from harness.clients.librdkafka import write
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until


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
    """The kernel sees one segment's index mapped, and its log read from the entry before the offset."""
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


@pytest.mark.parametrize("second", [368_769, 368_796])
def test_s73_the_documented_lookup_finds_its_offsets_in_the_right_files(
    broker: Broker, new_topic: NewTopic, second: int, by_spark: BySpark
) -> None:
    """The segments are 0, 368769 (or 368796) and 737337, as the documents draw them; the test reads both offsets."""
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
    """Packs empty records with the offsets [start, end) into one small batch."""
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
