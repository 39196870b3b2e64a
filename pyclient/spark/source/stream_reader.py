"""Reads a streaming query in the form that the installed PySpark expects: with a start and limits (from 4.2 on), or
without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyclient.spark import api
from pyclient.spark.options import Use
from pyclient.spark.source.columns import columns_of
from pyclient.spark.source.offsets import Json, Offsets, from_json, to_json
from pyclient.spark.source.range_reader import RangePartition, RangeReader
from pyclient.spark.source.source_options import SourceOptions, source_options
from pyclient.spark.source.stream_source import StreamSource

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader):
    """The methods that all versions call. ``read`` runs in the tasks, the others in a process of the driver."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._ranges = RangeReader(options, columns_of(schema, options))
        self._source = StreamSource(options)

    def initialOffset(self) -> Json:
        """Returns where a new query starts."""
        return to_json(self._source.initial())

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Returns the tasks of a batch."""
        ranges = self._source.ranges(from_json(start), from_json(end))
        return [RangePartition(each, self._source.topic_id(each.tp.topic)) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a task."""
        return self._ranges.read(partition)

    def commit(self, end: Json) -> None:
        """Notes that a batch is done. Spark calls this when the next one begins."""
        self._source.finished(from_json(end))

    def reportLatestOffset(self) -> Json | None:
        """Returns the newest offsets, for the query's progress."""
        return to_json(self._source.newest) or None

    def stop(self) -> None:
        """Closes the source, because the query has ended."""
        self._source.close()


class LimitedReader(StreamReader, api.SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A reader with Spark's limits: the options of the source, unless the trigger reads everything available."""

    def getDefaultReadLimit(self) -> Any:
        """Returns a limit if the options have one. Spark cannot express several, so ``latestOffset`` reads the
        options.
        """
        options = self._options
        if options.max_offsets is not None:
            return api.limits.ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return api.limits.ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return api.limits.ReadMinRows(options.min_offsets)
        return api.limits.ReadAllAvailable()

    def latestOffset(self, start: Json, limit: Any) -> Json:
        """Returns where the next batch ends."""
        is_limited = not isinstance(limit, api.limits.ReadAllAvailable)
        return to_json(self._source.latest(from_json(start), is_limited=is_limited))

    def prepareForTriggerAvailableNow(self) -> None:
        """Sets the end of the query to the newest offsets of now."""
        self._source.aim()


class UnlimitedReader(StreamReader):
    """A reader without Spark's limits (4.0, 4.1). Spark passes no start, so the end of the previous batch serves as
    one.
    """

    _last: Offsets | None = None

    def latestOffset(self) -> Json:  # type: ignore[override]
        """Returns where the next batch ends."""
        self._last = self._source.latest_of_unknown_start(self._last)
        return to_json(self._last)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Returns the tasks of a batch. After a restart this may be the first call."""
        self._last = from_json(end)
        return super().partitions(start, end)


def stream_reader(options: Mapping[str, str], schema: StructType) -> StreamReader:
    """Returns the reader of ``spark.readStream``. Raises ConfigError."""
    kind = LimitedReader if api.TELLS_START else UnlimitedReader
    return kind(source_options(options, Use.STREAM_READ), schema)
