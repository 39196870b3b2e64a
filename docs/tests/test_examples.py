"""The sample application at work. The lint environment has it under ``mypy --strict``."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

import pybroker
from docs.tests.blocks import ROOT
from pybroker.embedded import environment
from pyclient import Admin, Consumer, Producer, TopicPartition

pytestmark = pytest.mark.nightly
EXAMPLES = ROOT / "docs" / "examples"
DEADLINE_S = 120
COUNT = 3000
LATE_EVERY = 7
"""One flight of so many is late."""


def start(bootstrap: str) -> subprocess.Popen[str]:
    command = [sys.executable, EXAMPLES / "late_flights.py", bootstrap, "flights", "late"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())


def produce(bootstrap: str) -> None:
    flights = [b'{"carrier":"AA","flight":%d,"delay":%d}' % (n, 120 * (n % LATE_EVERY == 0)) for n in range(COUNT)]
    with Producer(bootstrap) as producer:
        producer.send_many("flights", [b"no flight", *flights], partition=0).result(DEADLINE_S)


def late_flights(bootstrap: str, wanted: int) -> list[int]:
    """Their numbers, as far as they are committed; waits until there are enough."""
    found: list[int] = []
    with Consumer(bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition("late", 0)])
        while len(found) < wanted:
            records = consumer.poll(DEADLINE_S)
            assert records, f"{len(found)} of {wanted} came"
            found += [int(re.findall(rb'"flight":(\d+)', record.value)[0]) for record in records]
        found += [0 for _ in consumer.poll(0.5)]
    return found


@pytest.fixture
def kill_at_end() -> object:
    running: list[subprocess.Popen[str]] = []
    yield running.append
    for each in running:
        each.kill()
        each.communicate()


def test_the_sample_application_copies_each_late_flight_once_also_when_it_is_killed(
    kill_at_end: Callable[[subprocess.Popen[str]], None],
) -> None:
    with pybroker.run(group_initial_rebalance_delay_ms=0) as broker:
        bootstrap = broker.bootstrap_servers
        with Admin(bootstrap) as admin:
            admin.create_topics(["flights", "late"], num_partitions=1)
        produce(bootstrap)
        killed = start(bootstrap)
        kill_at_end(killed)
        assert killed.stderr is not None
        assert any("got" in line for line in killed.stderr)
        killed.kill()
        with Admin(bootstrap) as admin:  # which would wait for the session's end otherwise
            admin.remove_members_from_consumer_group("late-flights")
        again = start(bootstrap)
        kill_at_end(again)
        produce(bootstrap)
        late = list(range(0, COUNT, LATE_EVERY))
        assert late_flights(bootstrap, 2 * len(late)) == late * 2
        again.send_signal(signal.SIGTERM)
        _, log = again.communicate(timeout=DEADLINE_S)
        assert again.returncode == 0
        assert "stopped" in log
        assert "is not a flight" in log


def test_the_sample_application_says_what_is_wrong() -> None:
    command = [sys.executable, EXAMPLES / "late_flights.py", "nowhere", "flights", "late"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=DEADLINE_S)
    assert ended.returncode in (1, 2)
    assert "nowhere" in ended.stderr.splitlines()[-1]
