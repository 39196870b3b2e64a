"""Several pybrokers under one supervisor, as processes that tests start, kill, halt and inspect.

Attributes that several processes share with one (``Broker``) have the same names: ``bootstrap``, ``start``, ``stop``,
``logged``.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from harness.protocol.wire_client import Wire
from harness.servers.brokers import START_TIMEOUT_S, BrokerError, free_port
from harness.waiting import until
from pyclient.keywords import key_with_dots, with_dots

READY = re.compile(r"pybroker ready: bootstrap=(\S+) pids=([\d,]+)\n")
ANSWER_S = 2.0
PATIENCE_S = 5.0


class Partition(NamedTuple):
    """A partition in a Metadata response."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def is_running(pid: int) -> bool:
    """Returns whether the process exists and has not ended."""
    try:
        return bool(pid) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def send(pid: int, number: signal.Signals) -> None:
    """Sends a signal to a process that may have ended. Sends nothing to pid 0, because that means our own process
    group.
    """
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def consecutive_ports(count: int) -> int:
    """Returns the first of several free ports in a row."""

    def look() -> int:
        found = [free_port() for _ in range(count)]
        return found[0] if found == list(range(found[0], found[0] + count)) else 0

    return until(look, f"{count} free ports in a row", pause_s=0)


class Brokers(ABC):
    """Several brokers, on 127.0.0.1 by default, and the metadata that they return."""

    def __init__(self, data_dir: Path, brokers: int) -> None:
        self.data_dir = data_dir
        self.ids = tuple(range(1, brokers + 1))
        self.ports: dict[int, int] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join("{}:{}".format(*self.address(broker)) for broker in self.ports)

    def address(self, broker: int) -> tuple[str, int]:
        """The address that clients connect to."""
        return "127.0.0.1", self.ports[broker]

    @abstractmethod
    def start(self) -> Self:
        """Starts all brokers. Returns when all accept requests."""

    @abstractmethod
    def stop(self) -> int:
        """Stops all brokers in order. Returns the exit code."""

    @abstractmethod
    def pid(self, broker: int) -> int:
        """Returns the pid of the broker, or 0 if it has no process."""

    @abstractmethod
    def kill(self, broker: int) -> None:
        """Kills a broker with SIGKILL."""

    @abstractmethod
    def keep(self) -> None:
        """Restarts brokers that have ended by themselves, as service managers do."""

    @abstractmethod
    def log_dir(self, broker: int) -> Path:
        """Returns the broker's log dir, the first of its disks."""

    def log_dirs(self, broker: int) -> list[Path]:
        """Returns all log dirs of the broker."""
        return [self.log_dir(broker)]

    def __enter__(self) -> Self:
        return self.start()

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Ends every process."""

    def metadata(self, topic: str, without: int | None = None) -> Any:
        """Returns Metadata from the first broker that answers, except ``without``."""

        def ask() -> Any:
            for broker in self.ports:
                if broker != without:
                    try:
                        with Wire(self.address(broker), ANSWER_S) as wire:
                            return wire.ask("Metadata", 12, topics=[{"name": topic}], allow_auto_topic_creation=False)
                    except OSError:
                        continue
            return None

        return until(ask, "a broker that answers")

    def controller(self, without: int | None = None) -> int:
        """Returns the controller's id."""
        return int(self.metadata("-", without).controller_id)

    def partitions(self, topic: str, without: int | None = None) -> dict[int, Partition]:
        """Returns the partitions of a topic."""
        rows = self.metadata(topic, without).topics[0].partitions
        return {
            row.partition_index: Partition(row.leader_id, tuple(row.replica_nodes), tuple(row.isr_nodes))
            for row in rows
        }

    def is_in_sync(self, topic: str, without: int | None = None) -> bool:
        """Returns whether every replica of every partition is in sync, and every partition has a leader."""
        found = self.partitions(topic, without).values()
        return bool(found) and all(len(row.isr) == len(row.replicas) and row.leader >= 0 for row in found)

    def is_led(self, topic: str) -> bool:
        """Returns whether the leader of each partition itself says that it leads. A leader may learn of its election
        later than other brokers.
        """
        numbers = defaultdict(list)
        for number, row in self.partitions(topic).items():
            numbers[row.leader].append(number)
        return all(leader >= 0 and self.leads(leader, topic, *numbers[leader]) for leader in numbers)

    def leads(self, broker: int, topic: str, *partitions: int) -> bool:
        """Returns whether a broker itself says that it leads these partitions."""
        rows = [{"partition_index": each, "timestamp": -1, "current_leader_epoch": -1} for each in partitions]
        topics = [{"name": topic, "partitions": rows}]
        try:
            with Wire(self.address(broker)) as wire:
                reply = wire.ask("ListOffsets", 7, replica_id=-1, isolation_level=0, topics=topics)
        except OSError:
            return False
        return all(row.error_code == 0 for row in reply.topics[0].partitions)

    def brokers(self, without: int | None = None) -> list[int]:
        """Returns the ids of the registered brokers."""
        return sorted(row.node_id for row in self.metadata("-", without).brokers)

    def reassign(self, topic: str, replicas: dict[int, tuple[int, ...]]) -> None:
        """Reassigns partitions. Returns when the new replicas, and only they, are in sync."""
        rows = [{"partition_index": number, "replicas": list(to)} for number, to in replicas.items()]
        topics = [{"name": topic, "partitions": rows}]
        with Wire(self.address(1)) as wire:
            reply = wire.ask("AlterPartitionReassignments", 0, timeout_ms=30_000, topics=topics)
        assert reply.error_code == 0, reply
        assert all(row.error_code == 0 for row in reply.responses[0].partitions), reply

        def done() -> bool:
            found = self.partitions(topic)
            there = {number: (set(found[number].replicas), set(found[number].isr)) for number in replicas}
            return all(there[number] == (set(to), set(to)) for number, to in replicas.items())

        until(done, f"{topic} to be at {replicas}")

    def create_topic(self, name: str, partitions: int, replicas: int, **config: object) -> None:
        """Creates a topic and waits for its leaders. Settings have ``_`` for ``.``."""
        self._created(name, self.try_to_create(name, partitions, replicas, (), **config))

    def place_topic(self, name: str, replicas: Mapping[int, Sequence[int]], **config: object) -> None:
        """Creates a topic with these replicas, the leader first, and waits for its leaders."""
        rows = [{"partition_index": number, "broker_ids": list(ids)} for number, ids in replicas.items()]
        self._created(name, self.try_to_create(name, -1, -1, rows, **config))

    def _created(self, name: str, row: Any) -> None:
        assert row.error_code == 0, row
        until(lambda: self.is_in_sync(name) and self.is_led(name), f"{name} to have leaders")

    def try_to_create(
        self, name: str, partitions: int, replicas: int, assignments: Sequence[Any] = (), **config: object
    ) -> Any:
        """Sends a CreateTopics request, and returns the topic's row of the reply."""
        configs = [{"name": key_with_dots(key), "value": str(value)} for key, value in config.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas}
        topic |= {"assignments": list(assignments), "configs": configs}
        with Wire(self.address(self.alive())) as wire:
            return wire.ask("CreateTopics", 5, topics=[topic], timeout_ms=30_000, validate_only=False).topics[0]

    def alive(self) -> int:
        """Returns a broker that answers."""
        return until(lambda: next(filter(self.known_to, self.ids), 0), "a broker that answers")

    def known_to(self, broker: int) -> list[int]:
        """Returns the brokers that this one knows, or none if it does not answer."""
        try:
            with Wire(self.address(broker), PATIENCE_S) as wire:
                return [row.node_id for row in wire.ask("Metadata", 12, topics=[]).brokers]
        except OSError:
            return []

    def halt(self, broker: int) -> None:
        """Halts the broker until ``resume``. It keeps its connections."""
        send(self.pid(broker), signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """Resumes a halted broker."""
        send(self.pid(broker), signal.SIGCONT)


class Cluster(Brokers):
    """``python -m pybroker --processes N``. The brokers have the ids 1 to N."""

    def __init__(self, data_dir: Path, brokers: int = 3, zookeeper: str | None = None, **config: object) -> None:
        """``zookeeper``: ``host:port,…/chroot``; ``config``: Kafka's keys with ``_`` for ``.``."""
        super().__init__(data_dir, brokers)
        self.zookeeper = zookeeper
        self.config = {key: str(value) for key, value in with_dots(config).items()}
        #: Environment variables that the brokers get in addition to ours.
        self.environment: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.log_file = data_dir.with_name(data_dir.name + ".stderr")

    def log_dir(self, broker: int) -> Path:
        """Returns the broker's log dir."""
        other = self._folder_of(broker)
        return (other if other.exists() else self.data_dir) / f"broker-{broker}"

    def revive(self, broker: int) -> None:
        """Waits until the supervisor has restarted a killed broker."""
        until(lambda: is_running(self.pid(broker)), f"broker {broker} to have another process")

    def start(self) -> Self:
        """Starts all brokers. Returns when all accept requests.

        Raises:
            BrokerError: they did not accept requests in time.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        port = next(iter(self.ports.values()), 0)
        place = ("--zookeeper", self.zookeeper) if self.zookeeper else ()
        several = ("--processes", len(self.ids), "--restart-delay", 0.5)
        self.process, ports = self._spawn(self.data_dir, self.config, *several, "--port", port, *place)
        self.ports = dict(zip(self.ids, ports, strict=True))
        return self

    def _spawn(
        self, data_dir: Path, config: Mapping[str, str], *own: object
    ) -> tuple[subprocess.Popen[bytes], list[int]]:
        """Starts a process and waits for its ready line. Returns the process and its ports."""
        command = [sys.executable, "-m", "pybroker", *map(str, own), "--data-dir", str(data_dir)]
        for key, value in config.items():
            command += ["--set", f"{key}={value}"]
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        line = process.stdout.readline().decode() if ready else ""
        match = READY.fullmatch(line)
        if match is None:
            process.kill()
            raise BrokerError(f"no ready line but {line!r}\n{self.logged()[-3000:]}")
        return process, [int(address.rpartition(":")[2]) for address in match[1].split(",")]

    @contextlib.contextmanager
    def joined(self, broker: int, **config: object) -> Iterator[subprocess.Popen[bytes]]:
        """Starts another broker, outside the supervisor and with settings of its own. It is killed at the end if it has
        not ended before.
        """
        own = {key: str(value) for key, value in with_dots(config).items()}
        place = ("--zookeeper", self.zookeeper) if self.zookeeper else ("--join",)
        folder = self._folder_of(broker) if self.zookeeper else self.data_dir
        process, [self.ports[broker]] = self._spawn(
            folder, {**self.config, **own}, "--node-id", broker, "--port", 0, *place
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
            del self.ports[broker]

    def _folder_of(self, broker: int) -> Path:
        """Returns the data folder of a ``joined`` broker on a ZooKeeper."""
        return self.data_dir / f"other-{broker}"

    def logged(self) -> str:
        """Returns the log of the supervisor and the brokers so far."""
        return self.log_file.read_text(errors="replace")

    def stop(self) -> int:
        """Sends SIGTERM to the supervisor and returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        brokers = [pid for pid in map(self.pid, self.ids) if pid]
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        for pid in brokers:
            send(pid, signal.SIGKILL)

    # -- one broker ------------------------------------------------------------------------------

    def pid(self, broker: int) -> int:
        """Returns the pid of the broker, or 0 if it has no process."""
        try:
            return int((self.log_dir(broker) / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def keep(self) -> None:
        """Does nothing, because the supervisor restarts the brokers."""

    def kill(self, broker: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Kills the broker's process. The supervisor starts another one."""
        send(self.pid(broker), number)
