"""Records go into a real database, each exactly once: S46 by unique keys, S47 by offsets in the same transaction.

The first tests kill the example ``docs/examples/into_database.py`` again and again. Then each client breaks off between
the two steps, where it costs most; Spark does so last.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from conformance.conftest import Counted, NewBroker, NewTopic
from conformance.data.dataset import flights
from conformance.drivers.base import Consumer, Driver, Place, Record
from conformance.report.rows import ROOT
from conformance.scenarios.by_spark import BySpark, in_order, offsets, started
from harness.clients import command_line
from harness.clients.librdkafka import write
from harness.clients.members import committed
from harness.protocol.wire_client import Wire
from harness.servers import postgres
from harness.servers.brokers import Broker
from harness.waiting import until
from harness.witnesses import used

pytestmark = pytest.mark.nightly
EXAMPLE = ROOT / "docs" / "examples" / "into_database.py"
PARTITIONS, ROUNDS, RECORDS = 3, 3, 3_000
PATIENCE_S = 120
Ask = Callable[..., Any]


class Database(NamedTuple):
    """A database by its URL, and the first value of its answer to a query."""

    url: str
    ask: Ask


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Starts a PostgreSQL for all these tests: each has its own topic, and the topic is in every key."""
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Returns each of the two databases."""
    if request.param == "sqlite":
        return Database(f"sqlite:{tmp_path}/lines.db", asked_sqlite(tmp_path / "lines.db"))
    url = request.getfixturevalue("server")
    return Database(url, asked_postgres(url))


def asked_sqlite(file: Path) -> Ask:
    def ask(query: str, topic: str) -> Any:
        with closing(sqlite3.connect(file, timeout=60)) as connection:
            return connection.execute(query.replace("string_agg", "group_concat"), (topic,)).fetchone()[0]

    return ask


def asked_postgres(url: str) -> Ask:
    def ask(query: str, topic: str) -> Any:
        with psycopg.connect(url) as connection:
            row: Any = connection.execute(query.replace("?", "%s"), (topic,)).fetchone()
            return row[0]

    return ask


ROWS = "SELECT count(*) FROM entry WHERE topic = ?"
IN_ORDER = "SELECT value AS line FROM entry WHERE topic = ? ORDER BY part, place"
CONTENT = f"SELECT string_agg(line, '\n') FROM ({IN_ORDER}) AS lines"
TOTALS = "SELECT coalesce(sum(count), 0) FROM total WHERE topic = ?"
ENDS = "SELECT coalesce(sum(next), 0) FROM total WHERE topic = ?"


class Writer:
    """Runs the example on a topic, until a test kills the process."""

    def __init__(self, broker: Broker, topic: str, database: Database, way: str) -> None:
        self.database, self.topic = database, topic
        self.group = f"into-database-{way}"
        self._command = [sys.executable, str(EXAMPLE), broker.bootstrap, topic, database.url, "--keep", way]
        self._paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        used("pyclient")
        self.process = subprocess.Popen(self._command, env={**os.environ, "PYTHONPATH": self._paths})

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0

    def await_count(self, query: str, wanted: int) -> None:
        """Waits until the query returns this number."""

        def come() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"it ended with {self.process.returncode}"
            return self.count(query) >= wanted

        until(come, f"{wanted} records in the database", PATIENCE_S)

    def count(self, query: str) -> int:
        try:
            return int(self.database.ask(query, self.topic))
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
            return 0


@pytest.fixture
def own(new_broker: NewBroker) -> Broker:
    """Returns a broker for this test alone, because the example's group always has the same name."""
    return new_broker()


@pytest.fixture
def new_writer(own: Broker, database: Database, group: str) -> Iterator[Callable[[str], Writer]]:
    """Starts the example on a topic of three partitions."""
    made: list[Writer] = []

    def make(way: str) -> Writer:
        topic = f"lines-of-{group}"
        own.make_topic(topic, PARTITIONS)
        made.append(Writer(own, topic, database, way))
        return made[-1]

    yield make
    for writer in made:
        writer.kill()


