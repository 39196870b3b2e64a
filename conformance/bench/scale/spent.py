"""Measures costs: seconds as a client sees them, and CPU seconds of the broker's process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from conformance.bench.cases import Figures
from harness import processes
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

SECONDS, CPU, MEMORY = "seconds", "cpu_s", "kib"
#: A quick call is repeated for this long, so that the ticks of /proc mean something.
LEAST_S, MOST_CALLS = 0.3, 100
PATIENCE_S = 600.0
#: A broker is idle if it uses less than a third of a core for this long.
CALM_S, CALM_SHARE, CALM_TRIES = 0.5, 0.3, 30


@dataclass(frozen=True, slots=True)
class Spent:
    """The figures of one call by name. ``items``: how many partitions (or topics of one partition) it covers;
    ``calls``: how often it ran.
    """

    figures: Mapping[str, float]
    items: int
    calls: int = 1


Rows = Iterator[tuple[str, Spent]]
"""Yields each figure that a case measures, with the name of its row, as soon as it is known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A row of one broker with this number of partitions in one round. ``skipped``: the reason for the missing figures.
    """

    broker: str
    round: int
    partitions: int
    row: str
    figures: Mapping[str, float]
    items: int = 1
    calls: int = 1
    skipped: str = ""


def spent(broker: Broker, items: int, work: Callable[[], object]) -> Spent:
    """Measures ``work`` once."""
    before, start = processes.cpu(broker.pid), time.monotonic()
    work()
    seconds = time.monotonic() - start
    return Spent(_figures(seconds, (processes.cpu(broker.pid) - before).total_s), items)


def asked(broker: Broker, items: int, frames: Iterator[bytes]) -> tuple[Spent, bytes]:
    """Repeats an exchange of these frames, measures all but the first, and returns the last reply too."""
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
    """Waits, for a limited time, until the broker has finished a request's later work."""
    for _ in range(CALM_TRIES):
        before = processes.cpu(broker.pid)
        time.sleep(CALM_S)
        if (processes.cpu(broker.pid) - before).total_s < CALM_S * CALM_SHARE:
            return
