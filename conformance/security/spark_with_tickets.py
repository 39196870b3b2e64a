"""A Spark application of its own process, whose environment names the Kerberos realm.

    python -m conformance.security.spark_with_tickets FOLDER TOPIC LOGINS

``LOGINS`` is JSON: the options of each login, by a name. Each login writes its name to the topic, and then reads the
topic. The application prints JSON: the values that each login has read, or its error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.spark.session import local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tried(spark: SparkSession, topic: str, name: str, options: Mapping[str, str]) -> list[str] | str:
    """Returns the values of the topic after a write, or the error."""
    try:
        frame = spark.createDataFrame([(name,)], "value string")
        frame.write.format("pybroker").options(**options, topic=topic).mode("append").save()
        rows = spark.read.format("pybroker").options(**options, subscribe=topic).load().collect()
    except Exception as error:
        return str(error)
    return sorted(bytes(row.value).decode() for row in rows)


def main(folder: str, topic: str, logins: str) -> None:
    """Tries to log in as each user."""
    with local_spark(Path(folder)) as spark:
        found = {name: tried(spark, topic, name, options) for name, options in json.loads(logins).items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