def fill(broker: Broker, topic: str, lines: Sequence[bytes]) -> None:
    """Writes a third into each partition, in order."""
    for partition in range(PARTITIONS):
        write(broker, topic, lines[partition::PARTITIONS], partition=partition)


def under_kills(broker: Broker, writer: Writer, query: str, lines: Sequence[bytes]) -> None:
    """Writes one part of the lines after the other; kills the writer during each part but the last."""
    for turn in range(ROUNDS):
        part = lines[turn * RECORDS : (turn + 1) * RECORDS]
        writer.start()
        fill(broker, writer.topic, part)
        if turn < ROUNDS - 1:
            writer.await_count(query, turn * RECORDS + 1)
            writer.kill()
    writer.await_count(query, ROUNDS * RECORDS)


def expected(lines: Sequence[bytes]) -> str:
    """Returns the lines in the order in which the partitions hold them."""
    parts = [lines[turn * RECORDS : (turn + 1) * RECORDS] for turn in range(ROUNDS)]
    rows = (line for number in range(PARTITIONS) for part in parts for line in part[number::PARTITIONS])
    return b"\n".join(rows).decode()


def forget(broker: Broker, writer: Writer) -> None:
    """Resets the group's offsets to the beginning."""
    words = ("--bootstrap-server", broker.bootstrap, "--group", writer.group, "--topic", writer.topic)
    command_line.run("kafka-consumer-groups", *words, "--reset-offsets", "--to-earliest", "--execute")


def is_committed(broker: Broker, writer: Writer, count: int) -> bool:
    with Wire(broker.address) as wire:
        offsets = [committed(wire, writer.group, writer.topic, partition) for partition in range(PARTITIONS)]
    return sum(offsets) == count


def test_s46_each_record_becomes_one_row_although_its_writer_is_killed_and_repeats_records(
    own: Broker, new_writer: Callable[[str], Writer], counted: Counted
) -> None:
    lines = flights().splitlines()[: ROUNDS * RECORDS]
    writer = new_writer("rows")
    under_kills(own, writer, ROWS, lines)
    content = writer.database.ask(CONTENT, writer.topic)
    assert content == expected(lines)
    until(lambda: is_committed(own, writer, len(lines)), "the commit of all")
    writer.kill()
    until(lambda: _is_left(own, writer), "the group to be without members")
    forget(own, writer)
    writer.start()
    until(lambda: is_committed(own, writer, len(lines)), "all of it to have come again")
    writer.stop()
    assert writer.database.ask(CONTENT, writer.topic) == content
    rows = writer.count(ROWS)
    counted("unique key", records=len(lines), kills=ROUNDS, replayed=len(lines), rows=rows, doubled=rows - len(lines))


def _is_left(broker: Broker, writer: Writer) -> bool:
    """Removes the static member explicitly, because its membership outlives the process. Returns whether that worked.
    """
    with Wire(broker.address) as wire:
        gone = [{"member_id": "", "group_instance_id": "writer-1", "reason": None}]
        return int(wire.ask("LeaveGroup", 5, group_id=writer.group, members=gone).error_code) == 0


def test_s47_results_and_offsets_are_stored_in_one_transaction(
    own: Broker, new_writer: Callable[[str], Writer], counted: Counted
) -> None:
    lines = flights().splitlines()[: ROUNDS * RECORDS]
    writer = new_writer("totals")
    under_kills(own, writer, TOTALS, lines)
    writer.stop()
    total = writer.count(TOTALS)
    assert total == writer.count(ENDS) == len(lines)
    with Wire(own.address) as wire:
        assert committed(wire, writer.group, writer.topic) == -1, "the group's own offsets are not asked"
    counted("offsets beside results", records=len(lines), kills=ROUNDS - 1, total=total)


# -- each client, breaking off where it costs most ---------------------------------------------------


