"""The killed program: it writes numbers, in repeatable batches, into a topic exactly once.

    python -m conformance.spark.pipeline BOOTSTRAP FOLDER

The program restarts a failed query from its checkpoint, in the same Spark; its caller restarts the whole program. The
file ``FOLDER/stop`` ends it after the current batch. Then the data source reads the topic and writes it to a table.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.spark.session import local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

TOPIC = "numbers"
PER_BATCH = 2_000


def started(spark: SparkSession, bootstrap: str, folder: Path) -> StreamingQuery:
    """Starts the query from its checkpoint."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", PER_BATCH).option("numPartitions", 3)
    rows = source.load().selectExpr("cast(value as string) value", "cast(value % 50 as string) key")
    sink = rows.writeStream.format("pybroker").option("topic", TOPIC).option("delivery", "exactly-once")
    sink = sink.option("kafka.bootstrap.servers", bootstrap).option("checkpointLocation", str(folder / "checkpoint"))
    return sink.start()


def run(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    """Runs the query until a file asks it to stop."""
    while not (folder / "stop").exists():
        query = started(spark, bootstrap, folder)
        while query.isActive and not (folder / "stop").exists():
            time.sleep(0.1)
        if query.isActive:
            query.stop()
        elif query.exception() is not None:
            print("the query failed:", str(query.exception())[:300], flush=True)
            time.sleep(0.2)


def into_table(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    """Streams everything that is committed in the topic into Parquet files."""
    source = spark.readStream.format("pybroker").option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    rows = rows.option("kafka.isolation.level", "read_committed")
    sink = rows.load().selectExpr("cast(value as string) value").writeStream.format("parquet")
    sink = sink.option("path", str(folder / "table")).option("checkpointLocation", str(folder / "table-checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()


def main(bootstrap: str, folder: Path) -> None:
    """Runs the Spark program."""
    with local_spark(Path(tempfile.mkdtemp(prefix="spark-", dir=folder))) as spark:
        run(spark, bootstrap, folder)
        into_table(spark, bootstrap, folder)
    (folder / "done").touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
