"""Reads whole batches of a segment for a fetch, as a piece of its file.

**Damage on disk**: the CRCs of bytes that are not trusted (``trust``) are checked before they are served. If one
does not match, the slice ends before that batch; if that batch is the first, CorruptMessage is raised.
"""

from __future__ import annotations

import contextlib
import logging

from cy.batch.legacy import up_convert
from cy.wire.sendfile import FileSlice
from pybroker.log.files.batches import MAGIC_2, VERIFY_BYTES, MalformedBatch, walk, walk_verified
from pybroker.log.files.storage import DataFile
from pybroker.log.segment.log_slice import LogSlice
from pybroker.log.segment.segment import NO_BATCH, Segment
from pyclient.protocol import errors

logger = logging.getLogger(__name__)


def read_slice(
    segment: Segment, offset: int, max_bytes: int, upper_bound: int, end_offset: int, min_one: bool
) -> LogSlice | None:
    """Returns the batches from the one that holds ``offset`` (or the next) up to offset ``upper_bound``.

    Returns None if there is none. ``end_offset`` is where the next segment begins, or the log ends. Raises
    CorruptMessage and OSError.
    """
    file = segment.file
    if file.changed_by_others():
        segment.distrust()
    try:
        return _read(segment, file, offset, max_bytes, upper_bound, end_offset, min_one)
    except MalformedBatch as error:
        logger.error("%s: %s", segment.path, error)
        raise errors.CorruptMessage(f"{segment.path}: {error}") from error


def _read(
    segment: Segment,
    file: DataFile,
    offset: int,
    max_bytes: int,
    upper_bound: int,
    end_offset: int,
    min_one: bool,
) -> LogSlice | None:
    start = segment.position_of(offset)
    if start == NO_BATCH:
        return None
    end, next_offset = segment.size, end_offset
    if upper_bound < end_offset:
        bound = segment.position_of(upper_bound)
        end, next_offset = (bound, upper_bound) if bound != NO_BATCH else (end, upper_bound)
    if not segment.trust.covers(start, min(end, start + max_bytes)):
        max_bytes = min(max_bytes, VERIFY_BYTES)
    if end - start > max_bytes:
        end, next_offset = _whole_batches(segment, start, max_bytes, offset, min_one)
    if end <= start:
        return LogSlice(b"", 0, offset, offset)
    if not segment.trust.covers(start, end):
        return _read_verified(segment, file, offset, start, end, end_offset)
    segment.remember(next_offset, end)
    return LogSlice(FileSlice(file, start, end - start), end - start, offset, next_offset)


def _whole_batches(segment: Segment, start: int, max_bytes: int, offset: int, min_one: bool) -> tuple[int, int]:
    """Finds the batches from ``start`` that fit into ``max_bytes``; returns their end and the offset behind them.
    """
    limit = start + max_bytes
    end, next_offset = start, offset
    try:
        for position, batch in segment.batches(_anchor(segment, start, limit)):
            if position + batch.size > limit:
                if position == start:
                    return (position + batch.size, batch.next_offset) if min_one else (start, offset)
                return position, batch.base_offset
            end, next_offset = position + batch.size, batch.next_offset
    except MalformedBatch:
        if end == start:
            raise
    return end, next_offset


def _anchor(segment: Segment, start: int, limit: int) -> int:
    """Returns where the last indexed batch in ``[start, limit]`` begins, ``start`` if there is none."""
    entry = segment.offset_index.last_upto(limit)
    if entry is None or entry.position <= start:
        return start
    return entry.position if segment.agrees(entry) else start


def _read_verified(segment: Segment, file: DataFile, offset: int, start: int, end: int, end_offset: int) -> LogSlice:
    """Checks the batches, and ends the slice before a damaged one, or where the message format changes."""
    magic = NO_BATCH
    before = stop, next_offset = start, offset
    try:
        for position, batch in walk_verified(file, start, end):
            if magic == NO_BATCH:
                magic = batch.magic
            if (batch.magic == MAGIC_2) != (magic == MAGIC_2):
                break
            before = stop, next_offset
            stop, next_offset = position + batch.size, batch.next_offset
        _check_order(segment, stop, next_offset, end_offset)
    except MalformedBatch as error:
        if error.is_disordered:
            stop, next_offset = before
        if stop == start:
            raise
    if magic != MAGIC_2:
        converted = up_convert(file.read(stop - start, start))
        return LogSlice(converted, len(converted), offset, next_offset)
    segment.trust.add(start, stop)
    segment.remember(next_offset, stop)
    return LogSlice(FileSlice(file, start, stop - start), stop - start, offset, next_offset)


def _check_order(segment: Segment, position: int, next_offset: int, end_offset: int) -> None:
    """Checks that the batches up to ``position`` end below the next batch and segment. Raises MalformedBatch."""
    following = end_offset
    with contextlib.suppress(MalformedBatch):
        for _, batch in walk(segment.file, position, segment.size):
            following = min(batch.base_offset, end_offset)
            break
    if next_offset > following:
        reason = f"offset {following} follows offset {next_offset - 1}"
        raise MalformedBatch(position, reason, is_disordered=True)
