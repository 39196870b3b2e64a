"""Three real Kafka brokers in KRaft's combined mode: each is broker and controller, and can be killed and restarted.

Its attributes have the same names as those of our cluster (``clusters.Cluster``).
"""

from __future__ import annotations

import base64
import contextlib
import uuid
from pathlib import Path
from typing import Self

from harness import peers
from harness.servers.brokers import RealKafka, free_port
from harness.servers.clusters import Brokers

PATIENCE_S = 240.0
"""A broker with thousands of partitions takes minutes to start on a busy machine."""


class Member(RealKafka):
    """One of the brokers. Its ``_prepare`` differs from a single broker's, because all brokers form the quorum."""

    def __init__(self, data_dir: Path, number: int, cluster: KafkaCluster, **config: str) -> None:
        super().__init__(data_dir, **config)
        self.number = number
        self._cluster = cluster
        self.port, self.controller_port = free_port(), free_port()

    def _prepare(self) -> None:
        first = not self._properties_file.exists()
        lines = [f"{key}={value}" for key, value in self._properties().items()]
        self._properties_file.write_text("\n".join(lines) + "\n")
        if first:
            options = (f"--cluster-id={self._cluster.cluster_id}", "-c", str(self._properties_file))
            peers.Java()("kafka.tools.StorageTool", "format", *options)

    def _properties(self) -> dict[str, str]:
        own = {
            "node.id": str(self.number),
            "controller.quorum.voters": self._cluster.voters(),
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
        return {**super()._properties(), **own, **self.config}


class KafkaCluster(Brokers):
    """Brokers 1 to N. A killed one stays down until ``revive``."""

    def __init__(self, data_dir: Path, brokers: int = 3, **config: object) -> None:
        super().__init__(data_dir, brokers)
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
        settings = {key: str(value) for key, value in config.items()}
        self.members = {id: Member(data_dir / f"kafka-{id}", id, self, **settings) for id in self.ids}
        self.ports = {id: member.port for id, member in self.members.items()}

    def voters(self) -> str:
        """The value of ``controller.quorum.voters``."""
        return ",".join(f"{id}@127.0.0.1:{member.controller_port}" for id, member in self.members.items())

    def start(self) -> Self:
        """Starts all brokers. Returns when all accept requests."""
        for member in self.members.values():
            member.start(wait=False)
        for member in self.members.values():
            member.wait_ready(PATIENCE_S)
        return self

    def stop(self) -> int:
        """Sends SIGTERM to all at once. Returns the largest exit code."""
        for member in self.members.values():
            assert member.process is not None
            member.process.terminate()
        return max(member.stop() for member in self.members.values())

    def pid(self, broker: int) -> int:
        """Returns the pid of the broker, or 0 if it has no process."""
        member = self.members[broker]
        return member.pid if member.alive else 0

    def kill(self, broker: int) -> None:
        """Kills a broker with SIGKILL."""
        self.members[broker].kill()

    def log_dir(self, broker: int) -> Path:
        """Returns the broker's log dir."""
        return self.members[broker].log_dir

    def keep(self) -> None:
        """Does nothing, because no broker ends by itself."""

    def revive(self, broker: int) -> None:
        """Starts a killed broker. Returns when it accepts requests."""
        self.members[broker].start(wait=False).wait_ready(PATIENCE_S)

    def logged(self) -> str:
        """Returns the brokers' logs so far."""
        return "".join(member.logged() for member in self.members.values())

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            with contextlib.suppress(OSError):
                member.kill()
