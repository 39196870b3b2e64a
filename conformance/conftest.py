"""Fixtures of the black-box suite.

``pytest conformance`` tests our broker; ``pytest conformance --broker=kafka`` runs the same tests against a real
Kafka, which proves the tests. What we promise beyond Kafka is marked ``ours`` and is left out there. Campaigns
that are ``row`` besides show a row of the mission in full: ``-m "not campaign or row"``.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.data import dataset
from conformance.report import rows
from conformance.report.recorder import OPTION, Recorder
from conformance.spark.session import local_spark
from conformance.tiers import CAMPAIGN
from harness import witnesses
from harness.faults.proxy import FaultProxy
from harness.peers import Java
from harness.protocol.wire_client import Wire
from harness.servers.brokers import KINDS, Broker, free_port
from pyclient.keywords import with_dots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewBroker = Callable[..., Broker]
NewTopic = Callable[..., str]
Counted = Callable[..., None]

#: Groups of both protocols do not wait for further members; everything else has its default.
QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
_number = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ours: promised by pybroker, not by Kafka")
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:kafka.protocol")
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:importlib.resources")
    config.addinivalue_line("markers", "row: a campaign, but a row of the mission is not shown without it")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "conformance-recorder")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects (does not skip) tests outside the selected ones. It runs last, because other folders mark their tests
    first.
    """
    unwanted = [item for item in items if _unwanted(config, item)]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]


def _unwanted(config: pytest.Config, item: pytest.Item) -> bool:
    if config.getoption(OPTION) and not rows.of_test(item.name):
        return True
    if not str(item.path).startswith(str(Path(__file__).parent)):
        return False
    return bool(item.get_closest_marker("ours")) and config.getoption("--broker") != "ours"


@pytest.fixture(autouse=True)
def _told(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tells the report which clients took part, and whether the test takes long."""
    witnesses.taken()
    yield
    request.node.user_properties.append(("clients", witnesses.taken()))
    request.node.user_properties.append((CAMPAIGN, request.node.get_closest_marker(CAMPAIGN) is not None))


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Counted:
    """Reports a test's counts, also at the run's end: ``counted("acks=1", acked=100, lost=7)``."""

    def tell(case: str = "", **numbers: float) -> None:
        request.node.user_properties.append(("counts", {"case": case, **numbers}))

    return tell


@pytest.fixture(scope="session")
def broker_kind(request: pytest.FixtureRequest) -> type[Broker]:
    return KINDS[request.config.getoption("--broker")]


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Returns the folder of all data folders, and removes it at the end because it is large."""
    root = tmp_path_factory.mktemp("brokers")
    yield root
    if "PYBROKER_KEEP" not in os.environ:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def broker(broker_kind: type[Broker], data_root: Path) -> Iterator[Broker]:
    """Starts a broker that the tests share; a test that disturbs it takes ``new_broker`` instead.

    It keeps records forever, for many tests write timestamps of long ago.
    """
    forever = {"log.retention.ms": "-1"}
    with broker_kind(data_root / "shared", **QUICK_GROUPS, **forever) as shared:
        yield shared
        assert shared.alive, f"the shared broker died:\n{shared.logged()[-4000:]}"


@pytest.fixture
def new_broker(broker_kind: type[Broker], data_root: Path) -> Iterator[NewBroker]:
    """Starts a broker for one test: ``new_broker(log_segment_bytes=1048576)``; ``start=False`` only makes it."""
    made: list[Broker] = []

    def make(*, start: bool = True, **config: object) -> Broker:
        values = {key: str(value) for key, value in config.items()}
        one = broker_kind(data_root / f"own-{next(_number)}", **{**QUICK_GROUPS, **values})
        made.append(one)
        return one.start() if start else one

    yield make
    for one in made:
        one.kill()
        shutil.rmtree(one.data_dir, ignore_errors=True)


@pytest.fixture
def proxied(new_broker: NewBroker) -> Iterator[tuple[Broker, FaultProxy]]:
    """Starts a broker with a topic t, which advertises only the address of a proxy."""
    port = free_port()
    with FaultProxy(lambda: ("127.0.0.1", port)) as proxy:
        broker = new_broker(start=False, advertised_listeners=f"PLAINTEXT://{proxy.bootstrap}")
        broker.port = port
        broker.start()
        with Wire(broker.address) as wire:
            wire.create_topic("t")
        yield broker, proxy


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    """Opens a bare connection to the shared broker."""
    with Wire(broker.address) as connection:
        yield connection


@pytest.fixture
def new_topic(broker: Broker) -> NewTopic:
    """Creates a topic with an unused name on the shared broker: ``new_topic(partitions=3, retention_ms=1000)``."""

    def make(partitions: int = 1, name: str | None = None, **configs: object) -> str:
        topic = name or f"topic-{next(_number)}"
        with Wire(broker.address) as connection:
            dotted = with_dots(configs)
            connection.create_topic(topic, partitions, dotted)
        return topic

    return make


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """Creates a topic of one partition."""
    return new_topic()


@pytest.fixture
def group() -> str:
    """Returns the name of an unused group."""
    return f"group-{next(_number)}"


@pytest.fixture(scope="session")
def java() -> Java:
    return Java()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Returns this process's SparkSession."""
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the real file: 336,777 lines of CSV."""
    return dataset.write_flights(tmp_path_factory.mktemp("flights") / "flights.csv")
