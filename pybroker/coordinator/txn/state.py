"""The states of a transactional id, and which may follow which.

    Empty          ─┐ partitions are added       EndTxn             all markers are written
    CompleteCommit ─┼───────────► Ongoing ─┬────► PrepareCommit ─────────► CompleteCommit
    CompleteAbort  ─┘                      ├────► PrepareAbort ──────────► CompleteAbort
          │                                │
          └────────────────────────────────┘ EndTxn(abort) of transactions v2, whose producers need not know
                                             whether anything was added

InitProducerId leads from the three on the left to Empty; expiry leads to Dead, which is never written, because the id
is deleted. PrepareEpochFence (a new producer, or a timeout, fences the old one) is not written either: here it and the
following PrepareAbort are one step.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """A state; the number is the one in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that clients see: ``CompleteCommit``."""
        return LABELS[self]


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

LABELS: Final = {
    state: "".join(word.capitalize() for word in state.name.split("_"))
    for state in TransactionState
}
BY_LABEL: Final = {label: state for state, label in LABELS.items()}

IDLE: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open: one may begin, or the id may expire."""

PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The outcome is decided and markers are being written."""

COMES_FROM: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: IDLE,
    ONGOING: IDLE | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: IDLE | {ONGOING, PREPARE_EPOCH_FENCE},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: IDLE,
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
"""The states that may precede each state."""
