"""Measures how long each broker's loop is silent: a thread sends small requests, and waits for each answer.

A fault of the broker excuses its silence; so does a machine so busy that the watching thread gets no CPU. A client's
request excuses nothing: no request may silence a broker.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from conformance.faults.checkers.history import Anomaly
from harness.protocol.wire_client import Wire
from harness.servers.clusters import Brokers

SILENT = "silent"
BOUND_S = 5.0
"""After this long, four fifths of the shortest session are over; a machine with one or two busy cores stays far below.
"""
EVERY_S, LATE_S = 0.05, 0.5
PATIENCE_S = 30.0


class Silence:
    """Asks every broker, on a thread for each."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.longest_s: dict[int, float] = dict.fromkeys(brokers.ids, 0.0)
        self.answers: dict[int, int] = dict.fromkeys(brokers.ids, 0)
        self.anomalies: list[Anomaly] = []
        self._stopping = threading.Event()
        self._era = 0
        """The era is odd during a fault; a measurement that spans two eras does not count."""
        self._threads = [threading.Thread(target=self._run, args=(id,), daemon=True) for id in brokers.ids]

    def begin(self) -> None:
        """Starts to watch for silence."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stops watching for silence."""
        self._stopping.set()

    @contextlib.contextmanager
    def excused(self) -> Iterator[None]:
        """Excuses silence during a fault."""
        self._era += 1
        try:
            yield
        finally:
            self._era += 1

    def _run(self, broker: int) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(OSError):
                self._ask(broker)
            self._stopping.wait(0.2)

    def _ask(self, broker: int) -> None:
        """Asks on one connection until a fault begins or the connection ends; counts from the first answer."""
        era = self._era
        with Wire(self.brokers.address(broker), PATIENCE_S) as wire:
            wire.ask("ApiVersions", 0)
            while era == self._era and era % 2 == 0 and not self._stopping.is_set():
                asked = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    wire.ask("ApiVersions", 0)
                answered = time.monotonic()
                self._stopping.wait(EVERY_S)
                is_late = time.monotonic() - answered > EVERY_S + LATE_S
                if era == self._era and not is_late and not self._stopping.is_set():
                    self._measured(broker, answered - asked)

    def _measured(self, broker: int, silent_s: float) -> None:
        self.answers[broker] += 1
        self.longest_s[broker] = max(silent_s, self.longest_s[broker])
        if silent_s > BOUND_S:
            text = f"broker {broker} answered nothing for {silent_s:.1f} s, and no fault had halted it"
            self.anomalies.append(Anomaly(SILENT, text))
