"""Finds a broker that queries the coordination store all the time, in a loop without a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofs.simulator.oracle.oracle import Oracle

WINDOW_S = 2.0
LIMIT = 800
"""The most requests in a window. The busiest history without a defect makes some 400: sessions expire and controllers
change all the time. A loop without a pause makes over 1,500.
"""


class Restlessness:
    """Counts the requests of each place."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._counts: dict[int, tuple[float, int]] = {}
        self.most = 0

    def store_replaced(self) -> None:
        """Starts to count again, because every broker reads all of the new store."""
        self._counts.clear()

    def asked(self, place: int) -> None:
        """Counts a request to the store."""
        now = self._oracle.cluster.scheduler.now
        since, count = self._counts.get(place, (now, 0))
        if now - since > WINDOW_S:
            since, count = now, 0
        self._counts[place] = since, count + 1
        self.most = max(self.most, count + 1)
        if count >= LIMIT:
            self._oracle.report("restless", f"broker {place} has asked the store {count} times in {now - since:.1f} s")
