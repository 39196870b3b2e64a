"""The data source for PySpark. It imports its parts only when they are needed, because PySpark imports this module to
list the data sources.
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
    """The data source ``format("pybroker")``."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for ``format``."""
        return "pybroker"

    def schema(self) -> StructType | str:
        """Returns the columns of Spark's ``kafka``, with ``headers`` if ``includeHeaders`` is set. Raises ConfigError
        for options that a source does not have.
        """
        from pyclient.spark.source.columns import source_schema

        return source_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch query."""
        from pyclient.spark.source.batch_reader import batch_reader

        archives.keep()
        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of a streaming query. The driver uses it, and tasks call its ``read``."""
        from pyclient.spark.source.stream_reader import stream_reader

        archives.keep()
        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Returns the writer of a batch. The driver calls its ``commit`` and ``abort``, and tasks its ``write``."""
        from pyclient.spark.sink.writer import batch_writer

        archives.keep()
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Returns the writer of a stream. Spark makes a new one for each commit."""
        from pyclient.spark.sink.writer import stream_writer

        archives.keep()
        return stream_writer(self.options, schema, overwrite)
