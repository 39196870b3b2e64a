"""Defects of elections: which replica may lead, and in which epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proofs.defects import Patch
from proofs.defects.suites import LOGS, in_histories, in_trial
from pybroker.cluster.decisions import elections, isr_changes, reassignments
from pybroker.cluster.decisions.elections import Standing
from pybroker.cluster.following import newest
from pybroker.cluster.membership import Membership
from pybroker.cluster.nodes.loading import load_deleted

LEADERS = (*LOGS, "one leader")


@in_histories("power", *LOGS)
def the_last_replica_in_sync_leads_again() -> list[Patch]:
    """The controller elects a replica that has lost records that were not synced (KIP-966)."""
    without_unfit = elections._without_unfit

    def trusted(partition: Any, lost: Any) -> tuple[Any, Any]:
        return partition.isr, partition.elr

    def without(partition: Any, fit: Any, lost: Any, min_isr: int) -> Any:
        return without_unfit(partition, fit, (), min_isr)

    return [(elections, "_trusted", trusted), (elections, "_without_unfit", without)]


@in_histories("crashes", *LEADERS)
def a_new_leader_keeps_the_epoch() -> list[Patch]:
    """Two leaders lead in the same epoch."""
    led = elections._led

    def led_on(partition: Any, leader: int, isr: Any, elr: Any) -> Any:
        return replace(led(partition, leader, isr, elr), leader_epoch=partition.leader_epoch)

    return [(elections, "_led", led_on)]


@in_trial("laggard", "lost")
@in_histories("no min.insync.replicas", *LOGS)
def elects_anybody() -> list[Patch]:
    """The controller elects any live broker."""
    elect = elections.elect

    def unclean(partition: Any, alive: Any, **options: Any) -> Any:
        return elect(partition, alive, **options | {"unclean": True})

    return [(elections, "elect", unclean)]


@in_trial("laggard", "lost")
def keeps_everybody_eligible() -> list[Patch]:
    """The controller may elect every replica out of sync."""

    def eligible(partition: Any, isr: Any, lost: Any, min_isr: int) -> Any:
        return tuple(broker for broker in partition.replicas if broker not in isr)

    return [(elections, "_eligible", eligible)]


@in_histories("haste", *LEADERS, rarely=True)
def believes_every_proposal() -> list[Patch]:
    """The controller accepts an AlterPartition request from a former leader, or one that adds a dead broker."""
    return [(isr_changes, "_check", lambda *_: None)]


@in_histories("power", *LOGS)
def forgets_machines() -> list[Patch]:
    """A machine restarts while its broker is away and loses unsynced data. The controller treats the broker as if it
    had lost nothing.
    """
    of = Standing.of

    def of_machines(cls: Any, brokers: Any, known: Any, boots: Any) -> Standing:
        return of(brokers, known, {id: broker.boot for id, broker in known.items()})

    return [(Standing, "of", classmethod(of_machines))]


@in_histories("much power", *LEADERS, rarely=True)
def follows_too_soon() -> list[Patch]:
    """A broker serves metadata in which it is not registered."""

    async def follow(self: Membership) -> bool:
        if self._cache.image.version == 0:
            image = await newest(self._store, self._cache.image)
            await self._service.follow(image, await load_deleted(self._store))
        self._following.start()
        return True

    return [(Membership, "_follow", follow)]


@in_histories("moves", *LOGS, rarely=True)
def keeps_the_epoch_of_moves() -> list[Patch]:
    """A fetch that a removed replica has sent counts when the broker has become a replica again."""
    return [(reassignments, "fenced", lambda before, after: after)]


@in_histories("hangs", "leads")
def sessions_of_the_dead() -> list[Patch]:
    """The session of a broker whose loop hangs does not expire."""
    from proofs.simulator.machines.store import SimulatedStore

    return [(SimulatedStore, "halted", lambda *_: None)]
