"""The event loop of a broker hangs, as in a write that does not return; the others continue without it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from harness.servers.ensemble import Ensemble
from pybroker.tests.processes import fleet, is_alive
from pybroker.tests.waiting import until
from pyclient import Admin, NewTopic, Producer

pytestmark = pytest.mark.nightly

HANGS = """
import os, signal, sys

if "--member" in sys.orig_argv:
    signal.signal(signal.SIGUSR1, lambda *_: open({path!r}.replace("PID", str(os.getpid())), "w").write("x"))
"""
"""On SIGUSR1 the loop's thread opens a pipe, and is blocked until somebody reads from it."""


class Hang:
    """A broker process that can be halted and resumed."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._pipe = folder / f"pipe-{pid}"
        self._pid = pid
        os.mkfifo(self._pipe)

    def begin(self) -> None:
        os.kill(self._pid, signal.SIGUSR1)

    def end(self) -> None:
        self._pipe.read_bytes()


@contextmanager
def told(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def controller(client: KazooClient) -> int:
    with suppress(Exception):
        return int(json.loads(client.get("/controller")[0])["brokerid"])
    return 0


def registered(bootstrap: str) -> set[int]:
    """Returns the brokers that one of these brokers knows. A client waits if it has asked one that hangs."""
    with Admin(bootstrap, request_timeout_ms=2000) as admin, suppress(Exception):
        return {each.id for each in admin.describe_cluster().brokers}
    return {0, 1, 2, 3}  # not known


def test_a_hanging_controller_is_replaced_on_zookeeper_and_rejoins_afterwards(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGS.format(path=str(tmp_path / "pipe-PID")))
    env = {"PYTHONPATH": str(tmp_path)}
    settings = ("--set", "zookeeper.session.timeout.ms=3000", "--set", "default.replication.factor=3")
    with Ensemble(tmp_path / "zookeeper") as zookeeper:
        place = ("--zookeeper", f"{zookeeper.hosts}/kafka", "--processes", 3, *settings)
        with fleet(tmp_path / "data", *place, env=env) as running, told(f"{zookeeper.hosts}/kafka") as client:
            hung = controller(client)
            hang = Hang(tmp_path, running.pids[hung - 1])
            others = ",".join(f"127.0.0.1:{port}" for at, port in enumerate(running.ports, 1) if at != hung)
            with Admin(others) as admin:
                admin.create_topics(NewTopic("t", num_partitions=3))
            hang.begin()
            try:
                until(lambda: controller(client) not in (0, hung))
                until(lambda: hung not in registered(others))
                with Admin(others, request_timeout_ms=5000) as admin, Producer(others) as producer:
                    admin.create_topics(NewTopic("later", num_partitions=1, replication_factor=2))
                    for partition in range(3):
                        producer.send("t", value=b"v", partition=partition).result(timeout=30)
                assert is_alive(running.pids[hung - 1])
            finally:
                hang.end()
            until(lambda: registered(others) == {1, 2, 3})
            with Admin(others) as admin:
                until(lambda: all(len(p.isr) == 3 for p in admin.describe_topics(["t"])["t"].partitions))
            assert running.stop().code == 0


def test_a_hanging_broker_ends_soon_after_its_supervisor(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGS.format(path=str(tmp_path / "pipe-PID")))
    with fleet(tmp_path / "data", "--processes", 2, env={"PYTHONPATH": str(tmp_path)}) as running:
        Hang(tmp_path, running.pids[1]).begin()
        running.process.kill()
        until(lambda: not any(map(is_alive, running.pids)))
