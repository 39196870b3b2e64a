"""Kafka Streams 4.4.0 with exactly_once_v2: S115. Every flight is counted once, whatever process is killed meanwhile.

The application is ``harness/java/FlightsPerRoute.java``. It emits every count, so a read_committed reader must see
1, 2, 3 … for each route: a flight counted twice, lost, or counted in an aborted transaction breaks the row.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from conformance import drivers
from conformance.applications.committed import CommittedReader, read_all
from conformance.applications.process import Application
from conformance.conftest import NewBroker
from conformance.data import dataset
from conformance.drivers import java
from harness import peers
from harness.clients.librdkafka import present, write
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

pytestmark = pytest.mark.nightly
APPLICATION_ID = "routes"
CHANGELOG = f"{APPLICATION_ID}-counts-changelog"
PARTITIONS = 3
#: The group evicts a killed member soon; clients reconnect at once; a slow machine ends no transaction (Streams allows
#: 10 s).
SETTINGS = (
    "session.timeout.ms=6000",
    "heartbeat.interval.ms=500",
    "commit.interval.ms=50",
    "reconnect.backoff.ms=10",
    "reconnect.backoff.max.ms=100",
    "producer.transaction.timeout.ms=60000",
)
WAIT_S = 120


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Returns the flights, without the file's header."""
    return dataset.flights().decode().splitlines()[1:]


def route_of(line: str) -> str:
    fields = line.split(",")
    return f"{fields[12]}-{fields[13]}"


class Run:
    """Runs the application on a broker, writes its input in parts, and reads its output all the time."""

    def __init__(self, broker: Broker, folder: Path, reader: CommittedReader) -> None:
        self.broker = broker
        self.reader = reader
        self.written = 0
        arguments = (broker.bootstrap, str(folder / "state"), APPLICATION_ID, "flights", "counts", *SETTINGS)
        command = peers.program("FlightsPerRoute", *arguments, heap="512m")
        self.application = Application(command, folder / "streams.log")

    def write(self, lines: Sequence[str]) -> None:
        write(self.broker, "flights", [line.encode() for line in lines])
        self.written += len(lines)

    def await_counts(self, count: int) -> None:
        """Waits until committed transactions hold this many counts."""

        def come() -> bool:
            self.application.check()
            return self.reader.poll() >= count

        try:
            until(come, "the counts", WAIT_S)
        except AssertionError as error:
            state = f"{self.reader.poll()} of {count} counts came"
            raise AssertionError(f"{error}: {state}\n{self.application.logged()[-3000:]}") from error


@pytest.fixture(scope="module", autouse=True)
def _drivers_end() -> Iterator[None]:
    yield
    drivers.close_all()


@pytest.fixture
def run(new_broker: NewBroker, tmp_path: Path) -> Iterator[Run]:
    broker = new_broker(log_retention_ms=-1, transaction_abort_timed_out_transaction_cleanup_interval_ms=500)
    with Wire(broker.address) as wire:
        for topic in ("flights", "counts"):
            wire.create_topic(topic, PARTITIONS)
    with CommittedReader(broker, "counts", PARTITIONS) as reader:
        made = Run(broker, tmp_path, reader)
        with made.application:
            yield made


def run_under_kills(run: Run, lines: Sequence[str], kills: Sequence[str]) -> None:
    """Writes one part of the input after the other; during each, kills a process and restarts it."""
    parts = [lines[begin :: len(kills) + 1] for begin in range(len(kills) + 1)]
    for part, victim in zip(parts, [*kills, None], strict=True):
        before = run.written
        run.write(part)
        run.await_counts(before + 1)
        if victim == "application":
            run.application.kill()
            run.application.start()
        elif victim == "broker":
            run.broker.crash()
        elif victim == "stop":
            assert run.application.stop() == 143
            run.application.start()
    run.await_counts(run.written)


def wrong_routes(counts: Mapping[str, Sequence[int]], expected: Mapping[str, int]) -> dict[str, Sequence[int]]:
    """Returns the routes whose counts do not run 1, 2, 3 … up to the number of their flights."""
    routes = counts.keys() | expected.keys()
    rows = {route: list(counts.get(route, ())) for route in routes}
    return {route: row for route, row in rows.items() if row != list(range(1, expected.get(route, 0) + 1))}


def check(run: Run, lines: Sequence[str]) -> None:
    """Checks that each route counts up by one to its number of flights; so does the changelog, if it is kept."""
    run.application.stop()
    expected = Counter(map(route_of, lines))
    counts: dict[str, list[int]] = defaultdict(list)
    for message in read_all(run.broker, "counts", PARTITIONS):
        counts[present(message.key()).decode()].append(int(present(message.value())))
    wrong = wrong_routes(counts, expected)
    assert not wrong, dict(itertools.islice(wrong.items(), 3))
    stored = {
        present(message.key()).decode(): int.from_bytes(present(message.value()), "big")
        for message in read_all(run.broker, CHANGELOG, PARTITIONS)
    }
    assert stored == expected


def check_reset(run: Run) -> None:
    """Checks that Kafka's StreamsResetter resets the application: offsets at the beginning, no internal topics."""
    words = ("--bootstrap-server", run.broker.bootstrap, "--application-id", APPLICATION_ID)
    more = ("--input-topics", "flights", "--force")
    printed = java.opened().jvm.tool("org.apache.kafka.tools.StreamsResetter", *words, *more)
    assert printed.code == 0, printed
    with Wire(run.broker.address) as wire:
        topics = {row.name for row in wire.ask("Metadata", 1, topics=None).topics}
    assert {"flights", "counts"} <= topics
    assert not {name for name in topics if name.startswith(APPLICATION_ID)}


@pytest.mark.parametrize("planted", [[1, 2, 2, 3], [1, 3], [1, 2], [1, 3, 2], []])
def test_the_check_detects_a_count_that_is_duplicated_lost_or_out_of_order(planted: list[int]) -> None:
    assert wrong_routes({"JFK-LAX": [1, 2, 3]}, {"JFK-LAX": 3}) == {}
    assert wrong_routes({"JFK-LAX": planted}, {"JFK-LAX": 3}) == {"JFK-LAX": planted}


@pytest.mark.timeout(600)
def test_s115_every_flight_is_counted_once_despite_kills_of_application_and_broker(
    run: Run, lines: list[str]
) -> None:
    some = lines[:12_000]
    run_under_kills(run, some, ["application", "broker"])
    check(run, some)
    check_reset(run)


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_s115_every_flight_is_counted_once_with_the_first_version_of_transactions(
    run: Run, lines: list[str]
) -> None:
    """Streams then adds partitions and offsets by requests of their own."""
    words = ("--bootstrap-server", run.broker.bootstrap, "downgrade", "--feature", "transaction.version=1")
    printed = java.opened().jvm.tool("org.apache.kafka.tools.FeatureCommand", *words)
    assert printed.code == 0, printed
    run.application.kill()
    run.application.start()
    run_under_kills(run, lines[:12_000], ["application", "broker", "application"])
    check(run, lines[:12_000])


@pytest.mark.campaign
@pytest.mark.timeout(1_800)
def test_s115_all_flights_are_counted_once_over_twelve_kills(run: Run, lines: list[str]) -> None:
    run_under_kills(run, lines, ["application", "broker", "broker", "stop", "application", "broker"] * 2)
    check(run, lines)
