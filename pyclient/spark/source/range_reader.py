"""Runs a task: reads a range of offsets of a partition as Arrow batches. No Python object is made per record.

Records of the range may be gone when the task reads it: the broker answers OFFSET_OUT_OF_RANGE, or the topic has
another id. In all other cases the reader waits. A newly elected leader may not know its last stable offset yet, and an
error may come from the former leader.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyclient import Consumer
from pyclient.errors import KafkaError, OffsetOutOfRange, RequestTimedOut, UnknownTopicOrPartition
from pyclient.spark import archives
from pyclient.spark.source.clients import consumer_of
from pyclient.spark.source.columns import Columns
from pyclient.spark.source.data_loss import report
from pyclient.spark.source.log_offsets import LogOffsets
from pyclient.spark.source.ranges import Range
from pyclient.spark.source.source_options import SourceOptions

log = logging.getLogger(__name__)

BATCH_BYTES: Final = 8 << 20
"""The approximate size of one Arrow batch. Large batches cost Spark least, and the next one is fetched meanwhile."""
LEAST_ROWS: Final = 10_000
MOST_ROWS: Final = 100_000
PATIENCE_S: Final = 1.0
"""Seconds without a record, after which the reader checks whether the topic was deleted and created again."""


class RangePartition(InputPartition):
    """A range of offsets of one partition, which one task of Spark reads."""

    def __init__(self, wanted: Range, topic_id: str = "") -> None:
        super().__init__(tuple(wanted))
        self.range = wanted
        self.topic_id = topic_id
        """The topic's id when the batch was planned; empty if unknown."""


@dataclass(frozen=True)
class RangeReader:
    """Reads the offset range of one Spark partition. Can be pickled."""

    options: SourceOptions
    columns: Columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the records. For the partition that Spark invents if there is none, yields nothing."""
        archives.keep()
        if isinstance(partition, RangePartition):
            with (
                consumer_of(self.options.client) as consumer,
                closing(_Reading(self, consumer, partition)) as reading,
            ):
                for batch in gathered(reading.batches()):
                    yield self.columns.of(batch, partition.range.tp)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in batches of at least ``LEAST_ROWS`` or ``BATCH_BYTES``, except the last, because each
    batch costs Spark time.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= LEAST_ROWS or sum(each.nbytes for each in held) >= BATCH_BYTES:
            yield from _joined(held)
            held = []
    if held:
        yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns all rows in one batch, or in several if a column would exceed 2 GiB."""
    if len(batches) == 1:
        return batches
    return pa.Table.from_batches(batches).combine_chunks().to_batches()  # type: ignore[no-any-return]


class _Reading:
    """One range that is being read."""

    def __init__(self, how: RangeReader, consumer: Consumer, wanted: RangePartition) -> None:
        self._how = how
        self._options = how.options
        self._consumer = consumer
        self._range = wanted.range
        self._topic_id = wanted.topic_id
        self._rows = LEAST_ROWS
        self._moved_at = time.monotonic()
        self._silences = 0
        """How many polls in a row returned nothing."""
        self._offsets = LogOffsets(how.options)

    def close(self) -> None:
        """Closes the connections that were made for this range."""
        self._offsets.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields records up to the end of the range. Raises DataLoss, RequestTimedOut."""
        try:
            self._go_to(self._range.start)
        except UnknownTopicOrPartition as error:
            self._lose(self._range.start, self._range.end, str(error))
            return
        while (position := self._position()) < self._range.end:
            try:
                batch = self._consumer.poll_arrow(self._rows, PATIENCE_S, self._how.columns.client)
            except OffsetOutOfRange:
                self._on_gone()
                continue
            if batch.num_rows:
                self._rows = min(max(BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1), LEAST_ROWS), MOST_ROWS)
                yield batch
            if self._position() > position:  # counts records of aborted transactions too
                self._moved_at = time.monotonic()
                self._silences = 0
            else:
                self._silences += 1
                self._on_silence()

    def _position(self) -> int:
        return self._consumer.position(self._range.tp)

    def _go_to(self, offset: int) -> None:
        self._consumer.assign_range(self._range.tp, offset, self._range.end)

    def _on_gone(self) -> None:
        """Handles a position that is before the start of the log, or after its end."""
        tp, position = self._range.tp, self._position()
        first = self._consumer.beginning_offsets([tp])[tp]
        last = self._consumer.end_offsets([tp])[tp]
        if first <= position <= last:  # another leader has the position
            self._check_patience()
            time.sleep(self._options.retry_interval_ms / 1000)
            self._go_to(position)
            return
        after = min(first, self._range.end) if position < first else self._range.end
        self._lose(position, after, f"the log has offsets {first} to {last} now")
        self._go_to(after)

    def _on_silence(self) -> None:
        if self._is_other_topic():
            self._lose(self._position(), self._range.end, "the topic was deleted and created again")
            self._go_to(self._range.end)
        else:
            self._check_patience()

    def _is_other_topic(self) -> bool:
        """Checks the topic's id after 1, 2, 4, 8, … empty polls, so that it does not burden a cluster in trouble."""
        if not self._topic_id or self._silences & (self._silences - 1):
            return False
        try:
            return self._offsets.id_of(self._range.tp.topic) not in (None, self._topic_id)
        except KafkaError as error:
            log.warning("it is unknown whether %s is still the same topic: %s", self._range.tp.topic, error)
            return False

    def _check_patience(self) -> None:
        if (time.monotonic() - self._moved_at) * 1000 >= self._options.poll_timeout_ms:
            raise RequestTimedOut(
                f"Cannot fetch record for offset {self._position()} of {self._range.tp} "
                f"in {self._options.poll_timeout_ms} milliseconds"
            )

    def _lose(self, start: int, end: int, why: str) -> None:
        tp = self._range.tp
        report(f"Offsets {start} to {end - 1} of {tp} are gone: {why}", fails=self._options.fails_on_loss)
