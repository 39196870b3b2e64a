"""Kafka Connect 4.4.0 moves a file through the broker: S115. Standalone, and distributed with exactly-once sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from conformance.applications import connect
from conformance.applications.committed import CommittedReader, read_all
from conformance.applications.connect import DistributedWorker
from conformance.conftest import NewBroker
from conformance.data import dataset
from harness.clients.librdkafka import present
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker
from harness.waiting import until

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Returns the flights as lines, each with a number, so that no two are equal."""
    return [f"{number},{line}" for number, line in enumerate(dataset.flights().decode().splitlines())]


def append(path: Path, lines: Sequence[str]) -> None:
    with path.open("a") as file:
        file.writelines(line + "\n" for line in lines)


def read_lines(broker: Broker, topic: str) -> list[str]:
    return [present(message.value()).decode() for message in read_all(broker, topic)]


@pytest.mark.timeout(600)
def test_s115_a_standalone_worker_moves_a_file_through_a_topic_into_a_file(
    broker: Broker, topic: str, tmp_path: Path, lines: list[str]
) -> None:
    there, back = tmp_path / "in", tmp_path / "out"
    append(there, lines[:20_000])
    connectors = {"source": connect.source(there, topic), "sink": connect.sink(back, topic)}
    expected = there.read_bytes()
    with connect.standalone(broker, tmp_path, connectors) as worker:

        def moved() -> bool:
            worker.check()
            return back.exists() and back.stat().st_size >= len(expected)

        until(moved, "the file", connect.WAIT_S)
        assert back.read_bytes() == expected
        assert worker.stop() in (0, 143)


def has_read(reader: CommittedReader, count: int) -> bool:
    return reader.poll() >= count


class Flow:
    """A growing file, the topic that an exactly-once source writes, and the processes to kill."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.file = folder / "in"
        self.worker = DistributedWorker(broker, folder)
        self.written: list[str] = []

    def write(self, lines: Sequence[str]) -> None:
        append(self.file, lines)
        self.written += lines

    def await_lines(self, reader: CommittedReader, count: int) -> None:
        """Waits until committed transactions hold this many lines."""

        def come() -> bool:
            self.worker.check()
            return has_read(reader, count)

        try:
            until(come, f"{count} lines", connect.WAIT_S)
        except AssertionError as error:
            states, told = self.worker.states("source"), self.worker.logged()[-3000:]
            raise AssertionError(f"{error}: {len(reader.records)} came; {states}\n{told}") from error

    def kill(self, victim: str) -> None:
        if victim == "broker":
            self.broker.crash()
        else:
            self.worker.kill()
            self.worker.start()


def flow_under_kills(flow: Flow, lines: Sequence[str], victims: Sequence[str]) -> None:
    """Moves one part of the file after the other; during each, the test kills a process, which restarts."""
    size = len(lines) // (len(victims) + 1)
    with Wire(flow.broker.address) as wire:
        wire.create_topic("lines")
    flow.write(lines[:size])
    with CommittedReader(flow.broker, "lines", 1) as reader:
        flow.worker.configure("source", connect.source(flow.file, "lines", batch_size="50"))
        for number, victim in enumerate(victims, 1):
            flow.await_lines(reader, (number - 1) * size + 1)
            flow.kill(victim)
            flow.write(lines[number * size : (number + 1) * size])
        flow.await_lines(reader, len(flow.written))
    assert read_lines(flow.broker, "lines") == flow.written


def check_sink(flow: Flow, back: Path) -> None:
    """Checks a sink connector, which writes the topic into a file on the same worker; deletes it afterwards."""
    flow.worker.configure("sink", connect.sink(back, "lines", consumer_override_isolation_level="read_committed"))
    expected = flow.file.read_bytes()

    def moved() -> bool:
        flow.worker.check()
        return back.exists() and back.stat().st_size >= len(expected)

    until(moved, "the file", connect.WAIT_S)
    assert back.read_bytes() == expected
    (stored,) = flow.worker.offsets("source")["offsets"]
    assert stored["offset"]["position"] == len(expected)
    flow.worker.delete("sink")
    assert flow.worker.stop() in (0, 143)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("count", "victims"),
    [
        (3_000, ["worker", "broker"]),
        pytest.param(60_000, ["worker", "broker", "broker"] * 4, marks=pytest.mark.campaign),
    ],
    ids=["two kills", "twelve kills"],
)
def test_s115_a_distributed_worker_moves_each_line_exactly_once_despite_kills(
    new_broker: NewBroker, tmp_path: Path, lines: list[str], count: int, victims: list[str]
) -> None:
    flow = Flow(new_broker(), tmp_path)
    with flow.worker:
        flow_under_kills(flow, lines[:count], victims)
        check_sink(flow, tmp_path / "out")


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_s115_two_distributed_workers_share_connectors_and_one_takes_over_from_the_other(
    new_broker: NewBroker, tmp_path: Path, lines: list[str]
) -> None:
    broker = new_broker()
    files = [tmp_path / f"in-{number}" for number in range(4)]
    with DistributedWorker(broker, tmp_path, "first") as first, DistributedWorker(broker, tmp_path, "second") as second:
        for number, file in enumerate(files):
            append(file, lines[:100])
            first.configure(f"source-{number}", connect.source(file, f"lines-{number}"))
        first.kill()
        for number, file in enumerate(files):
            append(file, lines[100:200])
            second.await_running(f"source-{number}")
        for number in range(4):
            with CommittedReader(broker, f"lines-{number}", 1) as reader:
                until(partial(has_read, reader, 200), "the lines", connect.WAIT_S)
            assert read_lines(broker, f"lines-{number}") == lines[:200]
