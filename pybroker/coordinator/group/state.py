"""The states of a classic group.

    Empty ── a member joins ──► PreparingRebalance ── all have joined ──► CompletingRebalance
      ▲                            │   ▲                                    │         │
      └──── all have left ─────────┘   └── a member joins, leaves, ─────────┤   the leader syncs
                                           or expires                      │         ▼
                                                                            └────── Stable
    Empty ── deleted, or its offsets have expired ──► Dead
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class GroupState(StrEnum):
    """A state, by the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

COMES_FROM: Final[dict[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({EMPTY, COMPLETING, STABLE}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    DEAD: frozenset({EMPTY}),
}
"""The states that may precede each state."""

CAN_REBALANCE: Final = COMES_FROM[PREPARING]
