"""Kafka Connect's workers as processes, and a client of their REST interface."""

from __future__ import annotations

import json
import random
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.applications.process import Application
from harness import peers
from harness.servers.brokers import Broker
from harness.waiting import until
from pyclient.keywords import key_with_dots

WAIT_S = 120
FILE = "org.apache.kafka.connect.file.FileStream"
COMMON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "SERVICE_LOAD",
    "offset.flush.interval.ms": "1000",
    "reconnect.backoff.ms": "10",
    "reconnect.backoff.max.ms": "100",
    "producer.reconnect.backoff.ms": "10",
    "producer.reconnect.backoff.max.ms": "100",
    "consumer.reconnect.backoff.ms": "10",
    "consumer.reconnect.backoff.max.ms": "100",
}
DISTRIBUTED = {
    "group.id": "workers",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "exactly.once.source.support": "enabled",
}


def source(path: Path, topic: str, **more: str) -> dict[str, str]:
    """Returns the configuration of a connector that writes a file's lines into a topic."""
    settings = {"connector.class": f"{FILE}SourceConnector", "tasks.max": "1", "file": str(path), "topic": topic}
    return {**settings, **_dotted(more)}


def sink(path: Path, topic: str, **more: str) -> dict[str, str]:
    """Returns the configuration of a connector that writes a topic's records into a file, a line each."""
    settings = {"connector.class": f"{FILE}SinkConnector", "tasks.max": "1", "file": str(path), "topics": topic}
    return {**settings, "consumer.override.auto.offset.reset": "earliest", **_dotted(more)}


def standalone(broker: Broker, folder: Path, connectors: Mapping[str, Mapping[str, str]]) -> Application:
    """Returns a worker that keeps its offsets in a file and runs these connectors."""
    worker = {
        **COMMON,
        "bootstrap.servers": broker.bootstrap,
        "offset.storage.file.filename": str(folder / "offsets"),
        "listeners": "HTTP://127.0.0.1:0",
    }
    files = [_properties(folder / "worker.properties", worker)]
    for name, config in connectors.items():
        files.append(_properties(folder / f"{name}.properties", {"name": name, **config}))
    return _worker("ConnectStandalone", files, folder / "standalone.log")


class DistributedWorker(Application):
    """A worker that keeps everything in topics. Exactly-once for sources is on, unless ``settings`` say otherwise."""

    def __init__(
        self, broker: Broker, folder: Path, name: str = "worker", settings: Mapping[str, str] | None = None
    ) -> None:
        self._url = f"http://127.0.0.1:{_quiet_port()}"
        worker = {
            **COMMON,
            **DISTRIBUTED,
            "bootstrap.servers": broker.bootstrap,
            "listeners": self._url.replace("http", "HTTP"),
            **(settings or {}),
        }
        file = _properties(folder / f"{name}.properties", worker)
        made = _worker("ConnectDistributed", [file], folder / f"{name}.log")
        super().__init__(made.command, made.log_file)

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Creates or changes a connector."""
        until(lambda: self._ask("PUT", f"/connectors/{name}/config", config), f"{name} configured", WAIT_S)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Creates or changes a connector, and waits until the connector and its task run."""
        self.put(name, config)
        self.await_running(name)

    def await_running(self, name: str) -> None:
        """Waits until the connector and its task run."""
        try:
            until(lambda: self.states(name) == ["RUNNING", "RUNNING"], f"{name} running", WAIT_S)
        except AssertionError as error:
            told = self._ask("GET", f"/connectors/{name}/status")
            raise AssertionError(f"{error}\n{told}\n{self.logged()[-3000:]}") from error

    def states(self, name: str) -> list[str]:
        """Returns the state of the connector, then those of its tasks; empty while they are unknown."""
        status = self._ask("GET", f"/connectors/{name}/status")
        if status is None:
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def check_running(self, name: str) -> None:
        """Raises:
        AssertionError: the worker has ended, or a task of the connector has failed.
        """
        self.check()
        assert "FAILED" not in self.states(name), self._ask("GET", f"/connectors/{name}/status")

    def failure(self, name: str) -> str:
        """Returns why tasks of the connector have failed, or an empty text."""
        status = self._ask("GET", f"/connectors/{name}/status")
        return "" if status is None else "".join(task.get("trace", "") for task in status["tasks"])

    def offsets(self, name: str) -> Any:
        """Returns the offsets that the connector has stored."""
        return self._ask("GET", f"/connectors/{name}/offsets")

    def delete(self, name: str) -> None:
        until(lambda: self._ask("DELETE", f"/connectors/{name}") is not None, f"{name} deleted", WAIT_S)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """Returns the answer, ``{}`` for an empty one, or None while the worker does not answer or is rebalancing."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(asked, timeout=60) as reply:
                return json.loads(reply.read() or b"{}")
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409, 500, 503):
                raise AssertionError(f"{error.code}: {error.read().decode()}") from error
            return None
        except OSError:
            self.check()
            return None


def _quiet_port() -> int:
    """Returns a free port that the kernel gives no client's connection, so that it is still free at a restart."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def _worker(main_class: str, files: list[Path], log_file: Path) -> Application:
    more = [peers.compiled("AppInfoParser")]  # for the connectors, which are older than the workers
    command = [*peers.jvm("512m", more=more), f"org.apache.kafka.connect.cli.{main_class}", *map(str, files)]
    return Application(command, log_file)


def _dotted(settings: Mapping[str, str]) -> dict[str, str]:
    return {key_with_dots(key): settings[key] for key in settings}


def _properties(path: Path, values: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path
