"""The transactions of queries: their names, which are open, how they end."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from typing import Final

from pyclient.admin import Admin
from pyclient.admin.types import TransactionDescription
from pyclient.errors import KafkaError
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.spark.sink.exactly_once import Opened

OPEN: Final = "Ongoing"


class Names:
    """The transactional ids of this process for one run of a query; each is used once in a batch.

    A name of an earlier batch is free: ``commit`` of that batch has returned, else there was no next one.
    """

    def __init__(self, prefix: str, query: str, run: str) -> None:
        self._begin = begin_of(prefix, query, run) + f"{os.getpid():x}-{os.urandom(4).hex()}-"
        self._used: dict[str, int] = {}

    def take(self, batch: int) -> str:
        """A name for a transaction of this batch."""
        free = (name for name, last in self._used.items() if last < batch)
        name = next(free, None) or f"{self._begin}{len(self._used)}"
        self._used[name] = batch
        return name


def begin_of(prefix: str, query: str, run: str = "") -> str:
    """How the transactional ids of a query begin, or of one run of it."""
    return f"{prefix}/{query}/{run}/" if run else f"{prefix}/{query}/"


def opened(admin: Admin, begin: str) -> list[Opened]:
    """What is open now under ids that begin so."""
    listed = admin.list_transactions(states=[OPEN])
    names = [row.transactional_id for row in listed if row.transactional_id.startswith(begin)]
    return [
        Opened(PreparedTransaction(name, row.producer_id, row.producer_epoch), row.start_time_ms + row.timeout_ms)
        for name, row in _described(admin, names).items()
        if row.state == OPEN
    ]


def states(admin: Admin, ids: Iterable[str]) -> dict[str, str]:
    """The state of each transactional id that its coordinator knows."""
    return {name: row.state for name, row in _described(admin, ids).items()}


def _described(admin: Admin, ids: Iterable[str]) -> dict[str, TransactionDescription]:
    """Without those that their coordinators do not know. Raises KafkaError where a coordinator was not reached."""
    wanted = list(ids)
    if not wanted:
        return {}
    results = admin.describe_transactions(wanted, check=False)
    for error in results.errors.values():
        if error.retriable:
            raise error
    return results


def end(
    admin: Admin, transactions: Collection[PreparedTransaction], *, commit: bool, timeout_s: float
) -> dict[PreparedTransaction, str]:
    """Ends these; of each that was refused, why. Raises KafkaError where nobody knows what became of it."""
    if not transactions:
        return {}
    results = admin.end_transactions(transactions, commit=commit, timeout=timeout_s, check=False)
    refused = {}
    for one in transactions:
        error = results.errors.get(one.transactional_id)
        if error is not None and error.retriable:
            raise error
        if error is not None:
            refused[one] = _said(error)
    return refused


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def _said(error: KafkaError) -> str:
    return f"{error.name}: {error}"
