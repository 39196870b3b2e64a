"""How fast Spark reads a topic: ``python -m conformance.bench.spark.read [--rows N] [--size BYTES] [--format kafka]``.

A broker of ours, four partitions, ``local[2]``, the sink ``noop``; a first run warms, of three more the best counts.
``--format kafka`` needs PySpark 4.0.0 and the connector's jars (``--jars``). Prints JSON: rows/s and MB/s of a batch of
all columns and of two, and the milliseconds of micro-batches of a quarter of the rows each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from conformance.brokers import OurBroker
from conformance.spark.session import local_spark
from conformance.wire_client import Wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
RUNS = 3
TOPIC = "rows"
#: As a user has it: with both compilers, unlike in tests.
JVM = {"spark_driver_extraJavaOptions": "", "spark_driver_memory": "2g"}


def fill(broker: OurBroker, rows: int, size: int) -> None:
    with Wire(broker.address) as wire:
        wire.create_topic(TOPIC, PARTITIONS, {})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "batch.size": 1 << 20})
    for number in range(rows):
        value = b"%0*d" % (size, number)
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(300) == 0


def options(broker: OurBroker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}


def best(work: Callable[[], Any]) -> float:
    work()
    seconds = []
    for _ in range(RUNS):
        start = time.monotonic()
        work()
        seconds.append(time.monotonic() - start)
    return min(seconds)


def save(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def tables(spark: SparkSession, source: str, settings: dict[str, str]) -> dict[str, DataFrame]:
    """All columns, and two of them: Spark asks a source in Python for no fewer than its schema has."""
    reader = spark.read.format(source).options(**settings)
    whole = reader.load()
    if source == "pybroker":
        return {"all": whole, "value, offset": reader.schema("value binary, offset bigint").load()}
    return {"all": whole, "value, offset": whole.select("value", "offset")}


def stream(spark: SparkSession, source: str, settings: dict[str, str], most: int, folder: Path) -> list[dict[str, int]]:
    """Milliseconds of each micro-batch, by what they went into, with its rows."""
    rows = spark.readStream.format(source).options(**settings, maxOffsetsPerTrigger=str(most)).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "log"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [{"rows": each.numInputRows, **each.durationMs} for each in query.recentProgress]


def measure(rows: int, size: int, source: str, jars: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, OurBroker(Path(name) / "data") as broker:
        fill(broker, rows, size)
        folder = Path(name) / "spark"
        folder.mkdir()
        with local_spark(folder, **JVM, spark_jars=jars) as spark:
            found: dict[str, Any] = {"format": source, "rows": rows, "size": size}
            for columns, some in tables(spark, source, options(broker)).items():
                seconds = best(lambda some=some: save(some))
                found[columns] = {"rows/s": round(rows / seconds), "MB/s": round(rows * size / seconds / 1e6, 1)}
            found["batches"] = stream(spark, source, options(broker), rows // 4, folder)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--format", default="pybroker", choices=["pybroker", "kafka"])
    parser.add_argument("--jars", default="", help="for kafka: the connector's jars, comma-separated")
    given = parser.parse_args()
    print(json.dumps(measure(given.rows, given.size, given.format, given.jars), indent=1))


if __name__ == "__main__":
    main()
