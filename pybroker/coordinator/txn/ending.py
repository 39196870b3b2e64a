"""EndTxn, and the abort of a transaction whose producer is fenced.

A retry must not end the *next* transaction. With transactions v1, a request is a retry if the requested outcome has
already been reached in the same epoch. With v2 (KIP-890) each ending bumps the epoch. So a retry is recognised by its
epoch: one less than the current one, or the last epoch of an exhausted producer id.

                      abort               commit
                      retry    current    retry    current
    Empty             fenced   ends       fenced   INVALID_TXN_STATE
    CompleteAbort     done     ends       INVALID_TXN_STATE
    CompleteCommit    invalid  ends       done     INVALID_TXN_STATE

A v2 producer may abort a transaction that never began: it cannot know whether its first write arrived. While the
markers of the previous transaction are written, every caller is told to retry.
"""

from __future__ import annotations

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.producer_ids import SpareIds
from pybroker.coordinator.txn.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    TransactionState,
)
from pybroker.coordinator.txn.transaction import MAX_EPOCH, NO_ID, V2, Transaction
from pyclient.protocol import errors


def end(
    transaction: Transaction,
    producer: Producer,
    committed: bool,
    version: int,
    ids: SpareIds,
    now_ms: int,
) -> Transaction | None:
    """Returns the prepared transaction; None if the request is a retry and its outcome was already reached.

    ``version`` is the client's transaction version. Raises InvalidProducerIdMapping, ProducerFenced,
    ConcurrentTransactions, InvalidTxnState, OutOfIds.
    """
    if version >= V2:
        return _end_v2(transaction, producer, committed, version, ids, now_ms)
    return _end_v1(transaction, producer, committed, version, now_ms)


def _end_v1(
    transaction: Transaction, producer: Producer, committed: bool, version: int, now_ms: int
) -> Transaction | None:
    if transaction.producer_id != producer.id:
        raise errors.InvalidProducerIdMapping(_other(transaction))
    if transaction.epoch != producer.epoch:
        raise errors.ProducerFenced(_other(transaction))
    transaction.check_not_prepared()
    if transaction.state is ONGOING:
        return transaction.prepared(committed, version, NO_ID, now_ms)
    if _is_done(transaction, committed):
        return None
    raise _wrong(transaction, committed)


def _end_v2(
    transaction: Transaction,
    producer: Producer,
    committed: bool,
    version: int,
    ids: SpareIds,
    now_ms: int,
) -> Transaction | None:
    transaction.check_not_prepared()
    is_retry = transaction.epoch == producer.epoch + 1
    overflowed = _has_overflowed(transaction, producer)
    if transaction.producer_id != producer.id and not overflowed:
        raise errors.InvalidProducerIdMapping(_other(transaction))
    if not _is_valid_epoch(transaction, producer, is_retry, overflowed):
        raise errors.ProducerFenced(_other(transaction))
    if transaction.state is ONGOING:
        return transaction.prepared(committed, version, ids.successor(transaction), now_ms)
    if is_retry or overflowed:
        if _is_done(transaction, committed):
            return None
    elif not committed:
        return transaction.prepared(False, version, ids.successor(transaction), now_ms)
    raise _wrong(transaction, committed)


def _has_overflowed(transaction: Transaction, producer: Producer) -> bool:
    """Returns whether the request has the producer id that the previous transaction exhausted."""
    return (
        transaction.previous_producer_id == producer.id
        and producer.epoch == MAX_EPOCH - 1
        and transaction.epoch == 0
    )


def _is_valid_epoch(
    transaction: Transaction, producer: Producer, is_retry: bool, overflowed: bool
) -> bool:
    current = producer.epoch == transaction.epoch
    if transaction.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
        return current or is_retry or overflowed
    return current


_DONE: dict[TransactionState, bool] = {COMPLETE_COMMIT: True, COMPLETE_ABORT: False}


def _is_done(transaction: Transaction, committed: bool) -> bool:
    return _DONE.get(transaction.state) is committed


def _wrong(transaction: Transaction, committed: bool) -> errors.InvalidTxnState:
    """Returns the error for an outcome that is not possible in this state."""
    wanted = "commit" if committed else "abort"
    return errors.InvalidTxnState(
        f"{transaction.transactional_id} is in state {transaction.state.label}, in which it cannot {wanted}"
    )


def _other(transaction: Transaction) -> str:
    return f"another producer has {transaction.transactional_id}"


def fence(transaction: Transaction, version: int, ids: SpareIds, now_ms: int) -> Transaction:
    """Returns the ongoing transaction, prepared to abort in a later epoch than its producer's.

    ``version`` is the finalized ``transaction.version``. Raises OutOfIds.
    """
    if version >= V2:
        return transaction.prepared(False, version, ids.successor(transaction), now_ms)
    return transaction.fenced().prepared(False, 0, NO_ID, now_ms)
