"""Checks whether the records that were read are still in the leader's log (KIP-320). No I/O, no clock; used under the
consumer's lock.

A new leader may lack records that a consumer has read (after an unclean election, or a lost log), and have others at
their offsets. A place in a log is therefore an offset and the leader epoch of the record before it. When a partition's
leader epoch changes, or a place comes from elsewhere (a committed offset), the place is doubtful. The leader then says
where its log of that epoch ends. If that is before the place, the log was truncated; otherwise the place is valid.
``proven`` is the last leader epoch for which it was valid.

Records that were fetched but not returned are checked first: if they are doubtful, they are dropped. Then the position
itself is checked.
"""

from __future__ import annotations

from typing import NamedTuple

from pyclient.consumer.subscription import PartitionState
from pyclient.offset_and_metadata import OffsetAndMetadata


class EpochEnd(NamedTuple):
    """The leader's answer: its latest epoch up to the requested one, and where that ends; -1 if it has none."""

    epoch: int
    offset: int

    @property
    def is_known(self) -> bool:
        """Whether the leader's log has an epoch up to the requested one."""
        return self.epoch >= 0 and self.offset >= 0


class Truncation(NamedTuple):
    """The application was given records before ``offset`` that the leader does not have."""

    offset: int
    divergent: OffsetAndMetadata | None
    """The first offset at which the leader's log may differ from the records that were read; None if unknown."""


def is_doubtful(state: PartitionState, leader_epoch: int) -> bool:
    """Returns whether the leader of this epoch (-1: unknown) must be asked before the next fetch."""
    return leader_epoch >= 0 and state.fetch_epoch >= 0 and state.proven != leader_epoch


def judge(state: PartitionState, leader_epoch: int, end: EpochEnd) -> Truncation | None:
    """Handles the answer of the leader of this epoch about the place of the next fetch."""
    if end.is_known and end.offset >= state.fetch_offset:
        state.proven = leader_epoch
        state.fetch_epoch = min(state.fetch_epoch, end.epoch)
        return None
    if state.position is None:
        return None
    if state.fetch_offset != state.position:
        state.rewind()
        return None
    divergent = OffsetAndMetadata(end.offset, end.epoch) if end.is_known else None
    return Truncation(state.position, divergent)


def follow(state: PartitionState, leader_epoch: int, truncation: Truncation) -> bool:
    """Goes back to the offset where the logs diverge. Returns whether it is known."""
    if truncation.divergent is None:
        return False
    state.seek(truncation.divergent.offset, truncation.divergent.leader_epoch)
    state.proven = leader_epoch
    return True
