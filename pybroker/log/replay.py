"""Rebuilds the state that is derived from a log's batches: the producers and the transaction index.

Batch headers are enough, except for markers: only their bytes tell commit from abort. Many markers are close
together, so their bytes are read in pieces and not one by one.
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
    """Reads the markers of one segment, in the order of their batches."""

    __slots__ = ("_piece", "_segment", "_start")

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._start = 0
        self._piece = b""

    def at(self, position: int, batch: Batch) -> Marker | None:
        """Returns the marker in the control batch at ``position``. Raises MalformedBatch, OSError."""
        begin = position - self._start
        if begin < 0 or begin + batch.size > len(self._piece):
            length = min(max(PIECE_BYTES, batch.size), self._segment.size - position)
            self._piece = self._segment.read_bytes(position, length)
            self._start, begin = position, 0
        try:
            return markers.decode(self._piece[begin : begin + batch.size])
        except (CorruptBatch, InvalidBatch) as error:
            raise MalformedBatch(position, f"the control batch has no marker: {error}", size=batch.size) from error


REACH_BYTES = 1 << 20


def reach_of(segments: Segments, end_offset: int) -> int:
    """Returns the offset from which producers are replayed after an unclean stop.

    A snapshot knows only the last batch of each producer, but a producer may send all batches again that were in
    flight. So all segments that fit whole into the last ``REACH_BYTES`` are always read. ``recall_batches`` reads the
    end of a longer segment.
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
    """Brings ``producers`` up to the log's end.

    Loads the newest sound snapshot, at or before ``reach`` if that is given, and replays the batches behind it. With
    ``reach``, it also recalls recent batches that a snapshot does not hold. Raises batches.MalformedBatch, OSError.
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
    """Returns the state of ``producers`` as it would be after a truncation to ``offset``; changes nothing.

    Raises batches.MalformedBatch, OSError.
    """
    found, pieces = reading_producers(producers, segments, log_start_offset, offset)
    for _ in pieces:
        pass
    return found


def reading_producers(
    producers: ProducerStates, segments: Segments, log_start_offset: int, offset: int
) -> tuple[ProducerStates, Iterator[None]]:
    """Does ``producers_at`` in pieces: the returned state is complete when the iterator has ended.

    Each step reads for about a millisecond, and raises the errors of ``producers_at``.
    """
    found = producers.before(offset)
    return found, _replay_in_pieces(found, segments, min(log_start_offset, offset), offset)


def duplicate_of(
    producers: ProducerStates, segments: Segments, batch: Batch, transaction_version: int, with_sequence: bool
) -> BatchMetadata | None:
    """Does ``ProducerStates.check``, but looks duplicates up in the log if only the last batch is known.

    Only the last batch is known after a clean stop. Then a producer may send an earlier batch again, because its
    acknowledgement was lost; Kafka takes that batch for a gap. Raises what ``check`` raises, and OSError.
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
    """Reads a producer's earlier batches, back to ``REACH_BYTES`` before the known ones.

    It reads in pieces, because the wanted batch is usually close. Each piece counts at least ``SCAN_BYTES``, so that
    many short segments do not take long.
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
    """Adds the batches, or those of one producer, in the last ``reach`` bytes before ``end_offset`` to ``producers``.

    It begins at an entry of the offset index, so it may read a little more. Returns the offset at which it began, and
    the bytes that it read. Raises OSError.
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
        logger.warning("%s is damaged, so duplicates of batches in it may not be detected: %s", segment.path, error)
    producers.recall(found)
    return begin, end - start


def _last_bytes(segment: Segment, end_offset: int, reach: int) -> tuple[int, int]:
    """Returns the positions of the last ``reach`` bytes before ``end_offset``, extended to the start of a batch."""
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
    """Adds one batch, appended at ``seen_ms`` or before, to ``producers``.

    Adds an aborted transaction to ``txn_index``, which the caller saves. Raises MalformedBatch.
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

    Returns True if it was aborted and so was added to ``txn_index``. Raises OSError.
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
