"""The transactions of queries: their names, which ones are open, and how they end."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Final

from pyclient.admin import Admin
from pyclient.admin.types import TransactionDescription
from pyclient.errors import KafkaError, UnsupportedByBroker
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.protocol.errors import TransactionalIdAuthorizationFailed, TransactionalIdNotFound
from pyclient.spark.sink.exactly_once import Opened

OPEN: Final = "Ongoing"


class Names:
    """The transactional ids of this process for one run of a query; each is used once per batch.

    Names of an earlier batch are free, because ``commit`` of that batch has returned before the next one began.
    """

    def __init__(self, prefix: str, query: str, run: str) -> None:
        self._begin = begin_of(prefix, query, run) + f"{os.getpid():x}-{os.urandom(4).hex()}-"
        self._used: dict[str, int] = {}

    def take(self, batch: int) -> str:
        """Returns a name for a transaction of this batch."""
        free = (name for name, last in self._used.items() if last < batch)
        name = next(free, None) or f"{self._begin}{len(self._used)}"
        self._used[name] = batch
        return name


def begin_of(prefix: str, query: str, run: str = "") -> str:
    """Returns the prefix of a query's transactional ids, or of those of one run."""
    return f"{prefix}/{query}/{run}/" if run else f"{prefix}/{query}/"


def opened(
    admin: Admin, begin: str, longest_ms: int | None = None, known: Iterable[PreparedTransaction] = ()
) -> list[Opened]:
    """Returns the transactions that are open under ids with this prefix. A transaction is old if it has been open for
    longer than ``longest_ms``. The ``known`` ones are requested by id, because a coordinator that moves between the
    answers of two brokers lists its transactions in neither.
    """
    listed = admin.list_transactions(states=[OPEN])
    names = {row.transactional_id for row in listed if row.transactional_id.startswith(begin)}
    names.update(one.transactional_id for one in known)
    old = set() if longest_ms is None else _older(admin, longest_ms)
    return [
        Opened(PreparedTransaction(name, row.producer_id, row.producer_epoch), name in old)
        for name, row in _described(admin, names).items()
        if row.state == OPEN
    ]


def _older(admin: Admin, longest_ms: int) -> set[str]:
    """Returns the transactions that have been open for longer than ``longest_ms``, by the clocks of their coordinators
    (KIP-994). These clocks also decide when a transaction times out. Brokers before Kafka 3.8 report none.
    """
    try:
        return {row.transactional_id for row in admin.list_transactions(states=[OPEN], longer_than_ms=longest_ms)}
    except UnsupportedByBroker:
        return set()


def states(admin: Admin, ids: Iterable[str]) -> dict[str, str]:
    """Returns the state of each transactional id that is known to its coordinator."""
    return {name: row.state for name, row in _described(admin, ids).items()}


def _described(admin: Admin, ids: Iterable[str]) -> dict[str, TransactionDescription]:
    """Returns the descriptions, without ids that are unknown to their coordinators. Raises KafkaError if a coordinator
    was not reached, or denies access.
    """
    wanted = list(ids)
    if not wanted:
        return {}
    results = admin.describe_transactions(wanted, check=False)
    for error in results.errors.values():
        if not isinstance(error, TransactionalIdNotFound):
            raise error
    return results


def end(
    admin: Admin, transactions: Collection[PreparedTransaction], *, commit: bool, timeout_s: float
) -> dict[PreparedTransaction, str]:
    """Ends these transactions and returns the reason for each one that was refused. Raises KafkaError if the outcome is
    unknown, or if this client may not end a transaction.
    """
    if not transactions:
        return {}
    results = admin.end_transactions(transactions, commit=commit, timeout=timeout_s, check=False)
    refused = {}
    for one in transactions:
        error = results.errors.get(one.transactional_id)
        if error is not None and (error.retriable or isinstance(error, TransactionalIdAuthorizationFailed)):
            raise error
        if error is not None:
            refused[one] = _said(error)
    return refused


def _said(error: KafkaError) -> str:
    return f"{error.name}: {error}"
