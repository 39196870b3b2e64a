"""Measures thousands of partitions in one broker, and thousands of idle connections to it."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable

from conformance.bench.cases import Figures
from harness import processes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

PARTITIONS = 10_000
CONNECTIONS = 15_000
PARTITIONS_A_TOPIC = 1_000


def many_partitions(broker: Broker, partitions: int = PARTITIONS) -> Figures:
    """Creates the partitions, then restarts the broker, in order and after a kill -9. Each time it waits until the
    broker serves.
    """
    start = time.monotonic()
    with Wire(broker.address, 120) as wire:
        for number in range(partitions // PARTITIONS_A_TOPIC):
            wire.create_topic(f"wide-{number}", PARTITIONS_A_TOPIC, {})
    created_s = time.monotonic() - start
    stop_s = _timed(broker.stop)
    restart_s = _timed(broker.start)
    broker.kill()
    crash_s = _timed(broker.start)
    return {
        "partitions": partitions,
        "create_s": created_s,
        "stop_s": stop_s,
        "restart_s": restart_s,
        "restart_after_kill_s": crash_s,
        "rss_mb": processes.rss_kib(broker.pid) * 1024 / 1e6,
    }


def _timed(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def idle_connections(broker: Broker, connections: int = CONNECTIONS) -> Figures:
    """Opens connections, sends one request on each, and leaves them idle. Measures the memory that each takes in the
    broker.

    Raises:
        OSError: the machine allows this process fewer open files than it needs.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Wire(broker.address) as wire:
        wire.ask("ApiVersions", 0)
    before = processes.rss_kib(broker.pid)
    held: list[Wire] = []
    try:
        for _ in range(connections):
            one = Wire(broker.address)
            held.append(one)
            one.ask("ApiVersions", 0)
        after = processes.rss_kib(broker.pid)
        held[-1].ask("Metadata", 1, topics=[])
    finally:
        for one in held:
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            one.close()
    return {"connections": connections, "kib_per_connection": (after - before) / connections}
