"""Shapes of histories: settings in which a kind of broken protocol shows sooner than in an arbitrary history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from proofs.simulator.world import Outcome, drawn, run


class Shape(NamedTuple):
    """Settings that override those that a seed draws in a room. A room's faults come with the seed."""

    settings: dict[str, Any] = {}
    room: str = ""
    seeds: tuple[int, ...] = ()
    """Seeds that have found a defect which few others find; they run first."""

    def run(self, seed: int) -> Outcome:
        """Runs one history of the shape."""
        return run(seed, replace(drawn(seed, self.room), **self.settings))

    def failure(self, histories: int) -> str:
        """Returns the first violation in histories of the shape, or ""."""
        outcomes = map(self.run, (*self.seeds, *range(histories)))
        return next((f"found {each.text} (seed {each.seed})" for each in outcomes if each.invariant), "")


CRASHES: dict[str, Any] = {
    "writers": 2,
    "weak_writers": 0,
    "batches": 12,
    "transactional": 0,
    "min_isr": 2,
    "has_own_min_isr": False,
    "brokers": 3,
    "duration_s": 1.0,
    "fault_every_s": 0.1,
    "faults": frozenset({"kill", "isolate", "pause", "expire", "stop", "cut"}),
}
FEW = {**CRASHES, "faults": frozenset({"kill", "isolate"})}
POWER = {**CRASHES, "duration_s": 2.0, "faults": frozenset({"power", "kill"})}
DIVERGING = {
    **CRASHES,
    "weak_writers": 3,
    "writers": 0,
    "batches": 25,
    "duration_s": 2.0,
    "pause_s": 0.03,
    "fault_every_s": 0.08,
    "faults": frozenset({"kill", "expire", "elect", "isolate"}),
}
HASTE = {**CRASHES, "fault_every_s": 0.05, "faults": frozenset({"elect", "slow", "pause", "kill", "stop"})}
COMMITS: dict[str, Any] = {
    "writers": 0,
    "weak_writers": 0,
    "transactional": 2,
    "transactions": 8,
    "duration_s": 1.2,
    "partitions": 2,
    "min_isr": 2,
    "pause_s": 0.02,
    "fault_every_s": 0.1,
    "brokers": 3,
    "faults": frozenset({"stall", "cut", "kill", "pause"}),
}
LATE = {
    **COMMITS,
    "transactions": 20,
    "duration_s": 4.0,
    "delivery_timeout_s": 20.0,
    "faults": frozenset({"slow"}),
    "slow_chance": 0.05,
    "slow_s": 3.0,
}
GROUPS = {
    **CRASHES,
    "writers": 0,
    "classic_members": 3,
    "modern_members": 2,
    "faults": frozenset({"kill", "isolate", "pause", "expire"}),
}
DELETIONS = {
    **GROUPS,
    "duration_s": 1.5,
    "fault_every_s": 0.08,
    "lives": 1,
    "is_stopped": False,
    "faults": frozenset({"delete topic", "kill", "isolate", "expire"}),
}
REMADE = {"batches": 8, "duration_s": 0.8, "faults": frozenset({"delete topic"})}

SHAPES = {
    "crashes": Shape(CRASHES, seeds=(11, 4, 19, 166)),
    "mixed min.insync.replicas": Shape({**FEW, "has_own_min_isr": True, "has_mixed_min_isr": True}),
    "no min.insync.replicas": Shape({**FEW, "min_isr": 1, "fault_every_s": 0.08}, seeds=(30,)),
    "power": Shape(POWER, seeds=(9,)),
    "much power": Shape({**POWER, "fault_every_s": 0.08}),
    "synced power": Shape({**POWER, "flush_acks": True}),
    "diverging logs": Shape(DIVERGING, seeds=(60, 81)),
    "synced cuts": Shape({**DIVERGING, "flush_acks": True}, "threads"),
    "haste": Shape(HASTE),
    "moves": Shape({**CRASHES, "brokers": 4, "faults": frozenset({"reassign", "isolate", "kill"})}),
    "commits": Shape(COMMITS, seeds=(0, 8, 24)),
    "zombies": Shape({**COMMITS, "has_zombies": True}),
    "late answers": Shape(LATE, seeds=(128, 190, 19)),
    "groups": Shape(GROUPS),
    "groups of deleted topics": Shape(DELETIONS, "topics"),
    "rights": Shape({**CRASHES, "guests": 6}),
    "topics": Shape(room="topics", seeds=(8,)),
    "topics of one name": Shape(REMADE, "topics"),
    "hangs": Shape(room="hangs"),
    "first start": Shape(room="first start"),
    "unmounted disks": Shape(room="unmounted disks", seeds=(7,)),
    "empty store": Shape(room="empty store", seeds=(41,)),
    "restored store": Shape(room="restored store", seeds=(38,)),
}
