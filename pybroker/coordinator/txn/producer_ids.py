"""A stock of producer ids, because an event that needs one cannot wait."""

from __future__ import annotations

from collections import deque

from pybroker.coordinator.txn.transaction import NO_ID, Transaction


class OutOfIds(Exception):
    """Raised by an event that needs a new producer id, and that has changed nothing."""


class SpareIds:
    """Producer ids that are not assigned yet."""

    def __init__(self) -> None:
        self._ids: deque[int] = deque()

    def lay_by(self, producer_id: int) -> None:
        """Adds an unused id."""
        self._ids.append(producer_id)

    def take(self) -> int:
        """Returns an id. Raises OutOfIds."""
        if not self._ids:
            raise OutOfIds
        return self._ids.popleft()

    def successor(self, transaction: Transaction) -> int:
        """Returns a new id if the transaction's producer id is exhausted, otherwise NO_ID. Raises OutOfIds."""
        return self.take() if transaction.is_exhausted else NO_ID
