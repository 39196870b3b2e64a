"""Thousands of clients at once, each a connection that writes and reads: S100."""

from __future__ import annotations

import select
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from conformance.conftest import Counted
from conformance.drivers.base import Place
from conformance.scenarios.cluster.brokers import OpenCluster
from conformance.scenarios.cluster.traffic import traffic, whole_log

PROCESSES = 2
PATIENCE_S = 240.0
PARTITIONS = 6


@pytest.mark.parametrize("clients", [1_000, pytest.param(5_000, marks=[pytest.mark.campaign, pytest.mark.row])])
def test_s100_many_clients_write_and_read_at_once(
    embedded: OpenCluster, topic: str, clients: int, counted: Counted
) -> None:
    """All clients connect before the first one writes; librdkafka and our SDK continue meanwhile."""
    orders = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
    embedded.place_topic(topic, {number: orders[number % 3] for number in range(PARTITIONS)}, min_insync_replicas=2)
    embedded.place_topic(f"{topic}-others", {0: (1, 2, 3), 1: (2, 3, 1)}, min_insync_replicas=2)
    leaders = [row.leader for _, row in sorted(embedded.partitions(topic).items())]
    addresses = ["{}:{}".format(*embedded.address(leader)) for leader in leaders]
    with traffic(embedded, f"{topic}-others", ("confluent", "pyclient")) as flowing, ExitStack() as ended:
        crowds = []
        for number in range(PROCESSES):
            first, end = clients * number // PROCESSES, clients * (number + 1) // PROCESSES
            words = [topic, str(PARTITIONS), str(end - first), str(first), *addresses]
            command = [sys.executable, "-m", "conformance.scenarios.cluster.many", *words]
            crowd = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            ended.callback(crowd.wait)
            ended.callback(crowd.kill)
            crowds.append(crowd)
        for crowd in crowds:
            assert _line(crowd) == "connected\n"
        flowing.goes_on()
        connections = sum(_connections(embedded, broker) for broker in embedded.ids)
        assert connections >= clients
        for crowd in crowds:
            assert crowd.stdin is not None
            crowd.stdin.write("\n")
            crowd.stdin.flush()
        assert sum(int(_line(crowd).removeprefix("done ")) for crowd in crowds) == clients
        flowing.goes_on()
    found = [value for number in range(PARTITIONS) for _, value in whole_log(embedded, Place(topic, number))]
    assert sorted(found) == sorted(b"the record of client %d" % number for number in range(clients))
    counted("at once", connections=connections, that_wrote_and_read=clients)


def _line(process: subprocess.Popen[str]) -> str:
    """Returns the next line that the process prints."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    assert readable, f"nothing came in {PATIENCE_S:.0f} s"
    return process.stdout.readline()


def _connections(cluster: OpenCluster, broker: int) -> int:
    """Counts the broker's open connections, as the kernel knows them."""
    port = f":{cluster.ports[broker]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)
