"""Derived state made again from the batches of a log: producers and the transaction index.

Headers tell all but the kind of a marker. Markers lie close together where there are many of them,
so their bytes are read in pieces and not one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from cy.batch import Batch, CorruptBatch, InvalidBatch
from pybroker.log.files.batches import SCAN_BYTES, MalformedBatch
from pybroker.log.files.txn_index import AbortedTransaction, TransactionIndex
from pybroker.log.producers import marker as markers
from pybroker.log.producers.marker import Marker
from pybroker.log.producers.producer_entry import WINDOW, BatchMetadata, ProducerEntry
from pybroker.log.producers.producer_state import ProducerStates
from pybroker.log.segment.segment import NO_BATCH, Segment
from pybroker.log.segment.segments import Segments
from pyclient.protocol import errors

PIECE_BYTES = 64 << 10
PIECE_BATCHES = 500

logger = logging.getLogger(__name__)


class Markers:
    """Reads the markers of one segment, whose batches come in order."""

    __slots__ = ("_piece", "_segment", "_start")

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._start = 0
        self._piece = b""

    def at(self, position: int, batch: Batch) -> Marker | None:
        """The marker in the control batch at ``position``; raises MalformedBatch, OSError."""
        begin = position - self._start
        if begin < 0 or begin + batch.size > len(self._piece):
            length = min(max(PIECE_BYTES, batch.size), self._segment.size - position)
            self._piece = self._segment.read_bytes(position, length)
            self._start, begin = position, 0
        try:
            return markers.decode(self._piece[begin : begin + batch.size])
        except (CorruptBatch, InvalidBatch) as error:
            raise MalformedBatch(position, f"no marker: {error}", size=batch.size) from error


REACH_BYTES = 1 << 20


def reach_of(segments: Segments, end_offset: int) -> int:
    """From where producers are replayed after an unclean stop.

    A snapshot knows the last batch of each producer only, but those that were under way are sent
    again: so the whole segments in the last ``REACH_BYTES`` are read, snapshots or not. What lies
    there of a longer segment is read by ``recall_batches``.
    """
    left, reach = REACH_BYTES, end_offset
    for segment in reversed(segments.snapshot()):
        left -= segment.size
        if left < 0:
            break
        reach = segment.base_offset
    return reach


def replay_producers(
    producers: ProducerStates, segments: Segments, log_start_offset: int, log_end_offset: int, reach: int | None = None
) -> None:
    """Brings ``producers`` to the log's end: a sound snapshot, the newest at or before ``reach``,
    then the batches behind it. With ``reach`` also what the snapshot lacks of those under way.

    Raises batches.MalformedBatch, OSError.
    """
    for _ in _replay_in_pieces(producers, segments, log_start_offset, log_end_offset, reach):
        pass


def _replay_in_pieces(
    producers: ProducerStates, segments: Segments, log_start_offset: int, log_end_offset: int, reach: int | None = None
) -> Iterator[None]:
    start = producers.load(log_start_offset, log_end_offset, reach)
    if reach is not None and len(producers) and len(segments) and start > segments[0].base_offset:
        recall_batches(producers, segments[segments.find(start - 1)], start)
    if start < log_end_offset:
        for number in range(segments.find(start), len(segments)):
            segment = segments[number]
            if segment.base_offset >= log_end_offset:
                break
            position = segment.position_of(start) if start > segment.base_offset else 0
            if position >= 0:
                replayed, seen_ms = Markers(segment), segment.modified_ms
                for count, (at, batch) in enumerate(segment.batches(position), 1):
                    if batch.base_offset >= log_end_offset:
                        break
                    replay_batch(producers, replayed, at, batch, seen_ms)
                    if count % PIECE_BATCHES == 0:
                        yield
            yield
    producers.end_offset = log_end_offset


def producers_at(producers: ProducerStates, segments: Segments, log_start_offset: int, offset: int) -> ProducerStates:
    """What ``producers`` are to be when the log has been truncated to ``offset``; nothing is changed.

    Raises batches.MalformedBatch, OSError.
    """
    found, pieces = reading_producers(producers, segments, log_start_offset, offset)
    for _ in pieces:
        pass
    return found


def reading_producers(
    producers: ProducerStates, segments: Segments, log_start_offset: int, offset: int
) -> tuple[ProducerStates, Iterator[None]]:
    """As ``producers_at``: these are what it gives when the iterator, which reads about a millisecond at a time, has
    come to its end. What it raises then is what that raises.
    """
    found = producers.before(offset)
    return found, _replay_in_pieces(found, segments, min(log_start_offset, offset), offset)


def duplicate_of(
    producers: ProducerStates, segments: Segments, batch: Batch, transaction_version: int, with_sequence: bool
) -> BatchMetadata | None:
    """``ProducerStates.check``, which after a clean stop knows only the last batch of a producer. If an earlier one is
    sent again, because its acknowledgement was lost, it is looked up in the log, once. Kafka takes them for a gap.
    Raises what ``check`` raises, and OSError.
    """
    try:
        return producers.check(batch, transaction_version, with_sequence=with_sequence)
    except errors.DuplicateSequenceNumber:
        entry = producers.get(batch.producer_id)
        if entry is None or not entry.is_partial:
            raise
        _recall_producer(producers, entry, segments)
    return producers.check(batch, transaction_version, with_sequence=with_sequence)


def _recall_producer(producers: ProducerStates, entry: ProducerEntry, segments: Segments) -> None:
    """Goes back in pieces, up to ``REACH_BYTES``, because the wanted batch mostly lies close before the known ones. A
    segment counts as a read at least, however short it is.
    """
    end, left = entry.batches[0].first_offset, REACH_BYTES
    while end > segments[0].base_offset and left > 0 and len(entry.batches) < WINDOW:
        segment = segments[segments.find(end - 1)]
        end, size = recall_batches(producers, segment, end, PIECE_BYTES, entry.producer_id)
        left -= max(size, SCAN_BYTES)
    entry.is_partial = False


def recall_batches(
    producers: ProducerStates,
    segment: Segment,
    end_offset: int,
    reach: int = REACH_BYTES,
    producer_id: int | None = None,
) -> tuple[int, int]:
    """Tells ``producers`` of the batches, or of those of one producer, in the ``reach`` bytes of the segment before
    ``end_offset``, and in what the offset index cannot part from them.

    Returns the offset at which that begins, and its bytes. Raises OSError.
    """
    found: list[Batch] = []
    begin, start, end = segment.base_offset, 0, segment.size
    try:
        start, end = _last_bytes(segment, end_offset, reach)
        for position, batch in segment.batches(start):
            if position >= end:
                break
            if position == start > 0:
                begin = batch.base_offset
            is_asked = batch.producer_id >= 0 if producer_id is None else batch.producer_id == producer_id
            if is_asked and not batch.is_control:
                found.append(batch)
    except MalformedBatch as error:
        logger.warning("%s: the fate of batches in flight may be unknown: %s", segment.path, error)
    producers.recall(found)
    return begin, end - start


def _last_bytes(segment: Segment, end_offset: int, reach: int) -> tuple[int, int]:
    """Where the last ``reach`` bytes before ``end_offset`` lie: from a batch that begins there or earlier."""
    end = segment.position_of(end_offset)
    end = segment.size if end == NO_BATCH else end
    return segment.start_upto(max(0, end - reach)), end


def replay_batch(
    producers: ProducerStates,
    segment_markers: Markers,
    position: int,
    batch: Batch,
    seen_ms: int,
    txn_index: TransactionIndex | None = None,
) -> None:
    """Takes one batch, appended at ``seen_ms`` or before, into ``producers``.

    An aborted transaction is added to ``txn_index``, which the caller saves. Raises MalformedBatch.
    """
    if batch.producer_id < 0:
        return
    if not batch.is_control:
        producers.append(batch, batch.base_offset, batch.last_offset, batch.max_timestamp, seen_ms)
        return
    marker = segment_markers.at(position, batch)
    if marker is not None:
        append_marker(producers, txn_index, batch, marker, batch.base_offset, batch.max_timestamp, seen_ms)


def append_marker(
    producers: ProducerStates,
    txn_index: TransactionIndex | None,
    batch: Batch,
    marker: Marker,
    offset: int,
    timestamp: int,
    seen_ms: int,
) -> bool:
    """Ends the producer's transaction with the marker at ``offset``.

    True where it went into ``txn_index``, as an aborted one. Raises OSError.
    """
    completed = producers.append_marker(batch, marker, offset, timestamp, seen_ms)
    if completed is None:
        return False
    indexed = txn_index is not None and completed.is_aborted
    if txn_index is not None and indexed:
        stable = producers.stable_offset_after(completed)
        txn_index.add(AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable))
    producers.complete(completed)
    return indexed
