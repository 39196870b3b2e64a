"""InitProducerId: assigns a transactional id to a producer.

A caller without a producer id takes over the transactional id and fences the previous owner. A caller with one
(KIP-360) continues after an error, if no other producer has taken over since. Such a call can be repeated with the same
result, thanks to ``last_epoch``. An open transaction must be aborted first (``ending.fence``); the caller is told to
retry.
"""

from __future__ import annotations

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.producer_ids import SpareIds
from pybroker.coordinator.txn.state import EMPTY
from pybroker.coordinator.txn.transaction import (
    NO_EPOCH,
    Transaction,
    is_exhausted,
)
from pyclient.protocol import errors


def first(transactional_id: str, timeout_ms: int, ids: SpareIds, now_ms: int) -> Transaction:
    """Returns the first state of a new transactional id. Raises OutOfIds."""
    producer_id = ids.take()
    return Transaction(
        transactional_id,
        producer_id,
        0,
        timeout_ms,
        EMPTY,
        now_ms,
        previous_producer_id=producer_id,
    )


def check(transaction: Transaction, expected: Producer | None) -> None:
    """Raises ConcurrentTransactions while markers are written, and ProducerFenced if the caller's id is not the current
    one.
    """
    transaction.check_not_prepared()
    if expected is not None and not _is_current(transaction, expected):
        raise errors.ProducerFenced(f"another producer has {transaction.transactional_id} now")


def _is_current(transaction: Transaction, expected: Producer) -> bool:
    """Returns whether the caller's producer id is the current one, or the previous one that was exhausted."""
    return expected.id == transaction.producer_id or (
        expected.id == transaction.previous_producer_id and is_exhausted(expected.epoch)
    )


def again(
    transaction: Transaction,
    expected: Producer | None,
    timeout_ms: int,
    ids: SpareIds,
    now_ms: int,
) -> Transaction:
    """Returns the transactional id with its next epoch, after ``check``, while no transaction is open. Raises
    ProducerFenced, OutOfIds.
    """
    producer_id, epoch, last_epoch = _next(transaction, expected, ids)
    return transaction.initialised(producer_id, epoch, last_epoch, timeout_ms, now_ms)


def _next(
    transaction: Transaction, expected: Producer | None, ids: SpareIds
) -> tuple[int, int, int]:
    """Returns the next producer id, its epoch, and the previous epoch that a retry may have."""
    current = transaction.epoch
    if expected is not None and expected.epoch not in (current, transaction.last_epoch):
        raise errors.ProducerFenced(f"{transaction.transactional_id} has a producer with a newer epoch")
    if expected is not None and expected.epoch != current:
        return transaction.producer_id, current, transaction.last_epoch
    last_epoch = NO_EPOCH if expected is None else current
    if transaction.is_exhausted:
        return ids.take(), 0, last_epoch
    return transaction.producer_id, current + 1, last_epoch
