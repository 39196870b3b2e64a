"""Brokers under test, as processes: ours and the real one, with the same methods.

A test starts, stops, kills and restarts a broker without knowing which one it is. ``--broker=kafka`` runs the suite
against the real one, which proves the tests.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Self

from harness import peers
from harness.protocol.wire_client import Wire
from pyclient.keywords import key_with_dots, with_dots

START_TIMEOUT_S = 120.0
#: A JVM starts slowly on a machine that is busy with other tests.
KAFKA_START_TIMEOUT_S = 180.0
WORKERS = 8
LOWEST_PORT, PORTS_EACH = 16_384, 2_048
READY = re.compile(r"pybroker ready: bootstrap=(\S+):(\d+) pids=(\d+)\n")


class BrokerError(RuntimeError):
    """Raised if a broker did not start or stop as it should. The text ends with the broker's log."""


def _ports() -> Iterator[int]:
    """Yields the ports of this process. Other pytest workers, and the kernel (from 32768 on), assign other ports."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    own = range(LOWEST_PORT + worker * PORTS_EACH, LOWEST_PORT + (worker + 1) * PORTS_EACH)
    start = os.getpid() % PORTS_EACH  # another run of pytest begins at another port
    yield from itertools.cycle([*own[start:], *own[:start]])


_own_ports = _ports()


def free_port(host: str = "127.0.0.1") -> int:
    """Returns a free port that no other caller gets before this one listens on it."""
    for port in itertools.islice(_own_ports, PORTS_EACH):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            return port
    raise BrokerError(f"none of {PORTS_EACH} ports is free")


class Broker(ABC):
    """One broker process on 127.0.0.1 with its own data folder.

    ``config`` holds Kafka's keys; a change of it takes effect with the next start. The port stays the same over
    restarts.
    """

    name: str

    def __init__(self, data_dir: Path, **config: str) -> None:
        """``config``: Kafka's keys, as they are or with ``_`` for ``.``."""
        self.data_dir = data_dir
        self.config: dict[str, str] = {}
        self.configure(**config)
        self.host = "127.0.0.1"
        self.port = 0
        #: The start of the command line: strace, nsenter; it must become the broker's own process.
        self.wrapper: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.log_file = data_dir.with_name(data_dir.name + ".stderr")

    def configure(self, **config: object) -> None:
        """Sets Kafka's keys, with ``_`` for ``.``, for the next start."""
        self.config |= {key_with_dots(key): str(value) for key, value in config.items()}

    @property
    @abstractmethod
    def log_dir(self) -> Path:
        """The folder that contains the ``topic-partition`` folders."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def listeners(self) -> dict[str, str]:
        """The addresses of the listeners for clients, by security protocol."""
        return {"PLAINTEXT": self.bootstrap}

    @property
    def librdkafka(self) -> dict[str, str]:
        """The settings with which librdkafka connects."""
        return {"bootstrap.servers": self.bootstrap}

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def pid(self) -> int:
        """The process that serves clients."""
        if self.process is None:
            raise BrokerError("the broker was not started")
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        return self.log_dir / f"{topic}-{partition}"

    def make_topic(self, name: str, partitions: int = 1, **config: object) -> None:
        """Creates a topic. Settings have ``_`` for ``.``."""
        with Wire(self.address) as wire:
            wire.create_topic(name, partitions, with_dots(config))

    def leader_of(self, place: object) -> tuple[str, int]:
        """Returns the address of a partition's leader."""
        return self.address

    def logged(self) -> str:
        """Returns the broker's log so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self, *, wait: bool = True) -> Self:
        """Starts the process. With ``wait``, returns when it accepts requests.

        Raises:
            BrokerError: it ended, or was not ready in time.
        """
        if self.alive:
            raise BrokerError("the broker runs already")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._prepare()
        with self.log_file.open("ab") as log:
            self.process = self._spawn(log)
        if wait:
            self.wait_ready()
        return self

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self.wrapper, *self._command()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )

    @abstractmethod
    def _prepare(self) -> None:
        """Writes the files that a start needs."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Returns the command line of the process."""

    @abstractmethod
    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns when the broker serves requests.

        Raises:
            BrokerError: the process ended or the time is over.
        """

    def kill(self) -> None:
        """Kills the process with SIGKILL, and waits until it is gone."""
        self._end(signal.SIGKILL, 30)

    def stop(self, timeout_s: float = 60) -> int:
        """Sends SIGTERM and returns the exit code."""
        return self._end(signal.SIGTERM, timeout_s)

    def _end(self, number: signal.Signals, timeout_s: float) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            os.kill(self.pid, number)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise BrokerError(f"still running {timeout_s} s after {number.name}{self._tail()}") from None
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def restart(self) -> Self:
        """Stops the broker in order and starts it again."""
        self.stop()
        return self.start()

    def crash(self) -> Self:
        """Kills the broker with SIGKILL and starts it again."""
        self.kill()
        return self.start()

    def _tail(self) -> str:
        return "\n" + "\n".join(self.logged().splitlines()[-30:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


class OurBroker(Broker):
    """Runs ``python -m pybroker`` as a user does."""

    name = "ours"

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "broker-1"

    def _prepare(self) -> None:
        """Does nothing: this broker needs no files before it starts."""

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "pybroker", "--data-dir", str(self.data_dir)]
        if len(self.listeners) > 1:
            command += ["--set", f"listeners={_named(self.listeners)}"]
        elif "listeners" not in self.config:
            command += ["--host", self.host, "--port", str(self.port)]
        for key, value in self.config.items():
            command += ["--set", f"{key}={value}"]
        return command

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        line = self.process.stdout.readline().decode() if ready else ""
        match = READY.fullmatch(line)
        if match is None:
            self.process.kill()
            code = self.process.wait()
            raise BrokerError(f"no ready line but {line!r}, exit code {code}{self._tail()}")
        assert int(match[3]) == self.pid, "a single broker runs in the process that was started"
        if self.port == 0:  # otherwise the line may name another one: advertised.listeners
            self.port = int(match[2])


class RealKafka(Broker):
    """Apache Kafka in KRaft mode, one node that is broker and controller."""

    name = "kafka"
    heap = "1g"
    _controller_port = 0

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def _properties_file(self) -> Path:
        return self.data_dir / "server.properties"

    def _prepare(self) -> None:
        first = not self._properties_file.exists()
        if first:
            self.port, self._controller_port = self.port or free_port(), free_port()
        self._properties_file.write_text(_properties(self._properties()))
        if first:
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
            options = (f"--cluster-id={cluster_id}", "-c", str(self._properties_file))
            peers.Java()("kafka.tools.StorageTool", "format", *options)

    def _properties(self) -> dict[str, str]:
        own = self.listeners
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": _named(own | {"CONTROLLER": f"127.0.0.1:{self._controller_port}"}),
            "advertised.listeners": _named(own),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in own)]),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.config,
        }

    def _command(self) -> list[str]:
        return [*peers.jvm(self.heap, ()), "kafka.Kafka", str(self._properties_file)]

    def wait_ready(self, timeout_s: float = KAFKA_START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.alive:
            if self._serves():
                return
            time.sleep(0.02)
        what = f"is not ready after {timeout_s} s" if self.alive else "has ended while it started"
        self.kill()
        raise BrokerError(f"Kafka {what}{self._tail()}")

    def _serves(self) -> bool:
        """Returns whether the broker has joined its own cluster. The broker itself does not print that."""
        try:
            with Wire(self.address, 5) as wire:
                return bool(wire.ask("Metadata", 1, topics=[]).brokers)
        except OSError:
            return False


KINDS: Mapping[str, type[Broker]] = {"ours": OurBroker, "kafka": RealKafka}


def _named(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in listeners.items())


def _properties(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
