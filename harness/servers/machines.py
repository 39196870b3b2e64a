"""Several of our brokers as on machines of their own: one process each, on a ZooKeeper, without a supervisor.

Each broker has its own data folder. With a ``Network``, it also has an address in its own namespace. So a test can cut
it from other brokers, from ZooKeeper, or from its clients. A broker that has ended stays down until ``revive``.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Self

from harness.faults.network import Network
from harness.servers.brokers import OurBroker, free_port
from harness.servers.clusters import Brokers


class Machine(OurBroker):
    """One broker, with a number and a ZooKeeper. Its first log dir is ``broker-N``."""

    def __init__(self, data_dir: Path, number: int, zookeeper: str, disks: int = 1, **config: str) -> None:
        self.log_dirs = [data_dir / f"broker-{number}", *(data_dir / f"disk-{each}" for each in range(1, disks))]
        own = {"log_dirs": ",".join(map(str, self.log_dirs))} if disks > 1 else {}
        super().__init__(data_dir, **own, **config)
        self.number = number
        self.zookeeper = zookeeper
        self.port = free_port()

    def _command(self) -> list[str]:
        return [*super()._command(), "--node-id", str(self.number), "--zookeeper", self.zookeeper]

    @property
    def log_dir(self) -> Path:
        return self.data_dir / f"broker-{self.number}"


class Machines(Brokers):
    """Brokers 1 to N on one ZooKeeper (``host:port,…/chroot``)."""

    def __init__(
        self,
        data_dir: Path,
        zookeeper: str,
        brokers: int = 3,
        network: Network | None = None,
        *,
        disks: int = 1,
        **config: object,
    ) -> None:
        """``disks``: the number of log dirs of each broker. ``config``: Kafka's keys with ``_`` for ``.``."""
        super().__init__(data_dir, brokers)
        self.network = network
        self.environment: dict[str, str] = {}
        settings = {key: str(value) for key, value in config.items()}
        self.members = {id: Machine(data_dir / f"machine-{id}", id, zookeeper, disks, **settings) for id in self.ids}
        for id, member in self.members.items():
            if network is not None:
                member.host = network.address(id)
                member.wrapper = network.enter(id)
        self.ports = {id: member.port for id, member in self.members.items()}

    def address(self, broker: int) -> tuple[str, int]:
        """The address that clients connect to."""
        return self.members[broker].address

    def log_dir(self, broker: int) -> Path:
        """Returns the broker's log dir."""
        return self.members[broker].log_dir

    def log_dirs(self, broker: int) -> list[Path]:
        """Returns all log dirs of the broker."""
        return self.members[broker].log_dirs

    def start(self) -> Self:
        """Starts all brokers. Returns when all accept requests."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        for member in self.members.values():
            self._start(member)
        for member in self.members.values():
            member.wait_ready()
        return self

    def _start(self, member: Machine) -> None:
        words = [f"{name}={value}" for name, value in self.environment.items()]
        inside = self.network.enter(member.number) if self.network else []
        member.wrapper = [*inside, "env", *words] if words else inside
        member.start(wait=False)

    def stop(self) -> int:
        """Sends SIGTERM to all at once. Returns the largest exit code."""
        running = [member for member in self.members.values() if member.alive]
        for member in running:
            os.kill(member.pid, signal.SIGTERM)
        return max((member.stop() for member in running), default=0)

    def pid(self, broker: int) -> int:
        """Returns the pid of the broker, or 0 if it has no process."""
        member = self.members[broker]
        return member.pid if member.alive else 0

    def kill(self, broker: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Kills the broker's process. Nothing restarts it."""
        if number == signal.SIGKILL:
            self.members[broker].kill()
        else:
            self.members[broker].stop()

    def revive(self, broker: int) -> None:
        """Starts a broker that has ended, and ignores one that runs. Does not wait until it accepts requests."""
        if not self.members[broker].alive:
            self._start(self.members[broker])

    def keep(self) -> None:
        """Restarts brokers that have ended, as a machine's service manager does."""
        for broker in self.ids:
            self.revive(broker)

    def logged(self) -> str:
        """Returns the brokers' logs so far."""
        return "".join(f"--- broker {id}\n{member.logged()}" for id, member in self.members.items())

    def __exit__(self, *_: object) -> None:
        for id, member in self.members.items():
            self.resume(id)
            with contextlib.suppress(OSError):
                member.kill()
