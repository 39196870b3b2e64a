"""Broken protocols, which the simulator must find out: those that Kafka once had, and slips that are easy to make.

``broken`` says what each of them replaces; production knows nothing of it. Here is which invariants may name it
(what breaks first depends on the seed) and which settings bring it out. ``HISTORIC`` are those that have a KIP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from pybroker.testing.defects import coordinator, internal_topics, membership, replication, strays
from pybroker.testing.simulator import broken
from pybroker.testing.simulator.environment import Patch, patched
from pybroker.testing.simulator.world import Outcome, World, drawn

Shape = dict[str, Any]

LOGS = frozenset({"agreement", "durability", "isr", "min.insync", "ack", "watermark", "sequence", "settles", "kept"})
LEADERS = LOGS | {"one leader"}
TRANSACTIONS = frozenset({"transaction", "reading", "settles", "durability", "isr"})
KEPT = frozenset({"kept"})
RESTLESS = frozenset({"restless", "stops", "settles"})
LEADS, FACTOR = frozenset({"leads"}), frozenset({"factor"})
MEMBERS = frozenset({"one owner", "offsets", "answered", "settles"})
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
SYNCED: Shape = {**DIVERGE, "flush_acks": True}
REMADE: Shape = {"batches": 8, "duration_s": 0.8, "faults": frozenset({"delete topic"})}
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
RESTORED, FIRST, UNMOUNTED = "restored store", "first start", "unmounted disks"
GROUPS: Shape = {
    **CRASHES,
    "writers": 0,
    "classic_members": 3,
    "modern_members": 2,
    "faults": frozenset({"kill", "isolate", "pause", "expire"}),
}
DELETIONS: Shape = {
    **GROUPS,
    "duration_s": 1.5,
    "fault_every_s": 0.08,
    "lives": 1,
    "is_stopped": False,
    "faults": frozenset({"delete topic", "kill", "isolate", "expire"}),
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
    room: str = ""
    """Of ``settings.ROOMS``; its faults come with the seed, not with the shape."""

    def run(self, seed: int) -> Outcome:
        """One history of it."""
        settings = replace(drawn(seed, self.room), **self.shape)
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
    Mutant("KIP-1228", broken.late_markers, TRANSACTIONS, LATE, seed=357),
)

MUTANTS = (
    Mutant("watermark without followers", broken.ignores_members),
    Mutant("watermark without the proposed", broken.ignores_proposed, seed=166),
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
    Mutant("cut too far", broken.starts_over, shape=DIVERGE, seed=-1),
    Mutant("duplicates forgotten", broken.forgets_duplicates, LOGS | TWICE),
    Mutant("recovered to checkpoint", broken.recovers_to_checkpoint),
    Mutant("sync forgotten", broken.unsynced, shape={**POWER, "flush_acks": True}),
    Mutant("any EndTxn", broken.any_end_txn, TRANSACTIONS, COMMITS),
    Mutant("markers too soon", broken.effects_at_once, TRANSACTIONS, COMMITS, -1),
    Mutant("coordinator without memory", broken.loads_nothing, TRANSACTIONS, COMMITS),
    Mutant("prepared forgotten", broken.ends_nothing_loaded, TRANSACTIONS, COMMITS),
    Mutant("markers once", broken.gives_up_markers, TRANSACTIONS, COMMITS, seed=78),
    Mutant("zombies", broken.owners_share, TRANSACTIONS | TWICE, {**COMMITS, "has_zombies": True}),
    Mutant("unverified", broken.unverified, TRANSACTIONS, COMMITS),
    Mutant("aborted unnamed", broken.aborted_unnamed, TRANSACTIONS, COMMITS),
    Mutant("stable offset ignored", broken.reads_uncommitted, TRANSACTIONS, COMMITS),
    Mutant("sessions of the dead", broken.sessions_of_the_dead, LEADS, {}, 0, "hangs"),
    Mutant("factor of the first", internal_topics.internal_topics_take_what_brokers_there_are, FACTOR, {}, 0, FIRST),
    Mutant("mount point is new", strays.a_mount_point_without_its_disk_is_a_new_log_dir, KEPT, {}, 7, UNMOUNTED),
    Mutant("greedy retention", broken.keeps_no_limit, frozenset({"retention"}), {}, 8, "topics"),
    Mutant("topics share a log", broken.topics_share_a_log, LOGS | {"resurrection"}, REMADE, 0, "topics"),
    Mutant("cut counts as synced", broken.cuts_stay_synced, frozenset({"synced"}), SYNCED, 0, "threads"),
    Mutant("no pause", membership.a_candidate_asks_an_empty_store_without_a_pause, RESTLESS, {}, 41, "empty store"),
    Mutant("offsets told at once", broken.tells_at_once, MEMBERS, GROUPS),
    Mutant("groups without memory", broken.loads_nothing, MEMBERS, GROUPS),
    Mutant("answers swallowed", broken.swallows_answers, MEMBERS, GROUPS, 1),
    Mutant(
        "offsets of former topics",
        coordinator.offsets_count_for_a_topic_that_was_made_again,
        MEMBERS,
        DELETIONS,
        2,
        "topics",
    ),
    Mutant("watermark told once", replication.a_high_watermark_is_told_once, LOGS, {}, -1, "topics"),
    Mutant("missing is deleted", strays.what_an_image_read_anew_lacks_counts_as_deleted, KEPT, {}, 38, RESTORED),
    Mutant(
        "name is enough", strays.a_new_topic_of_a_name_deletes_the_log_of_the_old_one, KEPT, {}, 0, "restored store"
    ),
)
