"""Kafka's DumpLogSegments reads every kind of file that a broker leaves in its data folder, and finds nothing wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from conformance.clients.streams import kcat, write_by_kcat
from conformance.conftest import QUICK_GROUPS, NewBroker
from conformance.data import batches
from conformance.data.compacted import EAGER, CompactedTopic
from harness.peers import Java
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

COMPLAINTS = re.compile(r"mismatch|does not match|Found|not valid|unmatched|corrupt|Exception|Error", re.I)


@pytest.fixture(scope="module")
def stopped_broker(broker_kind: type[Broker], data_root: Path, flights: Path) -> Iterator[Broker]:
    """Returns a stopped broker that took the file in every codec, idempotent writes and commits, in small segments."""
    config = {"log.segment.bytes": str(1 << 20), "log.index.interval.bytes": "4096"}
    with broker_kind(data_root / "dump", **QUICK_GROUPS, **config) as broker:
        for codec in batches.CODEC_NAMES:
            write_by_kcat(broker, f"flights-{codec}", flights, codec, "batch.num.messages=500")
        _write_idempotently(broker)
        kcat(
            *("-b", broker.bootstrap, "-X", "auto.offset.reset=earliest", "-q", "-c", "1000"),
            *("-G", "readers", "flights-none"),
        )
        broker.stop()
        yield broker


def _write_idempotently(broker: Broker) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    for number in range(100):
        producer.produce("idempotent", value=b"value %d" % number, key=b"key", headers={"h": bytes(50)})
        if number % 10 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


def dump(java: Java, *files: Path, options: tuple[str, ...] = ()) -> str:
    names = ",".join(str(file) for file in files)
    return java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", names, timeout_s=120)


def segment_files(broker: Broker, topic: str, suffix: str) -> list[Path]:
    found = sorted(broker.partition_dir(topic).glob(f"*{suffix}"))
    assert found, f"no {suffix} in {broker.partition_dir(topic)}"
    return found


@pytest.mark.parametrize("codec", batches.CODEC_NAMES)
def test_log_files_of_every_codec_hold_valid_batches_and_every_record(
    java: Java, stopped_broker: Broker, codec: str, flights: Path
) -> None:
    files = segment_files(stopped_broker, f"flights-{codec}", ".log")
    assert len(files) > 2
    shown = dump(java, *files, options=("--deep-iteration", "--skip-record-metadata"))
    assert "isvalid: false" not in shown
    # librdkafka sends a batch uncompressed if it does not shrink: a single line, on a busy machine
    codecs = Counter(re.findall(r"compresscodec: (\w+)", shown))
    assert codecs.keys() <= {codec, "none"}
    assert codecs.most_common(1)[0][0] == codec
    counts = [int(count) for count in re.findall(r"baseOffset: .* count: (\d+) ", shown)]
    assert sum(counts) == flights.read_bytes().count(b"\n")


def test_payloads_are_the_lines_of_the_file(java: Java, stopped_broker: Broker, flights: Path) -> None:
    first = segment_files(stopped_broker, "flights-zstd", ".log")[0]
    shown = dump(java, first, options=("--print-data-log",))
    payloads = re.findall(r"^\| offset: \d+ .* payload: (.*)$", shown, re.MULTILINE)
    assert payloads
    assert payloads == flights.read_text().splitlines()[: len(payloads)]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_agree_with_their_logs(java: Java, stopped_broker: Broker, suffix: str) -> None:
    files = segment_files(stopped_broker, "flights-none", suffix)
    shown = dump(java, *files, options=("--verify-index-only",))
    assert not [line for line in shown.splitlines() if COMPLAINTS.search(line)]
    assert "Dumping" in shown


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_of_closed_segments_pass_the_sanity_check(
    java: Java, stopped_broker: Broker, suffix: str
) -> None:
    files = segment_files(stopped_broker, "flights-none", suffix)[:-1]
    shown = dump(java, *files, options=("--index-sanity-check",))
    assert shown.count("passed sanity check") == len(files)


def test_the_index_has_an_entry_for_about_every_4_kib(java: Java, stopped_broker: Broker) -> None:
    index = segment_files(stopped_broker, "flights-gzip", ".index")[0]
    shown = dump(java, index)
    positions = [int(position) for position in re.findall(r"offset: \d+ position: (\d+)", shown)]
    assert positions == sorted(set(positions))
    assert positions
    assert all(b - a > 4096 for a, b in zip([0, *positions], positions, strict=False))


def test_producer_snapshots_show_the_idempotent_producer(java: Java, stopped_broker: Broker) -> None:
    snapshot = segment_files(stopped_broker, "idempotent", ".snapshot")[-1]
    shown = dump(java, snapshot)
    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: 99", shown), shown


def test_offsets_topic_decodes_to_the_group_and_its_offset(java: Java, stopped_broker: Broker) -> None:
    folders = sorted(stopped_broker.log_dir.glob("__consumer_offsets-*"))
    files = [file for folder in folders for file in folder.glob("*.log") if file.stat().st_size]
    shown = dump(java, *files, options=("--offsets-decoder", "--print-data-log"))
    commits = [line for line in shown.splitlines() if '"type":"1"' in line and "readers" in line]
    assert commits
    assert '"topic":"flights-none","partition":0' in commits[-1]
    assert '"offset":1000' in commits[-1]
    assert any('"type":"2"' in line and '"group":"readers"' in line for line in shown.splitlines())


def test_the_active_segment_of_a_running_broker_is_read_too(
    java: Java, broker: Broker, topic: str
) -> None:
    with Wire(broker.address) as wire:
        for _ in range(5):
            wire.produce(topic, batches.batch([b"a" * 5000]))
    folder = broker.partition_dir(topic)
    shown = dump(java, *sorted(folder.glob("*.log")), options=("--deep-iteration",))
    assert shown.count("| offset:") == 5
    checked = dump(java, *sorted(folder.glob("*.index")), options=("--verify-index-only",))
    assert not COMPLAINTS.search(checked)


def test_metadata_files_have_kafkas_format(stopped_broker: Broker) -> None:
    """No tool of Kafka's reads these small text files: a version, then their content."""
    folder = stopped_broker.partition_dir("idempotent")
    assert re.fullmatch(r"version: 0\ntopic_id: [\w-]{22}", (folder / "partition.metadata").read_text().strip())
    epochs = (folder / "leader-epoch-checkpoint").read_text()
    assert re.fullmatch(r"0\n1\n\d+ 0\n", epochs)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        lines = (stopped_broker.log_dir / name).read_text().splitlines()
        assert lines[0] == "0"
        assert int(lines[1]) == len(lines) - 2
        assert "idempotent 0 100" in lines
    meta = (stopped_broker.log_dir / "meta.properties").read_text()
    assert re.search(r"^cluster.id=[\w-]{22}$", meta, re.MULTILINE)
    assert re.search(r"^node.id=1$", meta, re.MULTILINE)
    assert re.search(r"^version=1$", meta, re.MULTILINE)


