"""The result of a read of the log: whole batches, as a part of a file or as bytes."""

from __future__ import annotations

from cy.wire.sendfile import FileSlice


class LogSlice:
    """Batches of one segment, none of them cut.

    ``records`` is a ``FileSlice`` to send by sendfile, or bytes if they had to be converted from an old message
    format, or empty. ``first_offset`` is where the read began; the first batch may begin earlier. No record of the
    slice is at or beyond ``next_offset``, so ``[first_offset, next_offset)`` is the range for aborted transactions.
    """

    __slots__ = ("first_offset", "next_offset", "records", "size")

    def __init__(self, records: FileSlice | bytes, size: int, first_offset: int, next_offset: int) -> None:
        self.records = records
        self.size = size
        self.first_offset = first_offset
        self.next_offset = next_offset

    def read(self) -> bytes:
        """Returns the batches as bytes."""
        return self.records if isinstance(self.records, bytes) else self.records.read()
