"""Three brokers as the cases of this suite see them, ours and Kafka's, and what /proc says of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import ClassVar

from harness import processes
from harness.clusters import Brokers, Cluster, consecutive_ports
from harness.kafka_cluster import KafkaCluster

REPLICAS = 3
_number = count(1)


class Trio(Brokers):
    """Three brokers; ``name`` is what the report calls them."""

    name: ClassVar[str]

    def revive(self, broker: int) -> None:
        """Sees to it that a broker that was killed runs again."""

    def pids(self) -> list[int]:
        """Every process that the brokers need: a supervisor that keeps their metadata is one."""
        return [self.pid(broker) for broker in self.ids]

    def cpu_s(self) -> float:
        """CPU time of all processes so far, seconds."""
        return sum(processes.cpu(pid).total_s for pid in self.pids())

    def rss_kib(self) -> int:
        """Resident memory of all processes, KiB."""
        return sum(processes.rss_kib(pid) for pid in self.pids())

    def new_topic(self, partitions: int, **config: object) -> str:
        """A fresh topic, in sync."""
        name = f"bench-{next(_number)}"
        self.create_topic(name, partitions, REPLICAS, **config)
        return name


class OurTrio(Cluster, Trio):
    """``--processes 3``."""

    name = "ours"

    def __init__(self, data_dir: Path, zookeeper: str | None = None, **config: object) -> None:
        super().__init__(data_dir, REPLICAS, zookeeper, **config)
        first = consecutive_ports(REPLICAS)  # one that the kernel chose may be a connection's when the brokers restart
        self.ports = {broker: first + place for place, broker in enumerate(self.ids)}

    def pids(self) -> list[int]:
        """The supervisor is one of them."""
        assert self.process is not None
        return [self.process.pid, *super().pids()]


class KafkaTrio(KafkaCluster, Trio):
    """Three JVMs."""

    name = "kafka"

    def __init__(self, data_dir: Path, **config: object) -> None:
        super().__init__(data_dir, REPLICAS, **config)

    def revive(self, broker: int) -> None:
        """Nobody else does."""
        KafkaCluster.revive(self, broker)


KINDS: Mapping[str, type[OurTrio | KafkaTrio]] = {"ours": OurTrio, "kafka": KafkaTrio}