class Sink:
    """The tables of one test, in the shared PostgreSQL."""

    def __init__(self, url: str, name: str) -> None:
        self.connection = psycopg.connect(url)
        self.rows, self.results = f"rows_{name}", f"results_{name}"
        key = "topic TEXT, part INTEGER, place BIGINT, PRIMARY KEY (topic, part, place)"
        self.connection.execute(f"CREATE TABLE {self.rows} (value TEXT, {key})")
        self.connection.execute(f"CREATE TABLE {self.results} (part INTEGER PRIMARY KEY, next BIGINT, minutes BIGINT)")
        self.connection.commit()

    def insert(self, records: Sequence[Record]) -> int:
        """S46: inserts new rows and keeps existing ones; returns the number of new ones."""
        statement = f"INSERT INTO {self.rows} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        values = [((record.value or b"").decode(), *record.place, record.offset) for record in records]
        with self.connection.cursor() as cursor:
            cursor.executemany(statement, values)
            new = cursor.rowcount
        self.connection.commit()
        return new

    def add(self, partition: int, minutes: int, end: int) -> None:
        """S47: stores the result and its end offset in one transaction, which the caller commits."""
        self.connection.execute(
            f"INSERT INTO {self.results} AS old VALUES (%s, %s, %s) ON CONFLICT (part) DO UPDATE"
            " SET next = excluded.next, minutes = old.minutes + excluded.minutes",
            (partition, end, minutes),
        )

    def ends(self) -> dict[int, int]:
        """Returns the next offset of each partition."""
        return dict(self.connection.execute(f"SELECT part, next FROM {self.results}").fetchall())

    def one(self, query: str) -> Any:
        row = self.connection.execute(query).fetchone()
        assert row is not None
        return row[0]

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def sink(server: str, group: str) -> Iterator[Sink]:
    made = Sink(server, group.replace("-", "_"))
    yield made
    made.close()


LINES = flights().splitlines()[1:1_501]


def minutes_of(value: bytes | None) -> int:
    """Returns a flight's minutes in the air, which the results sum up."""
    field = (value or b"").split(b",")[14]
    return int(float(field)) if field not in (b"", b"NA") else 0


def assigned(consumer: Consumer, topic: str) -> list[Record]:
    """Joins the group and waits for all partitions; returns the records that came meanwhile."""
    consumer.subscribe([topic])
    early: list[Record] = []

    def joined() -> bool:
        early.extend(consumer.poll(0.1))
        return len(consumer.assignment()) == PARTITIONS

    until(joined, "the partitions", PATIENCE_S)
    return early


def portion(consumer: Consumer) -> list[Record]:
    """Returns some records that the consumer reads."""
    return until(lambda: consumer.poll(0.2, 100), "records", PATIENCE_S)


def test_s46_a_client_that_repeats_records_changes_no_row(
    broker: Broker, driver: Driver, new_topic: NewTopic, group: str, sink: Sink, counted: Counted
) -> None:
    """The client breaks off after every second insert, before it commits the offsets."""
    topic = new_topic(PARTITIONS)
    fill(broker, topic, LINES)
    read = new = 0
    while new < len(LINES):
        with driver.consumer(broker.bootstrap, group_id=group, session_timeout_ms=6_000) as consumer:
            rows = assigned(consumer, topic)
            for committing in (True, False):
                rows += portion(consumer) if new + len(rows) < len(LINES) else []
                read, new, rows = read + len(rows), new + sink.insert(rows), []
                if committing:
                    consumer.commit()
    assert sink.one(f"SELECT count(*) FROM {sink.rows}") == len(LINES)
    found = sink.connection.execute(f"SELECT value FROM {sink.rows} ORDER BY part, place").fetchall()
    in_order = [line for number in range(PARTITIONS) for line in LINES[number::PARTITIONS]]
    assert [row[0].encode() for row in found] == in_order
    assert read > new
    counted(driver.name, records=len(LINES), read=read, rows=new)


