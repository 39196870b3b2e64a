"""A cluster whose brokers a test kills, keeps down and halts, and whose files and nodes it reads."""

from __future__ import annotations

import fcntl
import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

from conformance.scenarios.cluster.trees import SqliteTree, Tree, ZooKeeperTree
from harness.faults.hanging import hanging
from harness.protocol.wire_client import Wire
from harness.servers.clusters import Cluster, Partition
from harness.waiting import until
from pyclient.keywords import with_dots

RESTART_S = 0.4
"""The seconds that a supervisor waits before it restarts a broker."""


class OpenCluster(Cluster):
    """A ``Cluster`` whose parts a test can reach."""

    @property
    def kind(self) -> str:
        """Names the kind of coordination store."""
        return "zookeeper" if self.zookeeper else "embedded"

    @contextmanager
    def tree(self) -> Iterator[Tree]:
        """Opens the nodes of the cluster's coordination store."""
        tree = ZooKeeperTree(self.zookeeper) if self.zookeeper else SqliteTree(self.data_dir / "coordination.db")
        try:
            yield tree
        finally:
            tree.close()

    # -- brokers that go and come --------------------------------------------------------------------

    @contextmanager
    def down(self, *brokers: int) -> Iterator[None]:
        """Kills brokers and keeps them down by holding the locks of their folders. All are back afterwards."""
        with ExitStack() as locks:
            for broker in brokers:
                locks.enter_context(self.locked(broker))
            until(lambda: not set(brokers) & set(self.brokers(without=brokers[0])), f"{brokers} to be missed")
            yield
        self.wait_for(*brokers)

    @contextmanager
    def locked(self, broker: int) -> Iterator[None]:
        """Kills a broker and keeps it down until the end, without waiting for the others to notice."""
        with (self.log_dir(broker) / ".lock").open("r+b") as lock:
            until(lambda: self._kill_and_lock(broker, lock.fileno()), f"the folder of broker {broker}")
            yield

    def _kill_and_lock(self, broker: int, fd: int) -> bool:
        self.kill(broker)
        deadline = time.monotonic() + RESTART_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.001)
            else:
                return True
        return False

    @contextmanager
    def hung(self, *brokers: int) -> Iterator[None]:
        """Hangs brokers until the end of the block, so that they look slow."""
        with ExitStack() as held:
            for broker in brokers:
                held.enter_context(hanging(self.pid(broker)))
            yield

    @contextmanager
    def halted(self, *brokers: int) -> Iterator[None]:
        """Halts brokers by a signal until the end."""
        for broker in brokers:
            self.halt(broker)
        try:
            yield
        finally:
            for broker in brokers:
                self.resume(broker)

    def wait_for(self, *brokers: int) -> None:
        """Waits until the brokers accept requests and know each other."""
        until(lambda: all(set(brokers) <= set(self.known_to(asked)) for asked in brokers), f"{brokers} to be there")

    @contextmanager
    def another(self, broker: int, **config: object) -> Iterator[Popen[bytes]]:
        """Starts another broker of this cluster, unknown to its supervisor, with its own settings; stops it at the end.
        """
        try:
            with self.joined(broker, **config) as process:
                yield process
        finally:
            until(lambda: broker not in self.brokers(), f"broker {broker} to be gone")

    # -- what it says of itself ------------------------------------------------------------------------

    def epoch(self) -> int:
        """Returns the controller's epoch from the store."""
        with self.tree() as tree:
            return int(tree.data("/controller_epoch") or -1)

    def controller_node(self) -> int:
        """Returns the broker that has ``/controller``, or -1."""
        with self.tree() as tree:
            data = tree.data("/controller")
        return -1 if data is None else int(json.loads(data)["brokerid"])

    def leader(self, topic: str, partition: int = 0, without: int | None = None) -> int:
        """Returns the leader of a partition, or -1."""
        return self.partitions(topic, without)[partition].leader

    def at(self, topic: str, without: int | None = None) -> Partition:
        """Returns the first partition."""
        return self.partitions(topic, without)[0]

    def await_sync(self, *topics: str) -> None:
        """Waits until every replica is in sync."""
        until(lambda: all(map(self.is_in_sync, topics)), f"{topics} to be in sync")

    def alter_topic(self, name: str, **config: object) -> None:
        """Sets keys of a topic; settings have ``_`` for ``.``."""
        with Wire(self.address(self.alive())) as wire:
            wire.alter_topic(name, **with_dots(config))

    # -- files -----------------------------------------------------------------------------------------

    def segments(self, broker: int, topic: str, partition: int = 0) -> dict[str, bytes]:
        """Returns the log files of a replica."""
        folder = self.partition_dir(broker, topic, partition)
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}

    def partition_dir(self, broker: int, topic: str, partition: int = 0) -> Path:
        """Returns a replica's folder."""
        return self.log_dir(broker) / f"{topic}-{partition}"

    def await_alike(self, topic: str) -> None:
        """Waits until all replicas of each partition have the same bytes."""
        until(lambda: all(self._alike(topic, number) for number in self.partitions(topic)), f"{topic} to be alike")

    def _alike(self, topic: str, partition: int) -> bool:
        replicas = self.partitions(topic)[partition].replicas
        first, *others = [self.segments(broker, topic, partition) for broker in replicas]
        return all(other == first for other in others)

    def checkpoint(self, broker: int, name: str) -> dict[tuple[str, int], int]:
        """Reads one of Kafka's checkpoint files: version, count, then ``topic partition offset``."""
        lines = (self.log_dir(broker) / name).read_text().splitlines()
        assert lines[0] == "0"
        assert int(lines[1]) == len(lines) - 2
        rows = [line.split(" ") for line in lines[2:]]
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}

    def terminate(self, broker: int) -> None:
        """Stops a broker by SIGTERM; the supervisor restarts it."""
        self.kill(broker, signal.SIGTERM)
