"""The brokers that get the hostile requests: one broker, or several, of which one that is not the controller gets them.

If there are several, one broker leads both the neighbour's topic and the hostile one, and all others follow. A leader
that is not the controller forwards the controller's requests to another broker. The neighbour notices that too, because
it waits for all replicas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from harness import processes
from harness.protocol.kinds import GROUP, TRANSACTION
from harness.protocol.wire_client import Wire
from harness.servers.brokers import OurBroker
from harness.servers.clusters import Cluster
from harness.waiting import until

Address = tuple[str, int]

HOSTILE: Final = "hostile"
NEIGHBOUR: Final = "neighbour"
COORDINATED: Final = {
    "offset commit": (GROUP, "g"),
    "offset fetch": (GROUP, "g"),
    "join group": (GROUP, "g"),
    "leave group": (GROUP, "g"),
    "describe groups": (GROUP, "g"),
    "delete groups": (GROUP, "g"),
    "heartbeat": (GROUP, "g"),
    "add partitions": (TRANSACTION, "t"),
}
"""Brokers other than the coordinator refuse these requests early, so the coordinator of these ids gets them."""
EXPELLED: Final = re.compile(r"session \d+ .*has (?:ended|expired)|in-sync replicas of ")
"""Log lines which say that a broker's session has expired, or that a replica leaves or rejoins the ISR."""


class Memory(NamedTuple):
    """The memory of one process, in KiB."""

    now: int
    peak: int


class Target:
    """A running broker or cluster, whose resources are measured."""

    acks = 1

    def __init__(self, broker: OurBroker) -> None:
        self._broker = broker

    @property
    def address(self) -> Address:
        """Returns the address of the broker that leads both topics."""
        return self._broker.address

    def make_topics(self) -> None:
        """Creates both topics with one partition each."""
        with Wire(self.address) as wire:
            wire.create_topic(NEIGHBOUR)
            wire.create_topic(HOSTILE)
        # This creates the coordinators' topics, and waits until they serve.
        for kind, key in set(COORDINATED.values()):
            self._coordinator(kind, key)

    def _coordinator(self, kind: int, key: str) -> Address:
        with Wire(self.address) as wire:

            def ask() -> Address | None:
                reply = wire.ask("FindCoordinator", 3, key=key, key_type=kind)
                return (reply.host, reply.port) if reply.error_code == 0 else None

            found = until(ask, f"the coordinator of {key}")
            assert found is not None
            return found

    def address_of(self, name: str) -> Address:
        """Returns the address of the broker that serves a large request of that name."""
        return self.address

    def pids(self) -> list[int]:
        """Returns the pids of all processes; a supervisor that stores the brokers' metadata is one of them."""
        return [self._broker.pid]

    def logged(self) -> str:
        """Returns the log lines of all brokers."""
        return self._broker.logged()

    def memory(self) -> dict[int, Memory]:
        """Returns each process's memory by its pid."""
        return {pid: Memory(processes.rss_kib(pid), processes.peak_rss_kib(pid)) for pid in self.pids()}

    def expelled(self) -> int:
        """Counts how often a session has expired, or a replica has left or rejoined the ISR."""
        return len(EXPELLED.findall(self.logged()))


class SeveralTarget(Target):
    """Several brokers under one supervisor."""

    acks = -1

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        controller = cluster.controller()
        self._replicas = [*(each for each in cluster.ids if each != controller), controller]

    @property
    def address(self) -> Address:
        return self._cluster.address(self._replicas[0])

    def make_topics(self) -> None:
        for name in (NEIGHBOUR, HOSTILE):
            assignment = {"partition_index": 0, "broker_ids": self._replicas}
            topic: dict[str, object] = {"name": name, "num_partitions": -1, "replication_factor": -1}
            topic |= {"assignments": [assignment], "configs": []}
            with Wire(self.address) as wire:
                reply = wire.ask("CreateTopics", 4, topics=[topic], timeout_ms=30_000, validate_only=False)
            assert reply.topics[0].error_code == 0, reply
            until(partial(self._cluster.is_in_sync, name), f"{name} to be in sync")
            until(partial(self._cluster.is_led, name), f"{name} to have leaders")
        for kind, key in set(COORDINATED.values()):
            self._coordinator(kind, key)

    def address_of(self, name: str) -> Address:
        return self._coordinator(*COORDINATED[name]) if name in COORDINATED else self.address

    def pids(self) -> list[int]:
        supervisor = self._cluster.process
        assert supervisor is not None
        return [supervisor.pid, *map(self._cluster.pid, self._cluster.ids)]

    def logged(self) -> str:
        return self._cluster.logged()


@contextmanager
def running(folder: Path, brokers: int) -> Iterator[Target]:
    """Starts this number of brokers and creates both topics."""
    if brokers == 1:
        with OurBroker(folder / "broker") as broker:
            target = Target(broker)
            target.make_topics()
            yield target
        return
    settings = {
        "min_insync_replicas": 2,
        "default_replication_factor": brokers,
        "offsets_topic_replication_factor": brokers,
        "transaction_state_log_replication_factor": brokers,
    }
    with Cluster(folder / "brokers", brokers, None, **settings) as cluster:
        several = SeveralTarget(cluster)
        several.make_topics()
        yield several
