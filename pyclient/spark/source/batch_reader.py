"""Reads a batch query: once, all records between two positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyclient.errors import ConfigError
from pyclient.spark.api import filters_are_pushed
from pyclient.spark.options import Use
from pyclient.spark.source import data_loss
from pyclient.spark.source.columns import columns_of
from pyclient.spark.source.log_offsets import LogOffsets
from pyclient.spark.source.range_reader import RangePartition, RangeReader
from pyclient.spark.source.ranges import Range, split
from pyclient.spark.source.source_options import SourceOptions, source_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter


class BatchReader(DataSourceReader):
    """Plans on the driver. ``read`` runs in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._ranges = RangeReader(options, columns_of(schema, options))

    def partitions(self) -> list[InputPartition]:
        """Returns one or more tasks for each partition with records. Raises ConfigError, DataLoss …"""
        offsets = LogOffsets(self._options)
        try:
            planned = self.narrowed(self._planned(offsets), offsets)
        finally:
            offsets.close()
        parts = split(planned, self._options.min_partitions, self._options.max_records)
        return [RangePartition(each, offsets.topic_ids.get(each.tp.topic, "")) for each in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a task."""
        return self._ranges.read(partition)

    def narrowed(self, ranges: list[Range], offsets: LogOffsets) -> list[Range]:
        """Returns the requested range of each partition."""
        return ranges

    def _planned(self, offsets: LogOffsets) -> list[Range]:
        partitions = offsets.partitions()
        start = offsets.at(self._options.starting, partitions, is_start=True)
        end = offsets.at(self._options.ending, partitions, is_start=False)
        earliest, latest = offsets.earliest(partitions), offsets.latest(partitions, {})
        ranges = [Range(tp, start[tp], end[tp]) for tp in sorted(partitions)]
        return [self._there(each, earliest[each.tp], latest[each.tp]) for each in ranges]

    def _there(self, wanted: Range, earliest: int, latest: int) -> Range:
        """Returns the part of a range that is in the log."""
        tp, start, end = wanted
        if start > end:
            raise ConfigError(f"the starting offset {start} of {tp} is greater than its ending offset {end}")
        if start < min(earliest, end) or end > latest:
            told = f"offsets {start} to {end - 1} of {tp} were requested, but the log has {earliest} to {latest - 1}"
            data_loss.report(f"Offsets are gone: {told}", fails=self._options.fails_on_loss)
        start = min(max(start, earliest), latest)
        return Range(tp, start, max(start, min(end, latest)))


class FilteringReader(BatchReader):
    """A reader that Spark asks which filters the source can serve."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        from pyclient.spark.source.filters import Narrowing  # not before PySpark 4.1

        super().__init__(options, schema)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes filters. Returns those that Spark has to apply itself."""
        return [each for each in filters if not self._narrowing.take(each)]

    def narrowed(self, ranges: list[Range], offsets: LogOffsets) -> list[Range]:
        """Returns the ranges that the filters leave."""
        left = self._narrowing.of(ranges)
        since = self._narrowing.since_ms
        if since is None:
            return left
        first = offsets.after({each.tp: since for each in left})
        return [each._replace(start=max(each.start, first[each.tp])) for each in left]


def batch_reader(options: Mapping[str, str], schema: StructType) -> BatchReader:
    """Returns the reader of ``spark.read``. Raises ConfigError."""
    kind = FilteringReader if filters_are_pushed() else BatchReader
    return kind(source_options(options, Use.BATCH_READ), schema)
