"""Walks over the batches in a ``.log`` file, header by header, without building a record.

A message of format 0 or 1 counts as a batch (see ``cy.batch``). A length is believed only if the batch ends
within the file, so a damaged header allocates no memory. The CRC does not cover the base offset, because the broker
writes it; a damaged base offset shows because offsets must ascend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cy.batch import HEADER_SIZE, Batch, CorruptBatch, check_crc, read_header, scan
from pybroker.log.files.storage import DataFile

SCAN_BYTES = 8192
VERIFY_BYTES = 1 << 20
MAGIC_2 = 2


class Located(NamedTuple):
    """A batch and its place in the file."""

    position: int
    batch: Batch

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.batch.size


class MalformedBatch(ValueError):
    """Raised if the bytes at ``position`` are not a whole, undamaged batch."""

    def __init__(
        self,
        position: int,
        reason: str,
        *,
        size: int = 0,
        is_cut: bool = False,
        is_disordered: bool = False,
    ) -> None:
        super().__init__(f"{reason} at position {position}")
        self.position = position
        self.size = size
        """The size of the batch if only its content is damaged; 0 if its framing is damaged too."""
        self.is_cut = is_cut
        """True if the file ends before the batch does."""
        self.is_disordered = is_disordered
        """True if offsets do not ascend: the offset of this batch or of the one before it is wrong."""


def walk(file: DataFile, position: int, end: int) -> Iterator[Located]:
    """Yields the batches from ``position``, where one must begin, to ``end``. Raises MalformedBatch."""
    above = -1
    while position < end:
        data = file.read(min(SCAN_BYTES, end - position), position)
        batches = scan(data) or [_header(data, position, end)]
        for batch in batches:
            _check_offsets(position, batch, above)
            above = batch.last_offset
            yield Located(position, batch)
            position += batch.size


def walk_verified(file: DataFile, position: int, end: int, trust_before: int = 0) -> Iterator[Located]:
    """Yields batches as ``walk`` does, but checks CRCs. Raises MalformedBatch.

    Batches whose offsets are all below ``trust_before``, by their headers, are not checked.
    """
    above = -1
    while position < end:
        data = file.read(min(VERIFY_BYTES, end - position), position)
        batches = scan(data, check_crcs=trust_before <= 0)
        if not batches:
            data = _whole_batch(file, data, position, end)
            batches = [read_header(data)]
        for batch in batches:
            is_trusted = max(batch.base_offset, batch.last_offset) < trust_before
            if not is_trusted and not check_crc(data, batch.position, batch):
                raise MalformedBatch(position, "the CRC does not match", size=batch.size)
            _check_offsets(position, batch, above)
            above = batch.last_offset
            yield Located(position, batch)
            position += batch.size


def first_reaching(file: DataFile, position: int, end: int, offset: int) -> Located | None:
    """Returns the first batch from ``position`` whose last offset is at least ``offset``, None if there is none."""
    for located in walk(file, position, end):
        if located.batch.last_offset >= offset:
            return located
    return None


def _check_offsets(position: int, batch: Batch, above: int) -> None:
    if batch.base_offset <= above:
        reason = f"offset {batch.base_offset} follows offset {above}"
        raise MalformedBatch(position, reason, size=batch.size, is_disordered=True)
    if batch.last_offset < batch.base_offset:
        reason = f"the last offset {batch.last_offset} is below the first one {batch.base_offset}"
        raise MalformedBatch(position, reason, size=batch.size)


def _header(data: bytes, position: int, end: int) -> Batch:
    try:
        batch = read_header(data)
    except CorruptBatch as error:
        raise MalformedBatch(position, str(error), is_cut=end - position < HEADER_SIZE) from error
    if position + batch.size > end:
        raise MalformedBatch(position, f"batch of {batch.size} bytes is cut by the end of the file", is_cut=True)
    return batch


def _whole_batch(file: DataFile, data: bytes, position: int, end: int) -> bytes:
    """Returns the bytes of the batch at ``position``; ``data`` begins with it, but may cut it."""
    size = _header(data, position, end).size
    return data if size <= len(data) else file.read(size, position)
