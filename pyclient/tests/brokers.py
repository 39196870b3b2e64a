"""A broker for tests: ours, or with PYCLIENT_BROKER=kafka a real Kafka; one per session.

A test module takes it by ``from pyclient.tests.brokers import broker  # noqa: F401``, or its room's
conftest does.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.brokers import KINDS, Broker

KIND = os.environ.get("PYCLIENT_BROKER", "ours")
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
_number = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker; ``broker.bootstrap`` is its address."""
    folder: Path = tmp_path_factory.mktemp("pyclient")
    running = KINDS[KIND](folder / "data")
    running.config |= QUICK
    running.start()
    yield running
    running.stop()
    shutil.rmtree(folder, ignore_errors=True)


def unique(stem: str) -> str:
    """A name that no other test uses."""
    return f"{stem}-{os.getpid()}-{next(_number)}"
