"""Broken protocols, which the simulator must find out: those that Kafka once had, and slips that are easy to make.

``broken`` says what each of them replaces; production knows nothing of it. Here is which invariants may name it
(what breaks first depends on the seed) and which settings bring it out. ``HISTORIC`` are those that have a KIP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from pybroker.testing.simulator import broken
from pybroker.testing.simulator.environment import Patch, patched
from pybroker.testing.simulator.world import Outcome, World, drawn

Shape = dict[str, Any]

LOGS = frozenset({"agreement", "durability", "isr", "min.insync", "ack", "watermark", "sequence", "settles"})
LEADERS = LOGS | {"one leader"}
TRANSACTIONS = frozenset({"transaction", "reading", "settles", "durability", "isr"})
TWICE = frozenset({"duplicate", "order"})

CRASHES: Shape = {
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
MIXED: Shape = {**CRASHES, "has_own_min_isr": True, "has_mixed_min_isr": True, "faults": frozenset({"kill", "isolate"})}
POWER: Shape = {**CRASHES, "duration_s": 2.0, "fault_every_s": 0.1, "faults": frozenset({"power", "kill"})}
DIVERGE: Shape = {
    **CRASHES,
    "weak_writers": 3,
    "writers": 0,
    "batches": 25,
    "duration_s": 2.0,
    "pause_s": 0.03,
    "fault_every_s": 0.08,
    "faults": frozenset({"kill", "expire", "elect", "isolate"}),
}
MOVES: Shape = {**CRASHES, "brokers": 4, "faults": frozenset({"reassign", "isolate", "kill"})}
HASTE: Shape = {**CRASHES, "fault_every_s": 0.05, "faults": frozenset({"elect", "slow", "pause", "kill", "stop"})}
COMMITS: Shape = {
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
LATE: Shape = {
    **COMMITS,
    "transactions": 20,
    "duration_s": 4.0,
    "delivery_timeout_s": 20.0,
    "faults": frozenset({"slow"}),
    "slow_chance": 0.05,
    "slow_s": 3.0,
}


class Mutant(NamedTuple):
    """A broken protocol: ``patches()`` breaks it, one of ``named_by`` must say so."""

    name: str
    patches: Callable[[], list[Patch]]
    named_by: frozenset[str] = LOGS
    shape: Shape = CRASHES
    seed: int = 0
    """One in which it is found out, as long as nothing else changes; -1 where that takes thousands."""

    def run(self, seed: int) -> Outcome:
        """One history of it."""
        settings = replace(drawn(seed), **self.shape)
        with patched(self.patches()):
            return World(seed, settings).run()

    def caught(self, seeds: Iterable[int]) -> Outcome | None:
        """The first history in which an invariant does not hold."""
        for seed in seeds:
            outcome = self.run(seed)
            if outcome.invariant:
                return outcome
        return None


HISTORIC = (
    Mutant("KIP-101", broken.truncate_to_watermark, seed=13),
    Mutant("KIP-279", broken.own_epoch_only, shape=DIVERGE, seed=66),
    Mutant("KIP-966", broken.last_replica, shape=POWER),
    Mutant("KIP-890", broken.shared_epoch, TRANSACTIONS, {**LATE, "has_old_clients": True}, seed=11),
    Mutant("KIP-1228", broken.late_markers, TRANSACTIONS, LATE, seed=97),
)

MUTANTS = (
    Mutant("watermark without followers", broken.ignores_members),
    Mutant("watermark without the proposed", broken.ignores_proposed, seed=83),
    Mutant("ack at once", broken.ack_at_once),
    Mutant("shrink at once", broken.shrinks_at_once),
    Mutant("expand too soon", broken.expands_too_soon),
    Mutant("min.insync ignored", broken.any_min_insync),
    Mutant("largest min.insync", broken.largest_min_insync, shape=MIXED),
    Mutant("watermark falls", broken.falls_with_epoch),
    Mutant("epoch not bumped", broken.same_epoch, LEADERS),
    Mutant(
        "unclean election",
        broken.unclean,
        shape={**CRASHES, "min_isr": 1, "fault_every_s": 0.08, "faults": frozenset({"kill", "isolate"})},
        seed=30,
    ),
    Mutant("proposals not checked", broken.no_partition_epochs, LEADERS, HASTE, seed=-1),
    Mutant("machines forgotten", broken.forgets_machines, shape=POWER),
    Mutant("registered too late", broken.follows_too_soon, LEADERS, {**POWER, "fault_every_s": 0.08}, seed=-1),
    Mutant("moves in one epoch", broken.keeps_epoch_of_moves, shape=MOVES, seed=-1),
    Mutant("divergence ignored", broken.never_cuts, seed=18),
    Mutant("cut too far", broken.starts_over, shape=DIVERGE),
    Mutant("duplicates forgotten", broken.forgets_duplicates, LOGS | TWICE),
    Mutant("recovered to checkpoint", broken.recovers_to_checkpoint),
    Mutant("sync forgotten", broken.unsynced, shape={**POWER, "flush_acks": True}),
    Mutant("any EndTxn", broken.any_end_txn, TRANSACTIONS, COMMITS),
    Mutant("markers too soon", broken.effects_at_once, TRANSACTIONS, COMMITS, -1),
    Mutant("coordinator without memory", broken.loads_nothing, TRANSACTIONS, COMMITS),
    Mutant("prepared forgotten", broken.ends_nothing_loaded, TRANSACTIONS, COMMITS),
    Mutant("markers once", broken.gives_up_markers, TRANSACTIONS, COMMITS),
    Mutant("zombies", broken.owners_share, TRANSACTIONS | TWICE, {**COMMITS, "has_zombies": True}),
    Mutant("unverified", broken.unverified, TRANSACTIONS, COMMITS),
    Mutant("aborted unnamed", broken.aborted_unnamed, TRANSACTIONS, COMMITS),
    Mutant("stable offset ignored", broken.reads_uncommitted, TRANSACTIONS, COMMITS),
)
