"""Runs each test that takes ``driver`` or ``member`` once with each client, foreign or ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from conformance import drivers
from conformance.drivers import CLIENTS, DRIVERS
from conformance.drivers.base import Consumer, Driver
from conformance.scenarios.by_spark import BySpark
from harness.servers.brokers import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewMember = Callable[..., Consumer]


@pytest.fixture(scope="session", autouse=True)
def _drivers_end() -> Iterator[None]:
    yield
    drivers.close_all()


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest) -> Driver:
    """A foreign client library."""
    return drivers.opened(request.param)


@pytest.fixture(scope="session")
def by_spark(spark: SparkSession) -> BySpark:
    """Returns PySpark as a reader of topics."""
    return BySpark(spark)


@pytest.fixture(params=CLIENTS, ids="-".join)
def client(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Returns a foreign client and the group protocol that it speaks."""
    name, protocol = request.param
    return name, protocol


@pytest.fixture
def new_member(client: tuple[str, str], group: str) -> Iterator[NewMember]:
    """Makes consumers of ``client`` in the test's group, and closes them at the end: ``new_member(broker,
    max_poll_records=1)``.
    """
    made: list[Consumer] = []
    name, protocol = client

    def make(broker: Broker, **settings: object) -> Consumer:
        values = {"group_id": group, "group_protocol": protocol, "heartbeat_interval_ms": 200, **settings}
        made.append(drivers.opened(name).consumer(broker.bootstrap, **values))
        return made[-1]

    yield make
    for one in made:
        one.close()
