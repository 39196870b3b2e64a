"""Transactions as DescribeTransactions and ListTransactions show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pybroker.coordinator.txn.state import BY_LABEL, TransactionState
from pybroker.coordinator.txn.transaction import Transaction
from pyclient.protocol import DescribeTransactions, ListTransactions


def describe(transaction: Transaction) -> DescribeTransactions.Response.TransactionState:
    """The transaction with its partitions by topic."""
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
    """The transaction in one line."""
    return ListTransactions.Response.TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )


class Pattern(Protocol):
    """A compiled regular expression of linear time."""

    def fullmatch(self, text: str, /) -> object | None: ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Which transactions are wanted; what is empty, negative or None wants all.

    ``states``: None where none is named; empty where those that are named do not exist.
    ``duration_ms``: only those that began longer ago (KIP-994). ``pattern``: of the transactional id
    (KIP-1152).
    """

    states: frozenset[TransactionState] | None = None
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    pattern: Pattern | None = None

    def matches(self, transaction: Transaction, now_ms: int) -> bool:
        """Whether it is one of them."""
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.states is not None and transaction.state not in self.states:
            return False
        if self.duration_ms >= 0 and now_ms - transaction.started_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.fullmatch(transaction.transactional_id) is not None


def read_states(names: list[str]) -> tuple[frozenset[TransactionState] | None, list[str]]:
    """The states that are named (None: no name), and the names that are none."""
    unknown = [name for name in names if name not in BY_LABEL]
    if not names:
        return None, unknown
    return frozenset(BY_LABEL[name] for name in names if name in BY_LABEL), unknown
