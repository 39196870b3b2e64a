"""Writes numbers by ``format("kafka")``, batch and stream, and reads them the same ways; PySpark 4.0.0 runs it.

    both_ways.py SPARK_OPTIONS_AS_JSON BOOTSTRAP TOPIC COUNT FOLDER
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.streaming import DataStreamReader


def main(options: str, bootstrap: str, topic: str, count: str, folder: str) -> None:
    builder = SparkSession.builder.master("local[2]")
    for key, value in json.loads(options).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    at = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(int(count)).selectExpr("cast(id as string) key", "cast(id as string) value")
    rows.write.format("kafka").options(topic=topic, **at).save()

    def read(reader: DataFrameReader | DataStreamReader) -> DataFrame:
        return reader.format("kafka").options(subscribe=topic, startingOffsets="earliest", **at).load()

    copied = read(spark.readStream).selectExpr("key", "value", "concat(topic, '-copy') topic").writeStream
    copied = copied.format("kafka").options(checkpointLocation=f"{folder}/copy", **at)
    copied.trigger(availableNow=True).start().awaitTermination()
    found = {name: read_numbers(spark, at, name) for name in (topic, f"{topic}-copy")}
    print(json.dumps(found))
    spark.stop()


def read_numbers(spark: SparkSession, at: dict[str, str], topic: str) -> dict[str, int]:
    """Returns how many records there are, and how many different numbers."""
    rows = spark.read.format("kafka").options(subscribe=topic, **at).load()
    values = rows.selectExpr("cast(cast(value as string) as long) value", "partition", "offset")
    row = values.selectExpr("count(*) n", "count(distinct value) different", "sum(value) total").first()
    assert row is not None
    numbers: dict[str, int] = row.asDict()
    return numbers


if __name__ == "__main__":
    main(*sys.argv[1:])
