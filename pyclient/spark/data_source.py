"""The data source as PySpark knows it. It only puts things together; what it needs is imported when it is needed,
for PySpark imports this to see what data sources there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyclient.spark import archives

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """``format("pybroker")``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` calls it."""
        return "pybroker"

    def schema(self) -> StructType | str:
        """The columns of Spark's ``kafka``, with ``headers`` where ``includeHeaders`` is set. Raises ConfigError
        for options that no source has.
        """
        from pyclient.spark.source.columns import source_schema

        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query."""
        from pyclient.spark.source.batch_reader import batch_reader

        archives.keep()
        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a streaming query, on the driver; its ``read`` in the tasks."""
        from pyclient.spark.source.stream_reader import stream_reader

        archives.keep()
        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch; on the driver for commit and abort, its ``write`` in the tasks."""
        from pyclient.spark.sink.writer import batch_writer

        archives.keep()
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Returns the writer of a stream. Spark makes a new one for each commit."""
        from pyclient.spark.sink.writer import stream_writer

        archives.keep()
        return stream_writer(self.options, schema, overwrite)
