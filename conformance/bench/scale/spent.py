"""What something cost: seconds as a client sees them, and CPU seconds of the broker's process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from conformance.bench.cases import Figures
from harness import processes
from harness.brokers import Broker
from harness.wire_client import Wire

SECONDS, CPU, MEMORY = "seconds", "cpu_s", "kib"
#: What is quick is done again until it took so long, so that the ticks of /proc say something.
LEAST_S, MOST_CALLS = 0.3, 100
PATIENCE_S = 600.0
#: A broker is idle if it took less than a third of a core for so long.
CALM_S, CALM_SHARE, CALM_TRIES = 0.5, 0.3, 30


@dataclass(frozen=True, slots=True)
class Spent:
    """Figures of one call, by name. ``items``: how many of the partitions it was about (or topics of one partition);
    ``calls``: how often it was done."""

    figures: Mapping[str, float]
    items: int
    calls: int = 1


Rows = Iterator[tuple[str, Spent]]
"""What a case measures, by the names of its rows, as soon as it is known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of one broker with so many partitions in one round. ``skipped``: why there is nothing else."""

    broker: str
    round: int
    partitions: int
    row: str
    figures: Mapping[str, float]
    items: int = 1
    calls: int = 1
    skipped: str = ""


def spent(broker: Broker, items: int, work: Callable[[], object]) -> Spent:
    """What ``work`` costs, done once."""
    before, start = processes.cpu(broker.pid), time.monotonic()
    work()
    seconds = time.monotonic() - start
    return Spent(_figures(seconds, (processes.cpu(broker.pid) - before).total_s), items)


def asked(broker: Broker, items: int, frames: Iterator[bytes]) -> tuple[Spent, bytes]:
    """What an exchange of such frames costs, done several times, the first not counted; and the last reply."""
    with Wire(broker.address, PATIENCE_S) as wire:

        def exchange() -> bytes:
            wire.send(next(frames))
            return wire.receive()

        exchange()
        before, start, calls, seconds = processes.cpu(broker.pid), time.monotonic(), 0, 0.0
        while seconds < LEAST_S and calls < MOST_CALLS:
            reply = exchange()
            calls += 1
            seconds = time.monotonic() - start
        cpu_s = (processes.cpu(broker.pid) - before).total_s
    return Spent(_figures(seconds / calls, cpu_s / calls), items, calls), reply


def _figures(seconds: float, cpu_s: float) -> Figures:
    return {SECONDS: seconds, CPU: cpu_s}


def wait_until_calm(broker: Broker) -> None:
    """Until the broker has done what a request left behind, but not for ever."""
    for _ in range(CALM_TRIES):
        before = processes.cpu(broker.pid)
        time.sleep(CALM_S)
        if (processes.cpu(broker.pid) - before).total_s < CALM_S * CALM_SHARE:
            return
