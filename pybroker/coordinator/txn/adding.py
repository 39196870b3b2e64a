"""The partitions of a transaction: they are added before records are written to them, and leaders verify that.

AddPartitionsToTxn and AddOffsetsToTxn add them. With transactions v2 the partition's leader adds its partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.state import ONGOING
from pybroker.coordinator.txn.transaction import Transaction
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

Admission = Mapping[TopicPartition, KafkaError | None]


def add(
    transaction: Transaction,
    producer: Producer,
    partitions: Iterable[TopicPartition],
    version: int,
    now_ms: int,
) -> Transaction | None:
    """Returns the transaction with these partitions, None if it has them all. Raises the errors of ``check``."""
    transaction.check_not_prepared()
    check(transaction, producer)
    if transaction.state is ONGOING and transaction.partitions.issuperset(partitions):
        return None
    return transaction.added(partitions, version, now_ms)


def verify(
    transaction: Transaction, producer: Producer, partitions: Iterable[TopicPartition]
) -> Admission:
    """Returns which of the partitions are in the transaction; the others get TRANSACTION_ABORTABLE. Raises the errors
    of ``check``.
    """
    check(transaction, producer)
    return {
        each: None
        if each in transaction.partitions
        else errors.TransactionAbortable(f"{each} is not in the transaction")
        for each in partitions
    }


def check(transaction: Transaction, producer: Producer) -> None:
    """Raises InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions."""
    if transaction.producer_id != producer.id:
        raise errors.InvalidProducerIdMapping(
            f"{transaction.transactional_id} has another producer id"
        )
    if transaction.epoch != producer.epoch:
        raise errors.ProducerFenced(
            f"{transaction.transactional_id} has another epoch: "
            "another producer has taken this transactional.id over, or the transaction has timed out"
        )
    transaction.check_not_prepared()
