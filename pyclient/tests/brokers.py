"""A broker for tests: ours, or with --broker=kafka a real Kafka; one per session.

A test module takes it by ``from pyclient.tests.brokers import broker  # noqa: F401``, or its room's conftest does.
Tests of the client need a broker, which is on a floor above: this module takes it from the harness.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.servers.brokers import KINDS, Broker

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
_number = itertools.count(1)


def kind(config: pytest.Config) -> type[Broker]:
    """Returns whose broker the tests use, ours or Kafka's, from the command line."""
    return KINDS[config.getoption("--broker")]


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a running broker. ``broker.bootstrap`` is its address."""
    folder: Path = tmp_path_factory.mktemp("pyclient")
    running = kind(pytestconfig)(folder / "data")
    running.config |= QUICK
    running.start()
    yield running
    running.stop()
    shutil.rmtree(folder, ignore_errors=True)


def unique(stem: str) -> str:
    """Returns a name that no other test uses."""
    return f"{stem}-{os.getpid()}-{next(_number)}"
