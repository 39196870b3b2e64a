"""Records of ``__transaction_state``, in Kafka's formats: one key per transactional id.

Value version 1 has tagged fields (for transaction version 1 and greater). It is written only if the finalized feature
allows it, so that a downgraded broker can read the log.
"""

from __future__ import annotations

from typing import Final

from pybroker.coordinator.shard import Record
from pybroker.coordinator.txn.state import EMPTY, TransactionState
from pybroker.coordinator.txn.transaction import NO_PARTITIONS, Transaction
from pybroker.topic_partition import TopicPartition
from pyclient.protocol.records import TransactionLogKey, TransactionLogValue

TRANSACTION_TYPE: Final = 0
_KEY_VERSION = 0


def value_version(transaction_version: int) -> int:
    """Returns the version of values that a finalized ``transaction.version`` allows."""
    return 1 if transaction_version >= 1 else 0


def key(transactional_id: str) -> bytes:
    """Returns the key of a transactional id."""
    message = TransactionLogKey(transactional_id=transactional_id)
    return TransactionLogKey.encode(_KEY_VERSION, message)


def record(transaction: Transaction, version: int) -> Record:
    """Returns the record of a transactional id's state, with a value of that version."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=_partitions(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.version
    return Record(key(transaction.transactional_id), TransactionLogValue.encode(version, value))


def tombstone(transactional_id: str) -> Record:
    """Returns the record that deletes a transactional id."""
    return Record(key(transactional_id), None)


def _partitions(transaction: Transaction) -> list[TransactionLogValue.PartitionsSchema] | None:
    if transaction.state is EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [
        TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=indexes)
        for topic, indexes in topics.items()
    ]


def read_key(data: bytes) -> str | None:
    """Parses the transactional id; returns None for a key of an unknown type. Raises DecodeError."""
    if int.from_bytes(data[:2], "big") != TRANSACTION_TYPE or len(data) < 2:
        return None
    return TransactionLogKey.decode(data).transactional_id


def read_value(transactional_id: str, data: bytes) -> Transaction:
    """Parses the state of a transactional id. Raises DecodeError, ValueError."""
    value = TransactionLogValue.decode(data)
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        TransactionState(value.transaction_status),
        value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        )
        or NO_PARTITIONS,
        started_ms=value.transaction_start_timestamp_ms,
        version=value.client_transaction_version,
    )
