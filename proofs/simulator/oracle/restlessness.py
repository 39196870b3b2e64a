"""Whether a broker asks the coordination store all the time: a loop that nothing slows down is nobody's intention."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofs.simulator.oracle.oracle import Oracle

WINDOW_S = 2.0
LIMIT = 800
"""Requests in a window. The busiest history without a defect, in which a broker's sessions end and its controllers
change all the time, has some 400; a loop without a pause over 1,500."""


class Restlessness:
    """Counts the requests of each place."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._counts: dict[int, tuple[float, int]] = {}
        self.most = 0

    def store_replaced(self) -> None:
        """Every broker reads all of it: what was asked before does not count."""
        self._counts.clear()

    def asked(self, place: int) -> None:
        """A request to the store."""
        now = self._oracle.cluster.scheduler.now
        since, count = self._counts.get(place, (now, 0))
        if now - since > WINDOW_S:
            since, count = now, 0
        self._counts[place] = since, count + 1
        self.most = max(self.most, count + 1)
        if count >= LIMIT:
            self._oracle.report("restless", f"broker {place} has asked the store {count} times in {now - since:.1f} s")
