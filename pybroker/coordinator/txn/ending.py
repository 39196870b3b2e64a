"""EndTxn, and the abort of a transaction whose producer is fenced.

A retry must not end the *next* transaction. Transactions v1 know a retry by the state: the outcome that is asked for is
the one that has been reached, in the same epoch. With v2 (KIP-890) each ending bumps the epoch. So a retry is
recognised by its epoch: one less than the current one, or the last of an exhausted producer id.

                      abort               commit
                      retry    current    retry    current
    Empty             fenced   ends       fenced   INVALID_TXN_STATE
    CompleteAbort     done     ends       INVALID_TXN_STATE
    CompleteCommit    invalid  ends       done     INVALID_TXN_STATE

A v2 producer may abort what has never begun: it cannot know whether its first write arrived.

While the markers of the previous transaction are written, every caller is only asked to retry.
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
    """The prepared transaction; None where this is a retry of what has been done.

    ``version``: the client's transaction version. Raises InvalidProducerIdMapping, ProducerFenced,
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
    """Whether the request is of the id that was exhausted by the transaction before."""
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
    """Why the transaction cannot be ended like this."""
    wanted = "commit" if committed else "abort"
    return errors.InvalidTxnState(
        f"{transaction.transactional_id} is {transaction.state.label}: it cannot {wanted}"
    )


def _other(transaction: Transaction) -> str:
    return f"{transaction.transactional_id} has another producer"


def fence(transaction: Transaction, version: int, ids: SpareIds, now_ms: int) -> Transaction:
    """The ongoing transaction, prepared to abort in an epoch that its producer does not have.

    ``version``: the finalized ``transaction.version``. Raises OutOfIds.
    """
    if version >= V2:
        return transaction.prepared(False, version, ids.successor(transaction), now_ms)
    return transaction.fenced().prepared(False, 0, NO_ID, now_ms)
