"""Faults of several brokers, of what lies on their disks, of what holds them together, and of the network between them.

The seed draws each fault, which is over when ``strike`` returns: killed processes run again, halted ones continue, the
network is whole. Only faults of disks wait until all replicas are in sync again. A replica that has lost its records is
safe only while others have them.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from conformance.drivers.base import Place
from conformance.faults.checkers.replicas import synced_bytes
from conformance.faults.loads.cluster_target import PATIENCE_S, ClusterTarget
from conformance.faults.means.disks import Disks, another_file
from harness.faults.network import CLIENTS, SERVICES, Network
from harness.protocol.wire_client import Wire
from harness.servers.clusters import Cluster, is_running
from harness.servers.ensemble import Ensemble
from harness.servers.machines import Machines
from harness.waiting import until

#: A fault lasts at most this long, mostly less; the longest ones exceed sessions and lags.
LONGEST_S = 8.0
#: The disk of the store, beside those of the brokers.
STORE = 0
HANG_S = 8.0
#: Tells a broker through its environment how long to hang at SIGUSR2.
HANGING = {"PYTHONPATH": str(Path(__file__).parents[1] / "hanging"), "CONFORMANCE_HANG_S": str(HANG_S)}
Fault = Callable[[], None]


class ClusterChaos:
    """``others``: faults outside the brokers, such as those of clients, by name."""

    def __init__(
        self, target: ClusterTarget, chance: random.Random, others: dict[str, Fault], dry: set[str] | None = None
    ) -> None:
        """``dry``: names of faults to leave out."""
        self.target = target
        self.brokers = target.brokers
        self.random = chance
        self.counts: Counter[str] = Counter()
        #: The ``time.monotonic`` since which nothing is broken.
        self.healed = time.monotonic()
        #: Entered during a fault of brokers, but not for the faults of clients.
        self.excused: Callable[[], AbstractContextManager[None]] = nullcontext
        self.harmless: set[str] = set()
        self.faults: dict[str, Fault] = {
            "kills of a broker": self._kill,
            "kills of a controller": self._kill_controller,
            "kills of a coordinator": self._kill_coordinator,
            "kills of two brokers": self._kill_two,
            "kills of all brokers": self._kill_all,
            "kills of a broker that recovers": self._kill_twice,
            "stops of a broker": self._stop,
            "short SIGSTOPs of a broker": self._freeze,
            "long SIGSTOPs of a broker": self._freeze_long,
            "SIGSTOPs of a controller": self._freeze_controller,
            "brokers that stutter": self._stutter,
            "torn tails": self._tear,
            "corrupted tails": self._corrupt,
            "lost indexes": self._lose_indexes,
            "moves of leaders": self._move_leaders,
            "loops that hang": self._hang,
            **others,
        }
        for name in dry or ():
            self.faults.pop(name, None)

    def strike(self, name: str = "") -> str:
        """Causes the fault of this name, or else a drawn one. Returns the fault's name."""
        name = name or self.random.choice(sorted(self.faults))
        with nullcontext() if name in self.harmless else self.excused():
            self.faults[name]()
        self.healed = time.monotonic()
        self.counts[name] += 1
        return name

    def _wait(self, longest_s: float = LONGEST_S) -> None:
        time.sleep(longest_s * self.random.random() ** 2)

    def _any(self) -> int:
        return self.random.choice(self.brokers.ids)

    def _controller(self) -> int:
        found = self.brokers.controller()
        return found if found in self.brokers.ids else self._any()

    # -- processes -------------------------------------------------------------------------------------

    def _kill(self, *victims: int) -> None:
        victims = victims or (self._any(),)
        for victim in victims:
            self.brokers.kill(victim)
        self._wait(1.0)
        for victim in victims:
            self.brokers.revive(victim)

    def _kill_controller(self) -> None:
        self._kill(self._controller())

    def _kill_coordinator(self) -> None:
        leaders = {row.leader for row in self.brokers.partitions("__transaction_state").values()}
        self._kill(self.random.choice(sorted(leaders & set(self.brokers.ids)) or self.brokers.ids))

    def _kill_two(self) -> None:
        self._kill(*self.random.sample(self.brokers.ids, 2))

    def _kill_all(self) -> None:
        self._kill(*self.brokers.ids)

    def _kill_twice(self) -> None:
        victim = self._any()
        self.brokers.kill(victim)
        self.brokers.revive(victim)
        time.sleep(self.random.uniform(0.1, 1.0))
        self._kill(victim)

    def _stop(self) -> None:
        victim = self._any()
        before = self.brokers.pid(victim)
        self.brokers.kill(victim, signal.SIGTERM)
        until(lambda: not is_running(before), f"broker {victim} to stop")
        self.brokers.revive(victim)

    def _freeze(self, *victims: int, least_s: float = 0.0) -> None:
        victims = victims or (self._any(),)
        for victim in victims:
            self.brokers.halt(victim)
        time.sleep(least_s)
        self._wait(2.0)
        for victim in victims:
            self.brokers.resume(victim)

    def _freeze_long(self) -> None:
        self._freeze(self._any(), least_s=4.0)

    def _freeze_controller(self) -> None:
        self._freeze(self._controller(), least_s=self.random.choice((0.0, 4.0)))

    def _stutter(self) -> None:
        for _ in range(self.random.randint(5, 20)):
            self._freeze_for(0.2)
            self._wait(0.2)

    def _freeze_for(self, longest_s: float) -> None:
        victim = self._any()
        self.brokers.halt(victim)
        self._wait(longest_s)
        self.brokers.resume(victim)

    def _hang(self) -> None:
        """Halts a broker's loop while its threads run: other brokers take its partitions over meanwhile."""
        pid = self.brokers.pid(self._any())
        if is_running(pid):
            os.kill(pid, signal.SIGUSR2)
            time.sleep(HANG_S)

    # -- disks -----------------------------------------------------------------------------------------

    def _damage(self, how: Callable[[Path], None]) -> None:
        """Kills a broker and damages some of its logs before it comes back."""
        self.target.heal()
        victim = self._any()
        pid = self.brokers.pid(victim)
        self.brokers.halt(victim)  # The broker's successor waits for the folder's lock: nothing runs meanwhile.
        folders = sorted({path.parent for path in self.brokers.log_dir(victim).glob("*/*.log")})
        chosen = self.random.sample(folders, self.random.randint(1, len(folders)))
        for folder in chosen:
            how(folder)
        self._kill(victim)
        until(lambda: self.brokers.pid(victim) not in (0, pid), "another process")
        self.target.heal()

    def _tear(self) -> None:
        self._damage(self._tear_log)

    def _tear_log(self, folder: Path) -> None:
        with another_file(max(folder.glob("*.log"))) as segment:
            size = segment.stat().st_size
            os.truncate(segment, max(0, size - self.random.randint(1, 20_000)))

    def _corrupt(self) -> None:
        self._damage(self._corrupt_log)

    def _corrupt_log(self, folder: Path) -> None:
        """Spoils only bytes that were not synced: a crash spoils no others, and a replica would notice others only on
        reading.
        """
        newest = max(folder.glob("*.log"))
        size, synced = newest.stat().st_size, synced_bytes(newest)
        if synced < size:
            with another_file(newest) as segment, segment.open("r+b") as file:
                file.seek(max(synced, size - self.random.randint(1, 200)))
                file.write(self.random.randbytes(20))

    def _lose_indexes(self) -> None:
        def lose(folder: Path) -> None:
            for path in folder.glob("*.*index"):
                path.unlink()

        self._damage(lose)

    # -- what is decided -------------------------------------------------------------------------------

    def _move_leaders(self) -> None:
        """Reorders the replicas of all partitions of a topic, then elects the first ones."""
        topic = self.random.choice(sorted(self.target.topics))
        places = range(self.target.topics[topic])
        orders = [self.random.sample(self.brokers.ids, len(self.brokers.ids)) for _ in places]
        rows = [{"partition_index": place, "replicas": order} for place, order in zip(places, orders, strict=True)]
        with Wire(self.target.leader_of(Place(topic, 0))) as wire:
            topics = [{"name": topic, "partitions": rows}]
            wire.ask("AlterPartitionReassignments", 0, timeout_ms=30_000, topics=topics)
            chosen = [{"topic": topic, "partitions": list(places)}]
            wire.ask("ElectLeaders", 2, election_type=0, topic_partitions=chosen, timeout_ms=30_000)


