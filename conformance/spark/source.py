"""Shared work of the source's tests: librdkafka writes rows into a topic, Spark reads them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import datasource

from harness.servers.brokers import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 240

PUSHES_FILTERS = hasattr(datasource, "Filter")
"""True if Spark tells a source its filters (4.1)."""

TELLS_START = len(inspect.signature(datasource.DataSourceStreamReader.latestOffset).parameters) > 1
"""Says whether Spark tells a source a batch's start and limit (4.2)."""


def fill(broker: Broker, topic: str, values: Iterable[Any], partition: int = 0, **record: Any) -> None:
    """Writes values, as text, into one partition, in order."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=partition, **record)
    assert producer.flush(60) == 0


def cut(broker: Broker, topic: str, before: int, partition: int = 0) -> None:
    """Deletes the records before an offset by DeleteRecords."""
    client = admin(broker)
    for each in client.delete_records([TopicPartition(topic, partition, before)]).values():
        each.result(60)


def widen(broker: Broker, topic: str, partitions: int) -> None:
    """Raises the topic's number of partitions to this."""
    client = admin(broker)
    for each in client.create_partitions([NewPartitions(topic, partitions)]).values():
        each.result(60)


def delete(broker: Broker, topic: str) -> None:
    """Deletes the topic and waits until it is gone."""
    client = admin(broker)
    for each in client.delete_topics([topic]).values():
        each.result(60)


def admin(broker: Broker) -> AdminClient:
    """Makes an admin client; keep it until its results are there."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


class Source:
    """A broker whose topics Spark reads."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder

    def _options(self, topic: str | None, options: dict[str, str]) -> dict[str, str]:
        named = {} if topic is None else {"subscribe": topic}
        return {"kafka.bootstrap.servers": self.broker.bootstrap, **named, **options}

    def batch(self, topic: str | None = None, schema: str | None = None, **options: str) -> DataFrame:
        reader = self.spark.read.format("pybroker").options(**self._options(topic, options))
        return (reader if schema is None else reader.schema(schema)).load()

    def values(self, topic: str | None = None, **options: str) -> list[str]:
        """Returns a batch's values, in the order of partitions and offsets."""
        rows = (
            self.batch(topic, **options).selectExpr("cast(value as string)", "topic", "partition", "offset").collect()
        )
        return [row[0] for row in sorted(rows, key=lambda row: row[1:])]

    def stream(self, topic: str | None = None, **options: str) -> DataFrame:
        return self.spark.readStream.format("pybroker").options(**self._options(topic, options)).load()

    def run(self, rows: DataFrame, name: str = "run", **trigger: Any) -> Any:
        """Runs a query into Parquet, from a named checkpoint, to its end (``Trigger.AvailableNow``)."""
        query = self.start(rows, name, **(trigger or {"availableNow": True}))
        assert query.awaitTermination(PATIENCE_S)
        return query

    def start(self, rows: DataFrame, name: str = "run", **trigger: Any) -> Any:
        writer = rows.writeStream.format("parquet").option("path", str(self.folder / name / "out"))
        return writer.option("checkpointLocation", str(self.folder / name / "log")).trigger(**trigger).start()

    def result(self, name: str = "run") -> list[tuple[str, int, int, str]]:
        """Returns the output of the query of that name: topic, partition, offset, value."""
        table = self.spark.read.parquet(str(self.folder / name / "out"))
        columns = table.selectExpr("topic", "partition", "offset", "cast(value as string)")
        return sorted(tuple(row) for row in columns.collect())
