"""The job of ``flights.py``: PySpark reads flights from a topic, into two Parquet tables of a folder.

    python examples/flights_spark.py localhost:9092 flights out/flights

* ``hours``: a stream; per airport and hour how many flights were due, how many left, and how late. It may be killed at
  any time: started again it goes on from its checkpoint, and no row of the table is lost or doubled.
* ``warehouse``: a batch; every flight, by carrier.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

FLIGHT = (
    "scheduled TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, delay INT,"
    " air_time INT, distance INT"
)
PATIENCE = "2 days"
"""A window is complete when a flight is due so much later; a record comes when its flight leaves: at most 22 hours."""


def session() -> SparkSession:
    """Spark in this process, on two cores; ``format("pybroker")`` is there once pybroker is installed."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.master("local[2]").appName("flights").config(map=settings).getOrCreate()


def parsed(records: DataFrame) -> DataFrame:
    """A row of each record's JSON."""
    return records.select(f.from_json(f.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")


def stream(spark: SparkSession, bootstrap: str, topic: str, folder: Path, batch_records: int) -> StreamingQuery:
    """Starts the stream; it ends when it has read all that is there."""
    flights = parsed(
        spark.readStream.format("pybroker")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch_records)
        .load()
    )
    hours = (
        flights.withWatermark("scheduled", PATIENCE)
        .groupBy(f.window("scheduled", "1 hour").alias("hour"), "origin")
        .agg(f.count("*").alias("flights"), f.count("delay").alias("departed"), f.sum("delay").alias("minutes_late"))
        .select(f.col("hour.start").alias("hour"), "origin", "flights", "departed", "minutes_late")
        .withColumn("month", f.month("hour"))
    )
    return (
        hours.writeStream.format("parquet")
        .outputMode("append")
        .partitionBy("month")
        .option("path", str(folder / "hours"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def follow(query: StreamingQuery) -> None:
    """Tells each batch on stdout, until the query has ended. Raises StreamingQueryException."""
    told = -1
    is_active = True
    while is_active:
        is_active = query.isActive
        for progress in query.recentProgress:
            if progress.batchId > told:
                told = progress.batchId
                late = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
                print(f"batch {told}: {progress.numInputRows} records, {late} too late", flush=True)
        time.sleep(0.2)
    query.awaitTermination()


def load(spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
    """The whole topic, as it is now, into the warehouse."""
    source = spark.read.format("pybroker").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    flights = parsed(source.load()).where("carrier IS NOT NULL")
    flights.write.mode("overwrite").partitionBy("carrier").parquet(str(folder / "warehouse"))


def main() -> None:
    """Ends when all that was there is in both tables."""
    bootstrap, topic, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    batch_records = int(sys.argv[4]) if len(sys.argv) > 4 else 100_000
    spark = session()
    follow(stream(spark, bootstrap, topic, folder, batch_records))
    load(spark, bootstrap, topic, folder)
    print("loaded", flush=True)


if __name__ == "__main__":
    main()
