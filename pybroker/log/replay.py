"""Derived state made again from the batches of a log: producers, leader epochs, the transaction
index.
"""

from __future__ import annotations

from cy.batch import Batch
from pybroker.log import marker as markers
from pybroker.log.marker import Marker
from pybroker.log.producer_state import ProducerStates
from pybroker.log.segment import Segment
from pybroker.log.segments import Segments
from pybroker.log.txn_index import AbortedTransaction, TransactionIndex


def replay_producers(producers: ProducerStates, segments: Segments, log_start_offset: int, log_end_offset: int) -> None:
    """Brings ``producers`` to the log's end: the newest sound snapshot, then the batches behind
    it.

    Raises batches.MalformedBatch, OSError.
    """
    start = producers.load(log_start_offset, log_end_offset)
    if start < log_end_offset:
        for number in range(segments.find(start), len(segments)):
            segment = segments[number]
            position = segment.position_of(start) if start > segment.base_offset else 0
            if position >= 0:
                for at, batch in segment.batches(position):
                    replay_batch(producers, segment, at, batch)
    producers.end_offset = log_end_offset


def replay_batch(
    producers: ProducerStates, segment: Segment, position: int, batch: Batch, *, index: bool = False
) -> None:
    """Takes one batch into ``producers``.

    With ``index`` an aborted transaction is added to the segment's index too.
    """
    if batch.producer_id < 0:
        return
    if not batch.is_control:
        producers.append(batch, batch.base_offset, batch.last_offset, batch.max_timestamp)
        return
    marker = markers.decode(segment.read_bytes(position, batch.size))
    if marker is not None:
        txn_index = segment.txn_index if index else None
        append_marker(producers, txn_index, batch, marker, batch.base_offset, batch.max_timestamp)


def append_marker(
    producers: ProducerStates,
    txn_index: TransactionIndex | None,
    batch: Batch,
    marker: Marker,
    offset: int,
    timestamp: int,
) -> None:
    """Ends the producer's transaction with the marker at ``offset``.

    An aborted one goes into the index. Raises OSError.
    """
    completed = producers.append_marker(batch, marker, offset, timestamp)
    if completed is None:
        return
    if txn_index is not None and completed.is_aborted:
        stable = producers.stable_offset_after(completed)
        txn_index.add(AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable))
    producers.complete(completed)