def test_segments_that_compaction_wrote_are_whole_and_their_indexes_agree(java: Java, new_broker: NewBroker) -> None:
    """They contain batches that lost records, tombstones with their horizon, batches without records, and every codec.
    """
    broker = new_broker(**EAGER)
    topic = CompactedTopic(broker, delete_retention_ms=86_400_000)
    with Wire(broker.address) as wire:
        producer = {"producer_id": wire.new_producer_id(), "producer_epoch": 0}
    rows = []
    for codec in range(5):
        old = [(b"gone", b"%d" % codec), (b"kept", b"%d" % codec)]
        topic.write(*old, **producer, base_sequence=2 * codec, codec=codec)
        base = topic.write((b"%d" % codec, b"x" * 5000), (b"deleted", None), codec=codec)
        rows.append((base, b"%d" % codec, b"x" * 5000))
    tombstones = [(base + 1, b"deleted", None), (topic.write((b"gone", None), (b"kept", None)), b"gone", None)]
    topic.until_rows([*rows, *tombstones, (tombstones[-1][0] + 1, b"kept", None)], "what has no successor is left")
    broker.stop()
    logs = segment_files(broker, topic.name, ".log")
    shown = dump(java, *logs, options=("--deep-iteration", "--print-data-log"))
    assert "isvalid: false" not in shown
    assert shown.count("x" * 5000) == 5
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d{13}\]", shown)
    assert re.search(r"count: 0 .*producerId: \d+ ", shown), "the last batch of the producer is there"
    for suffix in (".index", ".timeindex"):
        checked = dump(java, *segment_files(broker, topic.name, suffix), options=("--verify-index-only",))
        assert not [line for line in checked.splitlines() if COMPLAINTS.search(line)]
