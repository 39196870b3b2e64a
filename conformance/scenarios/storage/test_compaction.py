"""Compacted topics: S75, and case 3 of the faults."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from conformance.conftest import QUICK_GROUPS, NewBroker
from conformance.data import batches
from conformance.data.compacted import EAGER, PATIENCE_S, CompactedTopic, Pair, Row
from conformance.drivers import opened
from conformance.drivers.base import Consumer, Driver, Place
from conformance.scenarios.by_spark import BySpark
from harness.clients.members import find_coordinator
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until
from pyclient.keywords import with_dots

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def eager(broker_kind: type[Broker], data_root: Path) -> Iterator[Broker]:
    """Starts a broker that compacts at once."""
    config = {key: str(value) for key, value in with_dots(EAGER).items()}
    with broker_kind(data_root / "eager", **QUICK_GROUPS, **config) as broker:
        yield broker
        assert broker.alive, broker.logged()[-4000:]


@pytest.mark.parametrize("codec", range(5), ids=batches.CODEC_NAMES)
def test_s75_the_latest_value_of_each_key_stays_at_its_own_offset(
    eager: Broker, codec: int, by_spark: BySpark
) -> None:
    topic = CompactedTopic(eager)
    latest: dict[bytes, Row] = {}
    for turn in range(3):
        pairs = [(b"key %d" % (n % 17), b"%d in %d" % (n, turn)) for n in range(40)]
        base = topic.write(*pairs, codec=codec)
        latest |= {key: (base + place, key, value) for place, (key, value) in enumerate(pairs)}
        topic.seal()
    topic.until_rows(sorted(latest.values()), "one record of each key is left")
    codecs = {header.codec for header in batches.headers(topic.bytes()) if header.count > 1}
    assert codecs <= {codec}
    assert [row[1:] for row in by_spark(eager, topic.name) if row.key != b"seal"] == sorted(latest.values())


def test_s75_every_client_reads_a_compacted_topic_to_its_end(eager: Broker, driver: Driver) -> None:
    topic = CompactedTopic(eager)
    for turn in range(3):
        topic.write(*((b"key %d" % n, b"%d" % turn) for n in range(20)), codec=turn)
        topic.seal()
    expected = [(base, b"key %d" % n, b"2") for n, base in enumerate(range(42, 62))]
    topic.until_rows(expected, "the last turn is left")
    rows = [row for row in batches.rows(topic.bytes()) if row[1] != b"seal"]
    with driver.consumer(eager.bootstrap) as client, Wire(eager.address) as wire:
        place = Place(topic.name, 0)
        client.assign({place: 0})
        end = wire.end_offset(topic.name)
        found: list[Row] = []

        def is_at_end() -> bool:
            found.extend((record.offset, record.key, record.value) for record in client.poll())
            return client.position(place) >= end

        until(is_at_end, "the client stands at the end", PATIENCE_S)
    assert [row for row in found if row[1] != b"seal"] == rows


def test_s75_every_client_skips_a_long_run_of_superseded_segments(eager: Broker, driver: Driver) -> None:
    topic = CompactedTopic(eager, cleanup_policy="delete", segment_bytes=4096)
    for turn in range(30):
        topic.write(*((b"key %d" % n, b"%02d" % turn * 60) for n in range(20)))
    with Wire(eager.address) as wire:
        wire.alter_topic(topic.name, **{"cleanup.policy": "compact"})
    expected = [(turn * 20 + n, b"key %d" % n, b"%02d" % turn * 60) for turn in (28, 29) for n in range(20)]
    until(lambda: topic.rows() == expected, "the last sealed turn is left, and the active one", PATIENCE_S)
    with driver.consumer(eager.bootstrap) as client:
        client.assign({Place(topic.name, 0): 0})
        found: list[Row] = []

        def has_all() -> bool:
            found.extend((record.offset, record.key, record.value) for record in client.poll())
            return found[-1:] == expected[-1:]

        until(has_all, "the client has read what is left", PATIENCE_S)
    assert found == expected


def test_s75_a_tombstone_outlives_the_values_before_it_until_its_retention_is_over(eager: Broker) -> None:
    long, short = CompactedTopic(eager, delete_retention_ms=86_400_000), CompactedTopic(eager, delete_retention_ms=1)
    for topic in (long, short):
        topic.write((b"gone", b"1"), (b"stays", b"2"))
        topic.write((b"gone", None))
    long.until_rows([(1, b"stays", b"2"), (2, b"gone", None)], "the tombstone is left of its key")
    short.until_rows([(1, b"stays", b"2")], "the tombstone has gone as well")
    dated = [header for header in batches.headers(long.bytes()) if header.attributes & batches.DELETE_HORIZON]
    assert [(header.base_offset, header.count) for header in dated] == [(2, 1)]
    assert dated[0].base_timestamp > batches.now_ms()


def test_s75_compact_and_delete_together_delete_what_is_old_and_compact_the_rest(eager: Broker) -> None:
    topic = CompactedTopic(eager, cleanup_policy="compact,delete", retention_ms=7_200_000)
    topic.time_ms -= 36_000_000
    topic.write((b"old", b"1"))
    topic.time_ms += 36_000_000
    topic.seal()
    with Wire(eager.address) as wire:
        until(lambda: wire.offset(topic.name, -2).offset == 1, "the old record is deleted", PATIENCE_S)
    topic.write((b"a", b"1"))
    topic.write((b"a", b"2"))
    topic.until_rows([(3, b"a", b"2")], "the old record is deleted, the others are compacted")


def test_s75_delete_alone_compacts_nothing(eager: Broker) -> None:
    kept, compacted = CompactedTopic(eager, cleanup_policy="delete"), CompactedTopic(eager)
    for topic in (kept, compacted):
        topic.write((b"a", b"1"), (b"a", b"2"))
        topic.seal()
    compacted.until_rows([(1, b"a", b"2")], "the compacted topic is compacted")
    assert kept.rows() == [(0, b"a", b"1"), (1, b"a", b"2")]


def test_s75_changing_the_policy_to_compact_compacts_existing_records(eager: Broker) -> None:
    topic = CompactedTopic(eager, cleanup_policy="delete")
    topic.write((b"a", b"1"), (b"a", b"2"))
    topic.seal()
    with Wire(eager.address) as wire:
        wire.alter_topic(topic.name, **{"cleanup.policy": "compact"})
    topic.until_rows([(1, b"a", b"2")], "what was there is compacted")


def test_s75_idempotent_sequences_continue_after_compaction(eager: Broker) -> None:
    topic = CompactedTopic(eager)
    with Wire(eager.address) as wire:
        producer_id = wire.new_producer_id()
    fields = {"producer_id": producer_id, "producer_epoch": 0}
    for sequence in range(3):
        topic.write((b"a", b"%d" % sequence), **fields, base_sequence=sequence)
    topic.write((b"a", b"other"))
    topic.until_rows([(3, b"a", b"other")], "nothing of the producer is left")
    assert topic.write((b"a", b"2"), **fields, base_sequence=2) == 2, "a batch that was sent again is known"
    assert topic.write((b"a", b"next"), **fields, base_sequence=3) > 3
    topic.until_rows([topic.rows()[-1]], "the next record is the latest")


def test_s75_compaction_removes_aborted_transactions_completely(eager: Broker) -> None:
    topic = CompactedTopic(eager)
    place = Place(topic.name, 0)
    with opened("confluent").producer(eager.bootstrap, transactional_id=topic.name) as client:
        client.init_transactions()
        for turn, ends in enumerate((client.commit, client.abort, client.commit, client.abort)):
            client.begin()
            client.send(topic.name, b"%d" % turn, key=b"turn %d" % turn, partition=0)
            client.send(topic.name, b"%d" % turn, key=b"shared", partition=0)
            client.flush()
            ends()
    left = [(0, b"turn 0", b"0"), (6, b"turn 2", b"2"), (7, b"shared", b"2")]
    topic.time_ms = batches.now_ms() + 10_000

    def data() -> list[Row]:
        keys = {b"turn %d" % turn for turn in range(4)} | {b"shared"}
        return [row for row in topic.rows() if row[1] in keys]

    def is_clean() -> bool:
        topic.seal()
        return data() == left

    until(is_clean, "the committed records are left", PATIENCE_S)
    for name in ("confluent", "pyclient"):
        with opened(name).consumer(eager.bootstrap, isolation_level="read_committed") as reader:
            reader.assign({place: 0})
            found: list[Row] = []

            def is_read(reader: Consumer = reader, found: list[Row] = found) -> bool:
                found.extend((r.offset, r.key, r.value) for r in reader.poll() if r.key != b"seal")
                return len(found) >= len(left)

            until(is_read, f"a read_committed reader sees them: {name}", PATIENCE_S)
        assert found == left


def _commit(wire: Wire, group: str, topic: str, partitions: int, offset: int) -> None:
    rows = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": ""} for index in range(partitions)
    ]
    reply = wire.ask(
        "OffsetCommit",
        2,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=-1,
        topics=[{"name": topic, "partitions": rows}],
    )
    assert all(row.error_code == 0 for row in reply.topics[0].partitions)


def test_s75_the_offsets_of_groups_are_compacted(eager: Broker) -> None:
    with Wire(eager.address) as wire:
        wire.create_topic("committed", 100)
        find_coordinator(wire, "busy")
        folder = eager.partition_dir("__consumer_offsets", java_hash("busy") % 50)
        written = 0

        def is_compacted() -> bool:
            nonlocal written
            for _ in range(40):
                written += 1
                _commit(wire, "busy", "committed", 100, written)
            segments = sorted(folder.glob("*.log"))
            return len(segments) > 1 and segments[0].stat().st_size < 100_000

        until(is_compacted, f"the first segment of {folder} is small", PATIENCE_S)
        reply = wire.ask("OffsetFetch", 1, group_id="busy", topics=[{"name": "committed", "partition_indexes": [7]}])
    assert reply.topics[0].partitions[0].committed_offset == written


def java_hash(text: str) -> int:
    """Returns the absolute value of ``String.hashCode``."""
    value = 0
    for octet in text.encode("utf-16-be")[1::2]:
        value = (31 * value + octet) & 0xFFFFFFFF
    (signed,) = struct.unpack(">i", struct.pack(">I", value))
    return abs(int(signed))


def _latest(rows: Sequence[Row]) -> Mapping[bytes | None, bytes | None]:
    return {key: value for _, key, value in rows}


def test_case_3_a_kill_during_compaction_loses_or_restores_no_key(
    new_broker: NewBroker,
) -> None:
    choice = random.Random(3)
    broker = new_broker(**EAGER)
    topic = CompactedTopic(broker, delete_retention_ms=1)
    latest: dict[bytes, bytes | None] = {}
    for life in range(4):
        for turn in range(25):
            pairs: list[Pair] = [
                (b"%d" % choice.randint(0, 400), b"%d in %d" % (turn, life) + bytes(400)) for _ in range(40)
            ]
            pairs.append((b"%d" % choice.randint(0, 400), None))
            topic.write(*pairs, codec=choice.randint(0, 4))
            latest |= pairs
            if turn % 5 == 4:
                topic.seal()
        broker.crash()
        found = _latest(topic.rows())
        for key, value in latest.items():
            assert found.get(key) == value, f"{key!r} after life {life}"
        left = [path.name for path in broker.partition_dir(topic.name).iterdir()]
        assert not [name for name in left if name.endswith(".swap")]
    values = {key: value for key, value in latest.items() if value is not None}

    def is_compacted() -> bool:
        topic.seal()
        rows = topic.rows()
        return len(rows) == len(values) and _latest(rows) == values

    until(is_compacted, "only the latest values are left", PATIENCE_S)