def test_s47_each_client_resumes_at_the_offset_stored_with_its_results(
    broker: Broker, driver: Driver, new_topic: NewTopic, group: str, sink: Sink, counted: Counted
) -> None:
    """The client breaks off before and after the database's commit; it never commits an offset to Kafka."""
    topic, turns = new_topic(PARTITIONS), 0
    fill(broker, topic, LINES)
    while sum(sink.ends().values()) < len(LINES):
        turns += 1
        with driver.consumer(broker.bootstrap, group_id=group, session_timeout_ms=6_000) as consumer:
            assigned(consumer, topic)
            for partition in range(PARTITIONS):
                consumer.seek(Place(topic, partition), sink.ends().get(partition, 0))
            for ends in [sink.connection.commit] * 4 + [sink.connection.rollback]:
                if sum(sink.ends().values()) < len(LINES):
                    _add(sink, portion(consumer))
                    ends()
    assert sink.one(f"SELECT sum(minutes) FROM {sink.results}") == sum(map(minutes_of, LINES))
    with Wire(broker.address) as wire:
        assert committed(wire, group, topic) == -1
    counted(driver.name, records=len(LINES), starts=turns, added=sum(sink.ends().values()))


def _add(sink: Sink, records: Sequence[Record]) -> None:
    """Adds each partition's results; the records must continue the stored ones."""
    for partition in {record.place.partition for record in records}:
        mine = [record for record in records if record.place.partition == partition]
        assert mine[0].offset == sink.ends().get(partition, 0)
        sink.add(partition, sum(minutes_of(record.value) for record in mine), mine[-1].offset + 1)


# -- Spark, whose batches come again where a checkpoint is lost ------------------------------------------


def records_of(frame: Any, topic: str) -> list[Record]:
    """Converts a micro-batch into other clients' records."""
    return [Record(Place(topic, row.partition), row.offset, row.key, row.value) for row in in_order(frame)]


def streamed(
    by_spark: BySpark, broker: Broker, topic: str, into: Callable[[Any, int], None], **options: object
) -> None:
    """Reads everything, 250 records per batch, with a new checkpoint."""
    limits = {"maxOffsetsPerTrigger": 250, **options}
    writing = by_spark.stream(broker, topic, limits).writeStream.foreachBatch(into).trigger(availableNow=True)
    query = started(writing.start)
    try:
        assert query.awaitTermination(PATIENCE_S)
    finally:
        query.stop()


def test_s46_a_repeated_spark_batch_changes_no_row(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark, sink: Sink, counted: Counted
) -> None:
    topic, new = new_topic(PARTITIONS), []
    fill(broker, topic, LINES)
    for _ in range(2):
        streamed(by_spark, broker, topic, lambda frame, _: new.append(sink.insert(records_of(frame, topic))))
    assert sink.one(f"SELECT count(*) FROM {sink.rows}") == sum(new) == len(LINES)
    assert not sum(new[len(new) // 2 :]), "the second time nothing is new"
    counted("Spark", records=len(LINES), batches=len(new), rows=sum(new))


def test_s47_spark_resumes_at_the_offset_stored_with_the_results(
    broker: Broker, new_topic: NewTopic, by_spark: BySpark, sink: Sink, counted: Counted
) -> None:
    """Spark fails after the second batch's results, before their commit, and loses its checkpoint too."""
    topic, batches = new_topic(PARTITIONS), 0
    fill(broker, topic, LINES)

    def add(frame: Any, number: int) -> None:
        nonlocal batches
        batches += 1
        _add(sink, records_of(frame, topic))
        if batches == 2:
            sink.connection.rollback()
            raise InterruptedError("so it was planned")
        sink.connection.commit()

    with pytest.raises(Exception, match="so it was planned"):
        streamed(by_spark, broker, topic, add)
    starts = {partition: sink.ends().get(partition, 0) for partition in range(PARTITIONS)}
    assert 0 < sum(starts.values()) < len(LINES)
    streamed(by_spark, broker, topic, add, startingOffsets=offsets(topic, starts))
    assert sum(sink.ends().values()) == len(LINES)
    assert sink.one(f"SELECT sum(minutes) FROM {sink.results}") == sum(map(minutes_of, LINES))
    counted("Spark", records=len(LINES), batches=batches, added=sum(sink.ends().values()))
