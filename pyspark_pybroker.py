"""Lets PySpark find the data source ``pybroker`` without registration and without a jar.

When Spark meets an unknown format, it searches the top-level modules named ``pyspark_…`` for a ``DefaultSource``.
Everything else is in ``pyclient.spark``.
"""

from __future__ import annotations

from pyclient.spark.data_source import DefaultSource

__all__ = ["DefaultSource"]
