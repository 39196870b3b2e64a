"""Restarts, kills and halts of embedded brokers, one or one of several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.tests.processes import is_alive
from pybroker.tests.waiting import until
from pyclient import Admin, Producer
from pyclient.errors import KafkaError

pytestmark = pytest.mark.nightly


def topics(broker: pybroker.EmbeddedBroker) -> set[str]:
    with Admin(broker.bootstrap_servers) as admin:
        return set(admin.list_topics())


def ids(broker: pybroker.EmbeddedBroker) -> set[int]:
    """Returns the ids of the brokers in the metadata."""
    with Admin(broker.bootstrap_servers) as admin:
        return {node.id for node in admin.describe_cluster().brokers}


@pytest.fixture(scope="module")
def two() -> Iterator[pybroker.EmbeddedBroker]:
    with pybroker.run(processes=2) as brokers:
        yield brokers


def test_a_restarted_broker_has_its_port_its_data_and_another_process() -> None:
    with pybroker.run() as broker:
        pid, address = broker.pid, broker.bootstrap_servers
        with Admin(address) as admin:
            admin.create_topics("kept")
        broker.restart()
        assert broker.bootstrap_servers == address
        assert broker.pids == (broker.pid,) != (pid,)
        assert topics(broker) == {"kept"}
        assert broker.log.count("stopped") == 1


def test_a_killed_broker_stays_away_until_it_is_restarted_and_has_lost_nothing() -> None:
    with pybroker.run() as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("kept", value=b"1").result(30)
        broker.kill()
        assert not is_alive(broker.pid)
        assert broker.data_dir.exists()
        with pytest.raises(RuntimeError, match="not running"):
            broker.kill()
        broker.restart()
        assert topics(broker) == {"kept"}
    assert "stopped" in broker.log
    assert not broker.data_dir.exists()


def test_a_broker_killed_while_it_creates_logs_creates_the_rest_when_it_is_back() -> None:
    partitions = 3000
    with pybroker.run() as broker, Admin(broker.bootstrap_servers) as admin:
        with Producer(broker.bootstrap_servers) as producer:
            admin.create_topics("wide", num_partitions=partitions)
            producer.send("wide", value=b"first", partition=partitions - 1).result(30)
            broker.kill()
        broker.restart()
        with Producer(broker.bootstrap_servers) as producer:
            sent = [producer.send("wide", value=b"later", partition=n) for n in range(partitions)]
            assert [each.result(60).offset for each in sent] == [0] * (partitions - 1) + [1]


def test_a_suspended_broker_answers_nothing_until_it_continues() -> None:
    with pybroker.run() as broker:
        broker.pause()
        with pytest.raises(KafkaError), Admin(broker.bootstrap_servers, default_api_timeout_ms=300) as admin:
            admin.list_topics()
        broker.resume()
        assert topics(broker) == set()


def test_a_suspended_broker_is_closed_at_once_and_cleanly() -> None:
    with pybroker.run() as broker:
        os.kill(broker.pid, signal.SIGSTOP)
    assert "stopped" in broker.log, "it was killed"


@pytest.mark.parametrize("processes", [1, 2])
def test_nothing_is_left_of_halted_brokers_when_their_owner_is_killed(processes: int) -> None:
    script = (
        f"import pybroker\nb = pybroker.run({processes})\nb.pause()\nprint(*b.pids, b.data_dir, flush=True)\ninput()"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    *pids, folder = owner.stdout.readline().split()
    owner.kill()
    owner.communicate()
    try:
        until(lambda: not any(is_alive(int(pid)) for pid in pids) and not Path(folder).exists())
    finally:
        for pid in filter(is_alive, map(int, pids)):
            os.kill(pid, signal.SIGKILL)


def test_one_of_several_is_killed_and_stays_away_until_it_is_restarted(two: pybroker.EmbeddedBroker) -> None:
    first, second = two.pids
    two.kill(2)
    assert not is_alive(second)
    until(lambda: ids(two) == {1})
    two.restart(2)
    until(lambda: ids(two) == {1, 2})
    assert two.pids[0] == first
    assert two.pids[1] != second


def test_one_of_several_is_restarted_in_order(two: pybroker.EmbeddedBroker) -> None:
    first, second = two.pids
    two.restart(1)
    assert two.pids[1] == second
    assert two.pids[0] != first
    assert not is_alive(first)


def test_all_of_several_are_killed_and_restarted_where_they_were(two: pybroker.EmbeddedBroker) -> None:
    address, old, supervisor = two.bootstrap_servers, two.pids, two.pid
    two.kill()
    assert not any(map(is_alive, old))
    two.restart()
    assert (two.bootstrap_servers, two.pid) == (address, supervisor)
    assert not set(two.pids) & set(old)
    until(lambda: ids(two) == {1, 2})


def test_one_of_several_brokers_is_suspended_and_missing_until_it_continues(two: pybroker.EmbeddedBroker) -> None:
    two.pause(2)
    with Admin(two.bootstrap_servers.split(",")[0]) as admin:
        until(lambda: {node.id for node in admin.describe_cluster().brokers} == {1})
        two.resume(2)
        until(lambda: {node.id for node in admin.describe_cluster().brokers} == {1, 2})


def test_an_unknown_broker_cannot_be_killed(two: pybroker.EmbeddedBroker) -> None:
    with pytest.raises(ValueError, match="there is no broker 3: the node ids are 1, 2"):
        two.kill(3)
    with pybroker.run(node_id=7) as broker, pytest.raises(ValueError, match="the node ids are 7"):
        broker.restart(1)
