"""What is read of a log: batches from an offset on, records by their time, aborted transactions."""

from __future__ import annotations

from cy.batch import HEADER_SIZE
from pybroker.log.config import MAX_LONG
from pybroker.log.log_files import LogFiles
from pybroker.log.log_slice import LogSlice
from pybroker.log.timestamps import TimestampOffset, first_record_since, newest_record
from pybroker.log.txn_index import AbortedTransaction, overlapping
from pyclient.protocol import errors


class ReadableLog(LogFiles):
    """A log as those see it who only read."""

    __slots__ = ()

    def read(self, offset: int, max_bytes: int, upper_bound: int = MAX_LONG, min_one: bool = True) -> LogSlice:
        """Whole batches of one segment, from the one that holds ``offset``, below offset
        ``upper_bound``.

        At most ``max_bytes``, but with ``min_one`` at least one batch (KIP-74). Empty at the end.
        The batch without records that compaction leaves at a segment's end is passed over where
        more follows: librdkafka takes a response without any record for a limit that is too small.
        Raises OffsetOutOfRange, CorruptMessage, KafkaStorageError.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise errors.OffsetOutOfRange(f"offset {offset} is not in {self}")
        bound = min(upper_bound, end)
        if offset >= bound:
            return LogSlice(b"", 0, offset, offset)
        self.log_dir.check_online()
        segments = self.segments
        rest = LogSlice(b"", 0, offset, offset)
        try:
            for number in range(segments.find(offset), len(segments)):
                segment_end = segments.end_offset(number, end)
                found = segments[number].read(offset, max_bytes, bound, segment_end, min_one=min_one)
                if found is None:
                    continue
                if not found.size:
                    break
                if found.size != HEADER_SIZE or found.next_offset != segment_end:
                    return found
                rest = found
        except OSError as error:
            raise self.log_dir.refuse(error, f"reading {self.folder}") from error
        return rest

    def read_bytes(self, offset: int, max_bytes: int, upper_bound: int = MAX_LONG) -> bytes:
        """As ``read``, as bytes."""
        found = self.read(offset, max_bytes, upper_bound)
        with self._refusing("reading"):
            return found.read()

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record as new as ``timestamp``, None where all are older.

        Raises CorruptMessage, KafkaStorageError.
        """
        self.log_dir.check_online()
        with self._refusing("searching a timestamp"):
            return first_record_since(self, timestamp)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the greatest timestamp (KIP-734), None in a log without
        timestamps.
        """
        self.log_dir.check_online()
        with self._refusing("searching a timestamp"):
            return newest_record(self)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in ``[start, end)``."""
        with self._refusing("reading the transaction index"):
            later = range(self.segments.find(start), len(self.segments))
            return overlapping((self.segments[number].txn_index for number in later), start, end)