class SupervisorChaos(ClusterChaos):
    """Also kills the supervisor, which runs the coordination store, and restarts the whole cluster in order."""

    def __init__(
        self, target: ClusterTarget, cluster: Cluster, disks: Disks, chance: random.Random, others: dict[str, Fault]
    ) -> None:
        self.cluster = cluster
        self.disks = disks
        more = {"kills of the supervisor": self._kill_supervisor, "restarts of everything": self._restart}
        if disks.is_possible:
            more |= {"full disks": self._fill_disk, "full disks under the store": self._fill_store}
        super().__init__(target, chance, {**others, **more})

    def _fill_disk(self) -> None:
        """Fills the broker's only disk: the broker stops, and cannot start until there is room."""
        self.target.heal()
        victim = self._any()
        pid = self.brokers.pid(victim)
        self.disks.fill(victim)
        until(lambda: not is_running(pid), f"broker {victim} to stop without a disk", PATIENCE_S)
        self._wait(2.0)
        self.disks.free(victim)
        self.brokers.revive(victim)
        self.target.heal()

    def _fill_store(self) -> None:
        """Lets the store refuse writes for a while; sometimes a broker dies meanwhile, and its session must expire."""
        self.disks.fill(STORE)
        self._wait(2.0)
        if self.random.random() < 0.5:
            self.brokers.kill(self._any())
            self._wait(3.0)
        self.disks.free(STORE)
        self.brokers.keep()

    def _kill_supervisor(self) -> None:
        assert self.cluster.process is not None
        self.cluster.process.kill()
        self.cluster.process.wait()
        self.cluster.start()

    def _restart(self) -> None:
        self.cluster.stop()
        self.cluster.start()


