"""Transactions in DescribeTransactions and ListTransactions."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.coordinator.txn.state import BY_LABEL, TransactionState
from pybroker.coordinator.txn.transaction import Transaction
from pyclient.protocol import DescribeTransactions, ListTransactions


def describe(transaction: Transaction) -> DescribeTransactions.Response.TransactionState:
    """Describes the transaction, with its partitions by topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return DescribeTransactions.Response.TransactionState(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[
            DescribeTransactions.Response.TopicData(
                topic=topic, partitions=partitions
            )
            for topic, partitions in topics.items()
        ],
    )


def listed(transaction: Transaction) -> ListTransactions.Response.TransactionState:
    """Returns the transaction's row of ListTransactions."""
    return ListTransactions.Response.TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )


@dataclass(frozen=True, slots=True)
class Filter:
    """Which transactions to list. An empty, negative or None field does not filter.

    ``states`` is None if the request names no state, and empty if no named state exists. ``duration_ms`` selects
    transactions that began longer ago (KIP-994).
    """

    states: frozenset[TransactionState] | None = None
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1

    def matches(self, transaction: Transaction, now_ms: int) -> bool:
        """Returns whether the transaction matches."""
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.states is not None and transaction.state not in self.states:
            return False
        return self.duration_ms < 0 or now_ms - transaction.started_ms > self.duration_ms


def read_states(names: list[str]) -> tuple[frozenset[TransactionState] | None, list[str]]:
    """Returns the named states (None if no name is given), and the unknown names."""
    unknown = [name for name in names if name not in BY_LABEL]
    if not names:
        return None, unknown
    return frozenset(BY_LABEL[name] for name in names if name in BY_LABEL), unknown
