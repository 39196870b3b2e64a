"""Breaks networks between brokers, and between a broker and ZooKeeper: cases 19 and 30, on processes.

Every broker stands for a machine behind two proxies that may drop traffic. One serves clients and other brokers, the
other leads to ZooKeeper. The campaign (``cluster``) does the same with namespaces.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from conformance.data import batches
from conformance.drivers.base import Place
from conformance.faults.checkers import replicas
from conformance.faults.checkers.history import PartitionHistory
from conformance.faults.loads.cluster_target import EAGER, ClusterTarget
from conformance.faults.loads.load import IdempotentWriter, make_value, name_of, read_back
from harness.faults.proxy import FaultProxy
from harness.protocol.wire_client import Wire
from harness.servers.ensemble import Ensemble
from harness.servers.machines import Machines
from harness.waiting import until

pytestmark = [pytest.mark.ours, pytest.mark.nightly]
TOPIC = "t"
PLACE = Place(TOPIC, 0)


class Doors:
    """Three brokers behind proxies; ``fronts``: their clients' way in, ``backs``: their way to ZooKeeper."""

    def __init__(self, folder: Path, servers: Ensemble, running: ExitStack) -> None:
        self.machines = Machines(folder / "data", "", 3, None, disks=1, **{**EAGER, "replica_lag_time_max_ms": 3_000})
        self.fronts: dict[int, FaultProxy] = {}
        self.backs: dict[int, FaultProxy] = {}
        port = servers.servers[0].port
        for broker, member in self.machines.members.items():
            front = self.fronts[broker] = running.enter_context(FaultProxy(partial(self.machines.address, broker)))
            back = self.backs[broker] = running.enter_context(FaultProxy(lambda: ("127.0.0.1", port)))
            member.config["advertised.listeners"] = f"PLAINTEXT://{front.bootstrap}"
            member.zookeeper = f"{back.bootstrap}/kafka"
        self.target = ClusterTarget(running.enter_context(self.machines))
        self.target.make_topic(TOPIC, 1)

    @property
    def bootstrap(self) -> str:
        """Returns the address for clients."""
        return ",".join(front.bootstrap for front in self.fronts.values())

    def leader(self, without: int | None = None) -> int:
        return self.machines.partitions(TOPIC, without)[0].leader

    def check(self, history: PartitionHistory) -> None:
        """Checks that every record is in the log once, in order, and that all disks hold the same log."""
        self.target.heal()
        assert history.check(read_back(self.target, PLACE)) == []
        self.machines.stop()
        log_dirs = {broker: self.machines.log_dir(broker) for broker in self.machines.ids}
        assert replicas.check(log_dirs, f"{TOPIC}-0") == []


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    with ExitStack() as running:
        yield Doors(tmp_path, running.enter_context(Ensemble(tmp_path)), running)


class Writer:
    """Sends one record at a time with acks=all, and notes it. It sends no record twice: each attempt has another one.
    """

    def __init__(self, doors: Doors, history: PartitionHistory) -> None:
        self._doors = doors
        self._history = history
        self._numbers = itertools.count()
        self.end = 0
        """The offset behind the last acked record."""

    def try_one(self, broker: int, timeout_ms: int = 10_000) -> int:
        """Returns the broker's error code, or -1 without an answer."""
        value = make_value("writer", next(self._numbers), 30)
        self._history.send("writer", name_of(value))
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batches.batch([value])}]}
        fields = {"transactional_id": None, "acks": -1, "timeout_ms": timeout_ms, "topic_data": [data]}
        with contextlib.suppress(OSError), Wire(self._doors.machines.address(broker), timeout_ms / 1_000 + 10) as wire:
            row = wire.ask("Produce", 9, **fields).responses[0].partition_responses[0]
            if row.error_code == 0:
                self._history.ack(row.base_offset, name_of(value))
                self.end = row.base_offset + 1
            return int(row.error_code)
        return -1

    def write(self, count: int, without: int | None = None) -> int:
        """Retries until the current leader has acked this many; returns the broker that acked the last one."""
        leader = -1

        def is_acked() -> bool:
            nonlocal leader
            leader = self._doors.leader(without)
            return leader not in (without, -1) and self.try_one(leader) == 0

        for _ in range(count):
            until(is_acked, "an ack")
        return leader


def test_case_19_a_leader_cut_from_zookeeper_acks_nothing_and_truncates_on_its_return(doors: Doors) -> None:
    history = PartitionHistory()
    writer = Writer(doors, history)
    old = writer.write(5)
    end = writer.end
    doors.backs[old].black_hole()
    doors.backs[old].refuses = True
    until(lambda: another_leads(doors, old), "another leader")
    refused = [writer.try_one(old, timeout_ms=500) for _ in range(5)]
    assert 0 not in refused
    with Wire(doors.machines.address(old)) as wire:
        assert wire.end_offset(TOPIC) == end, "the high watermark must stand still"
    writer.write(5, without=old)
    doors.backs[old].heal()
    doors.backs[old].cut()
    until(lambda: not doors.machines.leads(old, TOPIC, 0), "the old leader hears of the new one")
    doors.check(history)


def another_leads(doors: Doors, old: int) -> bool:
    """Returns whether another broker leads: until then, the old leader may ack what the whole ISR has fetched."""
    found = doors.leader(without=old)
    return found not in (old, -1) and doors.machines.leads(found, TOPIC, 0)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_case_30_one_way_flapping_and_half_open_links_lose_and_duplicate_nothing(doors: Doors) -> None:
    history = PartitionHistory()
    writer = IdempotentWriter(
        doors.target, "writer", 0, {PLACE: history}, bootstrap_servers=doors.bootstrap, socket_timeout_ms=2_000
    )
    writer.start()

    def goes_on() -> None:
        writer.goes_on(writer.done + 50)

    def flap(front: FaultProxy) -> None:
        for _ in range(15):
            front.refuses = not front.refuses
            front.cut()
            writer.stopping.wait(0.1)

    faults: dict[str, Callable[[FaultProxy], None]] = {
        "requests are lost": lambda front: front.black_hole(replies=False),
        "replies are lost": lambda front: front.black_hole(requests=False),
        "links flap": flap,
        "brokers see an end": lambda front: front.half_close(client=False),
        "clients see an end": lambda front: front.half_close(client=True),
    }
    goes_on()
    for name, fault in faults.items():
        front = doors.fronts[doors.leader()]
        fault(front)
        print(name)
        writer.stopping.wait(5.0)
        front.heal()
        front.cut()
        goes_on()
        doors.target.heal()
    writer.stop()
    doors.check(history)