class MachinesChaos(ClusterChaos):
    """Also kills, halts and restarts ZooKeeper's servers, and breaks the network if there is one."""

    def __init__(
        self,
        target: ClusterTarget,
        machines: Machines,
        zookeeper: Ensemble,
        chance: random.Random,
        others: dict[str, Fault],
    ) -> None:
        self.zookeeper = zookeeper
        self.network = machines.network
        more: dict[str, Fault] = {
            "kills of a ZooKeeper server": self._kill_server,
            "kills of ZooKeeper's leader while a broker dies": self._kill_both,
            "restarts of all of ZooKeeper": self._restart_zookeeper,
            "SIGSTOPs of ZooKeeper's leader": self._freeze_server,
            "moves between log dirs": self._move_logs,
        }
        if self.network is not None:
            more |= {
                "brokers cut from everything": self._cut_off,
                "brokers cut from other brokers": self._cut_from_brokers,
                "brokers cut from ZooKeeper": self._cut_from_zookeeper,
                "brokers cut from clients": self._cut_from_clients,
                "one-way losses": self._lose_one_way,
                "links that flap": self._flap,
                "controllers cut from ZooKeeper": self._cut_controller,
            }
        super().__init__(target, chance, {**others, **more})

    def _move_logs(self) -> None:
        """Moves replicas of a topic to another disk of their broker, and sometimes kills the broker meanwhile."""
        victim = self._any()
        topic = self.random.choice(sorted(self.target.topics))
        rows = {"name": topic, "partitions": list(range(self.target.topics[topic]))}
        path = self.random.choice(self.brokers.log_dirs(victim))
        with contextlib.suppress(OSError), Wire(self.brokers.address(victim)) as wire:
            wire.ask("AlterReplicaLogDirs", 1, dirs=[{"path": str(path), "topics": [rows]}])
        self._wait(2.0)
        if self.random.random() < 0.5:
            self._kill(victim)

    def _kill_server(self) -> None:
        server = self.random.choice(self.zookeeper.servers)
        server.kill()
        self._wait(3.0)
        self.zookeeper.start()

    def _kill_both(self) -> None:
        server = self.zookeeper.leader()
        server.kill()
        self._kill_controller()
        self._wait(2.0)
        self.zookeeper.start()

    def _restart_zookeeper(self) -> None:
        self.zookeeper.stop()
        self._wait()
        self.zookeeper.start()

    def _freeze_server(self) -> None:
        server = self.zookeeper.leader()
        server.signal(signal.SIGSTOP)
        self._wait()
        server.signal(signal.SIGCONT)
        self.zookeeper.start()

    # -- the network -----------------------------------------------------------------------------------

    @property
    def _net(self) -> Network:
        assert self.network is not None
        return self.network

    def _cut(self, victim: int, ends: list[object], longest_s: float = LONGEST_S) -> None:
        self._net.isolate(victim, ends)
        self._wait(longest_s)
        self._net.heal()

    def _others(self, victim: int) -> list[object]:
        return [each for each in self.brokers.ids if each != victim]

    def _cut_off(self) -> None:
        victim = self._any()
        self._cut(victim, [*self._others(victim), CLIENTS, SERVICES])

    def _cut_from_brokers(self) -> None:
        victim = self._any()
        self._cut(victim, self._others(victim))

    def _cut_from_zookeeper(self) -> None:
        self._cut(self._any(), [SERVICES])

    def _cut_controller(self) -> None:
        self._cut(self._controller(), [SERVICES])

    def _cut_from_clients(self) -> None:
        self._cut(self._any(), [CLIENTS])

    def _lose_one_way(self) -> None:
        victim = self._any()
        ends = self.random.sample([*self._others(victim), CLIENTS, SERVICES], self.random.randint(1, 3))
        for end in ends:
            self._net.cut(*((victim, end) if self.random.random() < 0.5 else (end, victim)))
        self._wait()
        self._net.heal()

    def _flap(self) -> None:
        victim = self._any()
        for _ in range(self.random.randint(3, 10)):
            self._cut(victim, [*self._others(victim), SERVICES], 0.8)
            self._wait(0.8)
