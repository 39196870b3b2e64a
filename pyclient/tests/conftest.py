"""The SDK's integration suite: only public names, against our broker or ``--broker=kafka``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyclient import Admin, Producer
from pyclient.tests.brokers import QUICK, Broker, broker, kind, unique  # noqa: F401

NewTopic = Callable[..., str]


def _run(config: pytest.Config, folder: Path) -> Iterator[Broker]:
    running = kind(config)(folder / "data")
    running.config |= QUICK
    try:
        yield running.start()
    finally:
        running.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_broker(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[Broker]:
    """Yields a broker that the test may disturb."""
    yield from _run(pytestconfig, tmp_path)


@pytest.fixture(scope="module")
def paused_broker(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker that a test may halt by SIGSTOP and must continue at its end."""
    yield from _run(pytestconfig, tmp_path_factory.mktemp("paused"))


@pytest.fixture(scope="session")
def admin(broker: Broker) -> Iterator[Admin]:  # noqa: F811
    with Admin(broker.bootstrap) as made:
        yield made


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer]:  # noqa: F811
    with Producer(broker.bootstrap) as made:
        yield made


@pytest.fixture
def new_topic(admin: Admin) -> NewTopic:
    """Creates a topic: ``new_topic(3, {"cleanup.policy": "compact"})``."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None, stem: str = "topic") -> str:
        name = unique(stem)
        admin.create_topics(name, num_partitions=partitions, replication_factor=1, configs=configs)
        return name

    return make


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """Creates a topic of one partition."""
    return new_topic()


@pytest.fixture
def group() -> str:
    return unique("group")
