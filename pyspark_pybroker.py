"""PySpark finds the data source ``pybroker`` here, without registration and without a jar.

Spark looks through the top-level modules named ``pyspark_…`` for a ``DefaultSource`` when it first
meets a format that it does not know; all else is in ``pyclient.spark``.
"""

from __future__ import annotations

from pyclient.spark.data_source import DefaultSource

__all__ = ["DefaultSource"]
