"""Runs the pipelines of ``examples/`` on real input, as a user starts them, and checks them from outside."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from pyarrow.dataset import dataset as parquet_dataset

from conformance.conftest import Counted, NewBroker
from conformance.data import dataset
from conformance.data.spark_tables import committed_files
from conformance.report import rows
from conformance.scenarios.by_spark import BySpark
from harness.clients.librdkafka import consumer
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.witnesses import used

pytestmark = pytest.mark.nightly
LOGS = ("/var/log/dpkg.log", "/var/log/alternatives.log", "/var/log/apt/term.log")
FEW_FLIGHTS = 5_000
SESSION_GAP = timedelta(hours=12)
WINDOW_MS = 1000
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Compiles less, so programs that run for seconds finish sooner."""
PNG = b"\x89PNG\r\n\x1a\n"
RIGHT = "nothing lost, nothing doubled"
Flight = Mapping[str, str]


class Record(NamedTuple):
    """A record as librdkafka reads it; a missing key or value is empty."""

    timestamp_ms: int
    key: bytes
    value: bytes


def names(report: str) -> list[str]:
    """Returns the column names."""
    return [re.split(" {2,}", line)[1] for line in report.splitlines()]


def shown(example: str) -> str:
    """Returns the output that the page shows for an example."""
    page = (rows.ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^python examples/{example}\.py\n```\n\n```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def run(example: str, output: Path, *options: object, timeout_s: float = 280) -> str:
    """Runs an example in the clone, as a user does; returns the page's lines and its verdict."""
    paths = os.pathsep.join(filter(None, (str(rows.ROOT), os.environ.get("PYTHONPATH"))))
    ended = subprocess.run(
        [sys.executable, f"examples/{example}.py", "--output", str(output), *map(str, options)],
        capture_output=True,
        text=True,
        cwd=rows.ROOT,
        env={"JAVA_TOOL_OPTIONS": QUICK_JAVA, **os.environ, "PYTHONPATH": paths},
        timeout=timeout_s,
    )
    used("pyclient")
    assert ended.returncode == 0, f"exit code {ended.returncode}\n{ended.stdout}{ended.stderr}"
    assert ended.stdout.splitlines()[-1].endswith(RIGHT)
    assert names(ended.stdout) == names(shown(example))
    assert [picture.read_bytes().startswith(PNG) for picture in output.glob("*.png")] == [True]
    return ended.stdout


def records(broker: Broker, topic: str) -> list[Record]:
    """Returns all committed records of a topic, as librdkafka reads them."""
    with Wire(broker.address) as wire:
        ends = [wire.end_offset(topic, number) for number in range(len(wire.metadata(topic).partitions))]
    found: list[Record] = []
    with consumer(broker, enable_partition_eof=True, isolation_level="read_committed") as client:
        client.assign([TopicPartition(topic, number, 0) for number, end in enumerate(ends) if end])
        open_partitions = {number for number, end in enumerate(ends) if end}
        while open_partitions:
            for message in client.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    found.append(Record(message.timestamp()[1], message.key() or b"", message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise KafkaException(error)
    return found


def flights(months: int) -> Iterator[Flight]:
    """Returns rows of the data set."""
    header, *lines = dataset.flights().decode("ascii").splitlines()
    yield from csv.DictReader([header, *(line for line in lines if int(line.split(",", 2)[1]) <= months)])


def real_log() -> tuple[str, bytes]:
    """Returns a log of this machine and its name; without one, the data set's departures as lines of words."""
    for path in map(Path, LOGS):
        if path.exists() and path.stat().st_size:
            return path.name, path.read_bytes()
    lines = dataset.flights().replace(b",", b" ").split(b"\n", FEW_FLIGHTS)[:-1]
    return "the data set", b"".join(line + b"\n" for line in lines)


def due(flight: Flight) -> datetime:
    return datetime.fromisoformat(flight["time_hour"]) + timedelta(minutes=int(flight["minute"]))


def left(flight: Flight) -> datetime:
    return due(flight) + timedelta(minutes=int(flight["dep_delay"]))


def milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def test_s113_lines_of_a_real_log_are_collected_once_in_order_despite_kills(
    broker: Broker, tmp_path: Path, counted: Counted, by_spark: BySpark
) -> None:
    log = tmp_path / "real.log"
    source, data = real_log()
    log.write_bytes(data)
    printed = run("logs", tmp_path, "--bootstrap", broker.bootstrap, log)
    collected = [record.value for record in records(broker, "logs")]
    assert collected == log.read_bytes().split(b"\n")[:-1]
    assert by_spark.values(broker, "logs", {"kafka.isolation.level": "read_committed"}) == collected
    assert "killed 2 times" in printed
    counted(f"log collection, {source}", lines=len(collected), kills=2)


def test_a_machine_without_logs_uses_those_of_the_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.scenarios.pipelines.test_pipelines.LOGS", ("/var/log/of-another-system",))
    source, data = real_log()
    assert source == "the data set"
    assert data.count(b"\n") == FEW_FLIGHTS
    assert data.endswith(b"\n")


def test_s113_sessions_of_real_activity_equal_a_direct_computation(
    broker: Broker, tmp_path: Path, counted: Counted
) -> None:
    run("activity", tmp_path, "--bootstrap", broker.bootstrap, "--months", 1)
    with (tmp_path / "sessions.csv").open() as file:
        _, *lines = csv.reader(file)
    found = [(user, int(first), int(last), int(actions)) for user, first, last, actions in lines]
    times: dict[str, list[datetime]] = defaultdict(list)
    for flight in flights(1):
        if flight["tailnum"] != "NA" and flight["dep_delay"] != "NA":
            times[flight["tailnum"]].append(left(flight))
    assert found == sorted(session for user in times for session in sessions(user, sorted(times[user])))
    counted("activity tracking", actions=sum(map(len, times.values())), sessions=len(found))


def sessions(user: str, times: list[datetime]) -> Iterator[tuple[str, int, int, int]]:
    """Cuts sessions where a user was idle for long."""
    cuts = [0, *(place for place in range(1, len(times)) if times[place] - times[place - 1] >= SESSION_GAP), len(times)]
    for start, end in pairwise(cuts):
        yield user, milliseconds(times[start]), milliseconds(times[end - 1]), end - start


def test_s113_every_sample_of_this_machine_is_in_one_window_of_its_second(
    broker: Broker, tmp_path: Path, counted: Counted
) -> None:
    run("metrics", tmp_path, "--bootstrap", broker.bootstrap, "--seconds", 3)
    samples: dict[tuple[str, int], list[float]] = defaultdict(list)
    for record in records(broker, "metrics"):
        start_ms = record.timestamp_ms - record.timestamp_ms % WINDOW_MS
        samples[record.key.decode(), start_ms].append(float(record.value))
    windows = [json.loads(record.value) for record in records(broker, "metrics-by-second")]
    found = {(row["metric"], row["start_ms"]): (row["count"], row["low"], row["high"]) for row in windows}
    assert found == {place: (len(values), min(values), max(values)) for place, values in samples.items()}
    assert {metric for metric, _ in found} == {"cpu", "memory", "disk", "network"}
    counted("metrics", samples=sum(map(len, samples.values())), windows=len(found))


def test_s113_event_sourced_state_survives_a_power_cut_and_compaction(
    new_broker: NewBroker, tmp_path: Path, counted: Counted
) -> None:
    broker = new_broker(log_cleaner_backoff_ms=500)
    run("events", tmp_path, "--bootstrap", broker.bootstrap, "--months", 1)
    state: dict[str, Any] = {}
    stored = records(broker, "aircraft-state")
    for record in stored:
        if record.value:
            state[record.key.decode()] = json.loads(record.value)
    flown = [flight for flight in flights(1) if flight["tailnum"] != "NA" and flight["air_time"] != "NA"]
    assert {tail: (plane["departures"], plane["miles"]) for tail, plane in state.items()} == fleet(flown)
    assert len(stored) < 2 * len(state)
    events = Counter(json.loads(record.value)["what"] for record in records(broker, "aircraft-events"))
    assert events.total() == len(flown)
    assert events["departed"] == sum(plane["departures"] for plane in state.values())
    counted("event sourcing", commands=len(flown), **events, aircraft=len(state), records_left=len(stored))


def fleet(flown: Iterable[Flight]) -> dict[str, tuple[int, int]]:
    """Returns departures and miles of each aircraft, without impossible ones."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    back: dict[str, datetime] = {}
    for flight in sorted(flown, key=left):
        tail = flight["tailnum"]
        if left(flight) >= back.get(tail, datetime.min.replace(tzinfo=UTC)):
            departures, miles = found[tail]
            found[tail] = departures + 1, miles + int(flight["distance"])
            back[tail] = left(flight) + 2 * timedelta(minutes=int(flight["air_time"]))
    return dict(found)


@pytest.mark.row
@pytest.mark.campaign
def test_s114_a_stream_of_real_flights_fills_a_parquet_table_despite_kills(
    broker: Broker, tmp_path: Path, counted: Counted
) -> None:
    pipeline(broker, tmp_path, 1, counted)


@pytest.mark.campaign
@pytest.mark.row
@pytest.mark.timeout(1_800)
def test_s114_a_whole_year_of_flights_fills_the_tables_to_the_last_row(
    new_broker: NewBroker, tmp_path: Path, counted: Counted
) -> None:
    pipeline(new_broker(), tmp_path, 12, counted)


def pipeline(broker: Broker, folder: Path, months: int, counted: Counted) -> None:
    """Runs the pipeline, and compares its tables with the data set."""
    used("PySpark")
    where = ("--bootstrap", broker.bootstrap)
    printed = run("flights", folder, *where, "--months", months, timeout_s=140 * (months + 1))
    assert "killed after 2 batches" in printed
    assert "0 flights too late" in printed
    due_at: dict[tuple[datetime, str], list[str]] = defaultdict(list)
    carriers: Counter[tuple[str, ...]] = Counter()
    for flight in flights(months):
        due_at[due(flight).replace(minute=0), flight["origin"]].append(flight["dep_delay"])
        carriers[flight["carrier"], flight["flight"], flight["origin"], flight["dest"], str(due(flight))] += 1
    hours = {(row["hour"], row["origin"]): row for row in parquet(committed_files(folder / "hours"))}
    assert {place: (row["flights"], row["departed"], row["minutes_late"]) for place, row in hours.items()} == {
        place: (len(delays), *late(delays)) for place, delays in due_at.items()
    }
    names = ("carrier", "flight", "origin", "dest", "scheduled")
    assert Counter(tuple(str(row[name]) for name in names) for row in parquet(str(folder / "warehouse"))) == carriers
    counted(f"{months} months", flights=carriers.total(), rows_of_the_stream=len(hours), kills=1)


def late(delays: Iterable[str]) -> tuple[int, int | None]:
    """Returns how many flights left, and their total minutes late."""
    known = [int(delay) for delay in delays if delay != "NA"]
    return len(known), sum(known) if known else None


def parquet(files: str | list[str]) -> list[dict[str, Any]]:
    """Returns rows of Parquet files."""
    found: list[dict[str, Any]] = parquet_dataset(files, partitioning="hive").to_table().to_pylist()
    return found
