"""A committed offset."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to read, the epoch of the leader that gave the one before (-1:
    not known), and any text.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
