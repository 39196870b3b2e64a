"""Draws faults from time to time, and ends each a while later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from proofs.simulator.faults.administrator import Administrator
from proofs.simulator.faults.disk_faults import DiskFaults
from proofs.simulator.faults.hangs import Hangs
from proofs.simulator.faults.stranger import Stranger
from proofs.simulator.machines.cluster import Cluster
from proofs.simulator.machines.store import STORE
from proofs.simulator.settings import FAULTS, Settings
from pybroker.cluster.decisions.reassignments import Reassignment
from pybroker.store.interface import CoordinationError
from pyclient.protocol.errors import KafkaError


class Faults:
    """Draws faults, until ``end``."""

    def __init__(self, cluster: Cluster, settings: Settings, rng: Random) -> None:
        self.cluster = cluster
        self.settings = settings
        self.rng = rng
        self.clients: list[int] = []
        """The clients' places in the network."""
        self.counts: dict[str, int] = {}
        self.has_ended = False
        self.stranger = Stranger(self)
        self.administrator = Administrator(self)
        self.disks = DiskFaults(self)
        self._kinds = sorted(settings.faults)
        self._strikes: dict[str, Callable[[], None]] = {
            **{kind: getattr(self, f"_{kind}") for kind in FAULTS},
            **self.stranger.kinds,
            **self.administrator.kinds,
            **Hangs(self).kinds,
            **self.disks.kinds,
        }

    def begin(self) -> None:
        """Begins with the faults."""
        self.later(self._next, self.settings.fault_every_s)

    def end(self) -> None:
        """Ends all faults, and repairs everything."""
        self.has_ended = True
        cluster = self.cluster
        cluster.note("faults end")
        cluster.network.slow.clear()
        cluster.heal()
        self.stranger.end()
        self.disks.end()
        for machine in cluster.machines.values():
            if machine.process is None:
                cluster.start(machine.node_id)
            else:
                machine.process.loop.go_on()

    def mend(self) -> None:
        """Starts stopped brokers, and creates missing topics."""
        if self.settings.room == "topics":
            self.administrator.mend()
        for machine in self.cluster.machines.values():
            if machine.process is None:
                self.cluster.start(machine.node_id)

    def later(self, work: Callable[[], object], mean_s: float) -> None:
        """Calls ``work`` once, a random time later, unless the faults have ended by then."""
        self.cluster.scheduler.after(self.rng.expovariate(1 / mean_s), self._unless_over, work)

    def _unless_over(self, work: Callable[[], object]) -> None:
        if not self.has_ended:
            work()

    def _next(self) -> None:
        kind = self.rng.choice(self._kinds)
        self._strikes[kind]()
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.later(self._next, self.settings.fault_every_s)

    def some_broker(self) -> int:
        """Picks any broker. The controller and leaders get no preference."""
        return self.rng.choice(list(self.cluster.machines))

    # Processes

    def _kill(self, node_id: int | None = None) -> None:
        node_id = node_id or self.some_broker()
        if self.cluster.machines[node_id].process is not None:
            self.cluster.note(f"kill broker {node_id}")
            self.cluster.kill(node_id)
        self.later(lambda: self._start(node_id), 0.3)

    def _start(self, node_id: int) -> None:
        if self.cluster.machines[node_id].process is None:
            self.cluster.start(node_id)

    def _stop(self) -> None:
        node_id = self.some_broker()
        self.cluster.stop(node_id)
        self.later(lambda: self._start(node_id), 0.6)

    def _pause(self) -> None:
        node_id = self.some_broker()
        process = self.cluster.machines[node_id].process
        if process is not None and not process.loop.is_paused:
            self.cluster.note(f"pause broker {node_id}")
            process.loop.pause()
            self.later(process.loop.go_on, 0.5)

    def _controller(self) -> None:
        """Kills the controller, whichever broker it is."""
        for broker in list(self.cluster.brokers()):
            if broker.controller.is_controller:
                self._kill(broker.node_id)

    def _expire(self) -> None:
        node_id = self.some_broker()
        process = self.cluster.machines[node_id].process
        if process is not None and process.store is not None:
            self.cluster.note(f"the session of broker {node_id} expires")
            self.cluster.store.expire(process.store.session.id)

    # Machines

    def _power(self) -> None:
        """Cuts a machine's power, so that unsynced data are lost."""
        self._lose(self.some_broker(), loses_disk=False)

    def _disk(self) -> None:
        """A machine comes back with an empty disk."""
        self._lose(self.some_broker(), loses_disk=True)

    def _lose(self, node_id: int, *, loses_disk: bool) -> None:
        """Cuts the power of a machine, unless it may be the only one with some records that must stay."""
        oracle = self.cluster.watcher
        unprotected = oracle.unprotected(node_id)
        if oracle.keeping.guards(node_id) or (unprotected and (loses_disk or not self.settings.flush_acks)):
            return
        self.cluster.note(f"broker {node_id} loses its {'disk' if loses_disk else 'power'}")
        self.cluster.cut_power(node_id, loses_disk=loses_disk)
        oracle.lost_unsynced(node_id)
        for tp in unprotected:
            oracle.trim_to_acked(tp)
        self.later(lambda: self._start(node_id), 0.4)

    def _clock(self) -> None:
        """Sets a machine's calendar forward or back."""
        machine = self.cluster.machines[self.some_broker()]
        machine.clock_offset_ms += self.rng.choice((-3_600_000, -1000, 1000, 3_600_000))

    # What administrators do meanwhile

    def ask_controller(self, ask: Callable[[Any], Coroutine[Any, Any, object]]) -> None:
        """Sends a request to the controller, and ignores the answer."""
        for broker in self.cluster.brokers():
            if broker.controller.is_controller:
                broker.process.loop.start(_unheard(ask(broker.controller)))

    def _elect(self) -> None:
        """Elects the preferred leaders."""
        partitions = self.cluster.watcher.partitions()
        self.cluster.note("elect preferred leaders")
        self.ask_controller(lambda controller: controller.elect_leaders(partitions, unclean=False))

    def _reassign(self) -> None:
        """Reassigns a partition."""
        tp = self.rng.choice(self.cluster.watcher.partitions())
        replicas = tuple(self.rng.sample(list(self.cluster.machines), 3))
        self.cluster.note(f"reassign {tp} to {replicas}")
        request = Reassignment(tp.topic, tp.partition, replicas)
        self.ask_controller(lambda controller: controller.alter_reassignments([request]))

    # Links

    def _stall(self) -> None:
        """Holds back the requests of a client to one broker, while the client reaches the others."""
        client = self.rng.choice(self.clients) if self.clients else STORE
        self._cut_links([(client, self.some_broker())])

    def _slow(self) -> None:
        """Slows down a broker's network."""
        node_id = self.some_broker()
        slow = self.cluster.network.slow
        extra_s = self.rng.choice((0.01, 0.1, 0.3))
        links = [link for place in self.cluster.machines for link in ((node_id, place), (place, node_id))]
        slow.update(dict.fromkeys(links, extra_s))
        self.later(lambda: [slow.pop(link, None) for link in links], 0.5)

    def _cut(self) -> None:
        """Cuts the link between two places, one way or both."""
        places = [STORE, *self.cluster.machines]
        source, target = self.rng.sample(places, 2)
        links = [(source, target)] if self.rng.random() < 0.3 else [(source, target), (target, source)]
        self._cut_links(links)

    def _isolate(self) -> None:
        """Cuts one broker off from all others, perhaps from the store too. Clients still reach it."""
        node_id = self.some_broker()
        others = [place for place in (STORE, *self.cluster.machines) if place != node_id]
        if self.rng.random() < 0.5:
            others.remove(STORE)
        self._cut_links([link for other in others for link in ((node_id, other), (other, node_id))])

    def _cut_links(self, links: list[tuple[int, int]]) -> None:
        self.cluster.note(f"cut {links}")
        for link in links:
            self.cluster.cut(*link)
        self.later(lambda: self._heal(links), 0.6)

    def _heal(self, links: list[tuple[int, int]]) -> None:
        self.cluster.note(f"heal {links}")
        for source, target in links:
            self.cluster.heal_link(source, target)


async def _unheard(work: Coroutine[Any, Any, object]) -> None:
    """Runs a request and ignores its answer or its error."""
    with contextlib.suppress(KafkaError, CoordinationError):
        await work
