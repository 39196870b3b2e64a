"""Knows what the installed PySpark offers to data sources in Python. Versions 4.0 to 4.3 differ only here.

It checks for features, never for versions.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]
    from pyspark.sql.types import StructType

HAS_FILTERS: Final = hasattr(datasource, "Filter")
"""True if PySpark has ``DataSourceReader.pushFilters`` (4.1)."""
try:
    from pyspark.sql.streaming import datasource as _streaming
except ImportError:
    _streaming = None  # type: ignore[assignment]

limits: Final[Any] = _streaming
"""The module with ``ReadLimit`` and its kinds (4.2), or None."""

SupportsTriggerAvailableNow: Final[Any] = getattr(_streaming, "SupportsTriggerAvailableNow", object)

TELLS_START: Final = len(inspect.signature(datasource.DataSourceStreamReader.latestOffset).parameters) > 1
"""True if ``latestOffset`` gets the start of the batch and a limit (4.2)."""

_PUSHDOWN: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class StreamWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):  # type: ignore[misc]
    """The base class of stream writers. It has two bases, so that ``write`` gets Arrow batches. (4.1 has a class for
    it, and 4.0 checks only for the second base.)
    """


def filters_are_pushed() -> bool:
    """Returns whether Spark is about to call ``pushFilters`` (``spark.sql.python.filterPushdown.enabled``). While that
    setting is off, Spark rejects a reader that has the method. Only in the process that creates the reader can this be
    found out.
    """
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return HAS_FILTERS and (_PUSHDOWN in sys.modules or getattr(spec, "name", "") == _PUSHDOWN)


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """Returns the only schema of Arrow batches that Spark accepts for ``schema``."""
    names = inspect.signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in names else {}
    return to_arrow_schema(schema, **zone)
