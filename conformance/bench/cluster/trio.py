"""Three brokers in one interface, ours or Kafka's, with their costs from /proc."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import ClassVar

from harness import processes
from harness.servers.clusters import Brokers, Cluster, consecutive_ports
from harness.servers.kafka_cluster import KafkaCluster

REPLICAS = 3
_number = count(1)


class Trio(Brokers):
    """Three brokers. ``name`` is their name in the report."""

    name: ClassVar[str]

    def revive(self, broker: int) -> None:
        """Restarts a killed broker, or waits until a supervisor has done so."""

    def pids(self) -> list[int]:
        """Returns the pid of every process that the brokers need, including a supervisor that keeps their metadata."""
        return [self.pid(broker) for broker in self.ids]

    def cpu_s(self) -> float:
        """Returns the CPU seconds of all processes so far."""
        return sum(processes.cpu(pid).total_s for pid in self.pids())

    def rss_kib(self) -> int:
        """Returns the resident memory of all processes in KiB."""
        return sum(processes.rss_kib(pid) for pid in self.pids())

    def new_topic(self, partitions: int, **config: object) -> str:
        """Creates a new topic and waits until it is in sync."""
        name = f"bench-{next(_number)}"
        self.create_topic(name, partitions, REPLICAS, **config)
        return name


class OurTrio(Cluster, Trio):
    """Our brokers: ``--processes 3``."""

    name = "ours"

    def __init__(self, data_dir: Path, zookeeper: str | None = None, **config: object) -> None:
        super().__init__(data_dir, REPLICAS, zookeeper, **config)
        # a port that the kernel chose may belong to a connection when the brokers restart
        first = consecutive_ports(REPLICAS)
        self.ports = {broker: first + place for place, broker in enumerate(self.ids)}

    def pids(self) -> list[int]:
        """Returns the pids, including the supervisor's."""
        assert self.process is not None
        return [self.process.pid, *super().pids()]


class KafkaTrio(KafkaCluster, Trio):
    """Three real Kafkas in three JVMs."""

    name = "kafka"

    def __init__(self, data_dir: Path, **config: object) -> None:
        super().__init__(data_dir, REPLICAS, **config)

    def revive(self, broker: int) -> None:
        """Restarts the broker, because nobody else does."""
        KafkaCluster.revive(self, broker)


KINDS: Mapping[str, type[OurTrio | KafkaTrio]] = {"ours": OurTrio, "kafka": KafkaTrio}
