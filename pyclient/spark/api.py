"""What the installed PySpark offers to data sources in Python: 4.0 to 4.3 differ, and this is where.

A feature is looked for, never a version.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from pyspark.sql import datasource

HAS_FILTERS: Final = hasattr(datasource, "Filter")
"""``DataSourceReader.pushFilters`` (4.1)."""

StreamWriter: Final[Any] = getattr(
    datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter
)
"""What a stream is written by: with Arrow batches (4.1) or rows."""

TAKES_ARROW: Final = StreamWriter is not datasource.DataSourceStreamWriter
"""``StreamWriter.write`` gets Arrow batches."""

_PUSHDOWN: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def filters_are_pushed() -> bool:
    """Whether Spark is about to call ``pushFilters`` (``spark.sql.python.filterPushdown.enabled``). A reader that has
    the method while that is off is refused; only by the process that makes it can one tell.
    """
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return HAS_FILTERS and (_PUSHDOWN in sys.modules or getattr(spec, "name", "") == _PUSHDOWN)
