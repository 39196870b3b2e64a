"""Chooses which paused partitions lose their fetched records. No I/O, no clock.

Records of a paused partition wait in the buffer until ``resume``, perhaps for long. Many such partitions would fill the
buffer, and then nothing could be fetched of the others. So they may take most of the buffer, but not all: the largest
are dropped and fetched again after ``resume``.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyclient.consumer.subscription import PartitionState


def to_drop(states: Iterable[PartitionState], limit: int) -> list[PartitionState]:
    """Returns the partitions whose records are dropped, the largest first. If paused or leaving partitions hold more
    than three quarters of ``limit`` bytes, their records are dropped until they hold half of it. None are dropped if no
    other partition needs room.
    """
    held: list[PartitionState] = []
    others = False
    for state in states:
        if state.paused or state.leaving:
            if state.buffered:
                held.append(state)
        elif state.position is not None:
            others = True
    total = sum(state.buffered for state in held)
    if not others or total <= limit * 3 // 4:
        return []
    held.sort(key=lambda state: state.buffered, reverse=True)
    dropped = []
    for state in held:
        if total <= limit // 2:
            break
        total -= state.buffered
        dropped.append(state)
    return dropped
