"""Measures how costs grow with the number of partitions: ``python -m conformance.bench --suite scale``.

Each row is measured with several numbers of partitions, each on a fresh broker. A least-squares fit gives the exponent
with which its cost grows.
"""

from __future__ import annotations

from conformance.bench.scale.page import table, write
from conformance.bench.scale.spent import Sample
from conformance.bench.scale.suite import SIZES, SMALL, measure

__all__ = ["SIZES", "SMALL", "Sample", "measure", "table", "write"]
