"""Puts load on Spark with a JVM of its own: ``python -m conformance.bench.spark.worker ADDRESS CASE COUNT``.

A case is a format and an action, as in ``pybroker read_100``. The format is ``pybroker`` or ``kafka``, whose jars are
in ``PYSPARK_SUBMIT_ARGS``. It runs on ``local[2]``, once to warm and ``RUNS`` more times, whose median is the result.
CPU time covers the JVM and its Python processes, but not the broker.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from conformance.bench.workers import Result, main, quantiles
from conformance.spark.session import local_spark
from harness import processes
from pyclient import Producer
from pyclient.admin import Admin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMATS: Final = ("pybroker", "kafka")
PARTITIONS: Final = 4
RUNS: Final = 3
PATIENCE_S: Final = 120.0
#: Both compilers run, as for a user; tests run one.
JVM: Final = {"spark_driver_extraJavaOptions": "", "spark_driver_memory": "2g"}
_number = count()


class Bench:
    """A Spark, and a broker at an address, as a format sees it."""

    def __init__(self, spark: SparkSession, source: str, address: str, folder: Path) -> None:
        self.spark, self.source, self.address, self.folder = spark, source, address, folder
        self.options = {"kafka.bootstrap.servers": address}

    def stream(self, topic: str, **options: str) -> DataFrame:
        """Streams a whole topic from its first record."""
        source = self.spark.readStream.format(self.source).options(**self.options, **options)
        return source.options(subscribe=topic, startingOffsets="earliest").load()

    def folder_of(self, name: str) -> str:
        """Makes a new folder."""
        return str(self.folder / f"{name}-{next(_number)}")

    def cpu_s(self) -> float:
        """Returns the CPU seconds of the JVM and all its children."""
        return sum(processes.family_cpu_s(child) for child in processes.children(os.getpid()))

    def measured(self, work: Callable[[], float | None]) -> Result:
        """Returns the medians of what ``work`` costs; ``work`` may return its own seconds."""
        work()
        results = []
        for _ in range(RUNS):
            start, cpu_s = time.perf_counter(), self.cpu_s()
            told = work()
            results.append((told or time.perf_counter() - start, self.cpu_s() - cpu_s))
        seconds, cpu = (statistics.median(each) for each in zip(*results, strict=True))
        return {"seconds": seconds, "cpu_s": cpu}

    @contextmanager
    def topic(self) -> Iterator[str]:
        """Creates a topic and deletes it at the end."""
        name = f"topic-{os.getpid()}-{next(_number)}"
        with Admin(self.address) as admin:
            admin.create_topics(name, num_partitions=PARTITIONS)
            yield name
            admin.delete_topics(name)


def read(size: int, bench: Bench, rows: int) -> Result:
    """Reads all columns of an existing topic, ``rows-SIZE``."""
    table = bench.spark.read.format(bench.source).options(**bench.options, subscribe=f"rows-{size}").load()
    result = bench.measured(lambda: _save(table))
    (found,) = table.selectExpr("count(*) rows", "sum(length(value)) bytes").collect()
    assert tuple(found) == (rows, rows * size), f"{found} of {rows} rows of {size} bytes"
    return result


def _save(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def stream(bench: Bench, rows: int) -> Result:
    """Streams micro-batches of this many rows: a query waits for them."""
    with bench.topic() as topic, _producer(bench) as producer:
        source = bench.stream(topic, minOffsetsPerTrigger=str(rows), maxTriggerDelay="1h")
        writer = source.writeStream.format("noop").option("checkpointLocation", bench.folder_of("log"))
        with running(writer.start()) as query:
            return bench.measured(lambda: _batch(query, producer, topic, rows))


def _batch(query: StreamingQuery, producer: Producer, topic: str, rows: int) -> float:
    """Sends rows and returns the seconds of their micro-batch."""
    known = {each["batchId"] for each in query.recentProgress if each["numInputRows"]}
    values = pa.array([b"x" * 100] * (rows // PARTITIONS))
    for partition in range(PARTITIONS):
        producer.send_many(topic, values, partition=partition)
    producer.flush()
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for each in query.recentProgress:
            if each["batchId"] not in known and each["numInputRows"] >= rows:
                return float(each["durationMs"]["triggerExecution"]) / 1000
        time.sleep(0.05)
    raise TimeoutError(f"no batch of {rows} rows: {query.recentProgress} {query.exception()}")


def trigger(bench: Bench, times: int) -> Result:
    """Measures from a record's acknowledgement to its value in ``foreachBatch``; it runs as many times to warm up as to
    measure.
    """
    arrived = threading.Event()

    def take(batch: DataFrame, _: int) -> None:
        if batch.collect():
            arrived.set()

    def once() -> float:
        time.sleep(0.3)
        arrived.clear()
        producer.send(topic, b"x")
        producer.flush()
        start = time.perf_counter()
        assert arrived.wait(PATIENCE_S), query.exception()
        return time.perf_counter() - start

    with bench.topic() as topic, _producer(bench) as producer:
        writer = bench.stream(topic).writeStream.foreachBatch(take).option("checkpointLocation", bench.folder_of("log"))
        with running(writer.start()) as query:
            delays = [once() for _ in range(2 * times)][times:]
    return {**quantiles(delays), "least_us": min(delays) * 1e6}


def write(options: dict[str, str], bench: Bench, rows: int) -> Result:
    """Writes rows of 100 B that Spark makes, each time to a new topic."""
    table = bench.spark.range(0, rows, 1, PARTITIONS).selectExpr("lpad(cast(id as string), 100, '0') value")

    def save() -> float:
        with bench.topic() as topic:
            writer = table.write.format(bench.source).mode("append").options(**bench.options, topic=topic, **options)
            start = time.perf_counter()
            writer.save()
            return time.perf_counter() - start

    return bench.measured(save)


def _producer(bench: Bench) -> Producer:
    return Producer(bench.address, linger_ms=5, batch_size=1_000_000, buffer_memory=256 << 20)


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    """Yields the query and stops it at the end."""
    try:
        yield query
    finally:
        query.stop()


Case = Callable[[Bench, int], Result]
CASES: Final[dict[str, Case]] = {
    "read_100": partial(read, 100),
    "read_1000": partial(read, 1000),
    "stream": stream,
    "trigger": trigger,
    "write": partial(write, {}),
    "write_exactly_once": partial(write, {"delivery": "exactly-once"}),
}


def run(source: str, case: Case, address: str, rows: int) -> Result:
    with tempfile.TemporaryDirectory() as name, local_spark(Path(name), **JVM) as spark:
        return case(Bench(spark, source, address, Path(name)), rows)


if __name__ == "__main__":
    main({f"{source} {name}": partial(run, source, case) for source in FORMATS for name, case in CASES.items()})
