"""The class of committed offsets."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to read, the leader epoch of the record before it (-1: unknown), and any text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
