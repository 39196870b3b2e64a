"""Starts one Spark per test process, since a JVM costs ten seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyclient.keywords import with_dots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[2]
CONFIG = {
    "spark.driver.memory": "1g",
    # Spark starts in half the time with this.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def _home(folder: Path) -> Path:
    """Returns PySpark's own home without its zip: workers would import PySpark from that, and compile it each time."""
    import pyspark

    home = folder / "home"
    home.mkdir()
    for part in ("bin", "jars"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    return home


@contextmanager
def local_spark(folder: Path, **config: str) -> Iterator[SparkSession]:
    """Starts a local Spark of two cores; its Python workers find the data source like an installed one. ``config``:
    more of Spark's configuration, with ``_`` for ``.``.
    """
    from pyspark.sql import SparkSession

    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ["SPARK_HOME"] = str(_home(folder))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("conformance")
    own = {"spark.sql.warehouse.dir": str(folder), "spark.local.dir": str(folder)}
    given = with_dots(config)
    for key, value in {**CONFIG, **own, **given}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()
