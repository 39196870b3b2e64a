"""Summarises a log for comparison: the end of each batch, and a digest of all records up to there.

Two logs are identical up to an offset if their digests there are. So the oracle reads no bytes twice.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator

from pybroker.log.files.storage import Bytes

_header = struct.Struct(">qii")
_END_DELTA = struct.Struct(">i")
OVERHEAD, DELTA_AT = 12, 23


class Chain:
    """The batches of a log, from offset 0."""

    __slots__ = ("batches", "digests", "ends")

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.digests: list[int] = []
        self.batches: list[bytes] = []

    @property
    def end(self) -> int:
        """The offset after the last batch."""
        return self.ends[-1] if self.ends else 0

    def index(self, offset: int) -> int:
        """Counts the batches that end at or before the offset."""
        return bisect_right(self.ends, offset)

    def digest_at(self, offset: int) -> int | None:
        """Returns the digest up to an offset, or None if no batch ends there."""
        count = self.index(offset)
        if count == 0:
            return 0 if offset == 0 else None
        return self.digests[count - 1] if self.ends[count - 1] == offset else None

    def agrees(self, other: Chain, offset: int) -> bool:
        """Returns whether both are identical below the offset, which both have."""
        mine = self.digest_at(offset)
        return mine is not None and mine == other.digest_at(offset)

    def common_end(self, other: Chain) -> int:
        """Returns the offset up to which both are identical."""
        return next((end for end in reversed(self.ends) if self.agrees(other, end)), 0)

    def add(self, batch: bytes, end: int) -> None:
        """Appends a batch to the chain."""
        self.digests.append(hash((self.digests[-1] if self.digests else 0, batch)))
        self.ends.append(end)
        self.batches.append(batch)

    def add_all(self, data: Bytes) -> None:
        """Appends the batches in ``data`` to the chain."""
        for batch, end in split(data):
            self.add(batch, end)

    def take(self, other: Chain, offset: int) -> None:
        """Takes over the other chain's batches up to the offset."""
        for number in range(len(self.ends), other.index(offset)):
            self.ends.append(other.ends[number])
            self.digests.append(other.digests[number])
            self.batches.append(other.batches[number])

    def forget_below(self, other: Chain, offset: int) -> None:
        """Lets the log begin at the offset. Below it, the batches of the other chain stand in for the deleted ones."""
        count, others = self.index(offset), other.index(offset)
        if count == others and self.digests[:count][-1:] == other.digests[:others][-1:]:
            return
        kept = list(zip(self.batches[count:], self.ends[count:], strict=True))
        self.cut(0)
        self.take(other, offset)
        for batch, end in kept:
            self.add(batch, end)

    def cut(self, offset: int) -> None:
        """Removes the batches that end after the offset."""
        count = self.index(offset)
        del self.ends[count:], self.digests[count:], self.batches[count:]

    def copy(self) -> Chain:
        """Returns a copy."""
        chain = Chain()
        chain.ends, chain.digests, chain.batches = self.ends[:], self.digests[:], self.batches[:]
        return chain

    def __repr__(self) -> str:
        epochs = [f"{end}@{_header.unpack_from(batch)[2]}" for end, batch in zip(self.ends, self.batches, strict=True)]
        digest = zlib.crc32(b"".join(self.batches)) if self.batches else 0
        return f"[{' '.join(epochs)}] {digest:08x}"


def split(data: Bytes) -> Iterator[tuple[bytes, int]]:
    """Yields the whole batches in ``data``, each with the offset after it."""
    position = 0
    while len(data) - position >= OVERHEAD:
        base, length, _ = _header.unpack_from(data, position)
        size = OVERHEAD + length
        if position + size > len(data):
            return
        delta = _END_DELTA.unpack_from(data, position + DELTA_AT)[0]
        yield bytes(data[position : position + size]), base + delta + 1
        position += size
