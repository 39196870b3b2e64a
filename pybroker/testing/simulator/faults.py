"""Faults: something goes wrong now and then, and is mended a while later."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pybroker.testing.simulator.cluster import Cluster
from pybroker.testing.simulator.settings import Settings
from pybroker.testing.simulator.store import STORE


class Faults:
    """Draws faults, until ``end``."""

    def __init__(self, cluster: Cluster, settings: Settings, rng: Random) -> None:
        self.cluster = cluster
        self.settings = settings
        self.rng = rng
        self.counts: dict[str, int] = {}
        self.has_ended = False
        self._kinds = sorted(settings.faults)

    def begin(self) -> None:
        """From now on."""
        self._later(self._next, self.settings.fault_every_s)

    def end(self) -> None:
        """No more; everything is mended."""
        self.has_ended = True
        cluster = self.cluster
        cluster.note("faults end")
        cluster.network.slow.clear()
        cluster.heal()
        for machine in cluster.machines.values():
            if machine.process is None:
                cluster.start(machine.node_id)
            else:
                machine.process.loop.go_on()

    def mend(self) -> None:
        """Starts what has ended since."""
        for machine in self.cluster.machines.values():
            if machine.process is None:
                self.cluster.start(machine.node_id)

    def _later(self, work: Callable[[], object], mean_s: float) -> None:
        self.cluster.scheduler.after(self.rng.expovariate(1 / mean_s), self._unless_over, work)

    def _unless_over(self, work: Callable[[], object]) -> None:
        if not self.has_ended:
            work()

    def _next(self) -> None:
        kind = self.rng.choice(self._kinds)
        getattr(self, f"_{kind}")()
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._later(self._next, self.settings.fault_every_s)

    def _some_broker(self) -> int:
        """A broker, the controller or a leader as often as anybody."""
        return self.rng.choice(list(self.cluster.machines))

    # Processes

    def _kill(self) -> None:
        node_id = self._some_broker()
        if self.cluster.machines[node_id].process is not None:
            self.cluster.note(f"kill broker {node_id}")
            self.cluster.kill(node_id)
        self._later(lambda: self._start(node_id), 0.3)

    def _start(self, node_id: int) -> None:
        if self.cluster.machines[node_id].process is None:
            self.cluster.start(node_id)

    def _stop(self) -> None:
        node_id = self._some_broker()
        self.cluster.stop(node_id)
        self._later(lambda: self._start(node_id), 0.6)

    def _pause(self) -> None:
        node_id = self._some_broker()
        process = self.cluster.machines[node_id].process
        if process is not None and not process.loop.is_paused:
            self.cluster.note(f"pause broker {node_id}")
            process.loop.pause()
            self._later(process.loop.go_on, 0.5)

    def _expire(self) -> None:
        node_id = self._some_broker()
        process = self.cluster.machines[node_id].process
        if process is not None and process.store is not None:
            self.cluster.note(f"the session of broker {node_id} expires")
            self.cluster.store.expire(process.store.session.id)

    # Links

    def _cut(self) -> None:
        """Two places, one way or both."""
        places = [STORE, *self.cluster.machines]
        source, target = self.rng.sample(places, 2)
        links = [(source, target)] if self.rng.random() < 0.3 else [(source, target), (target, source)]
        self._cut_links(links)

    def _isolate(self) -> None:
        """One broker from all others, perhaps from the store; clients reach it."""
        node_id = self._some_broker()
        others = [place for place in (STORE, *self.cluster.machines) if place != node_id]
        if self.rng.random() < 0.5:
            others.remove(STORE)
        self._cut_links([link for other in others for link in ((node_id, other), (other, node_id))])

    def _cut_links(self, links: list[tuple[int, int]]) -> None:
        self.cluster.note(f"cut {links}")
        for link in links:
            self.cluster.cut(*link)
        self._later(lambda: self._heal(links), 0.6)

    def _heal(self, links: list[tuple[int, int]]) -> None:
        self.cluster.note(f"heal {links}")
        for source, target in links:
            self.cluster.heal_link(source, target)
