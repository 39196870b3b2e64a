"""AddPartitionsToTxn (24), 0-5: adds partitions to a transaction before they are written to (KIP-98). Version 2 adds
the error PRODUCER_FENCED. Version 4, which only brokers send, has several transactions. It may ask only whether
partitions are in a transaction, without adding them (KIP-890).

If one partition is refused, none is added: the others get OPERATION_NOT_ATTEMPTED. Many partitions are checked in
several turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pybroker.cluster.metadata.image import INTERNAL_TOPICS
from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.transaction import V2
from pybroker.handlers.common import fenced
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Paced, in_turns, one_by_one, settled
from pybroker.handlers.common.security.rights import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, may
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import AddPartitionsToTxn, errors
from pyclient.protocol.errors import KafkaError

Request = AddPartitionsToTxn.Request
Response = AddPartitionsToTxn.Response
Outcomes = Mapping[TopicPartition, KafkaError | None]

_MISSING: Final = errors.UnknownTopicOrPartition("there is no such partition")
_DENIED: Final = errors.TopicAuthorizationFailed()
_NOT_ATTEMPTED: Final = errors.OperationNotAttempted("another partition was refused")
_FIRST_WITH_FENCED = 2
_FIRST_OF_BROKERS = 4


async def handle(request: AddPartitionsToTxn.Request, call: Call) -> AddPartitionsToTxn.Response:
    """Answers with one result per partition of each transaction."""
    if call.version >= _FIRST_OF_BROKERS:
        if not may(call, CLUSTER_ACTION):
            return Response(error_code=errors.ClusterAuthorizationFailed.code)
        results = await one_by_one(request.transactions, lambda each: _result(each, call), call)
        return Response(results_by_transaction=results)
    transaction = Request.AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    result = await _result(transaction, call)
    return Response(results_by_topic_v3_and_below=result.topic_results)


async def _result(
    transaction: AddPartitionsToTxn.Request.AddPartitionsToTxnTransaction, call: Call
) -> AddPartitionsToTxn.Response.AddPartitionsToTxnResult:
    partitions = await settled(_distinct(transaction, call))
    outcomes: Outcomes
    if call.version < _FIRST_OF_BROKERS and not may(call, WRITE_TRANSACTIONAL_ID, transaction.transactional_id):
        outcomes = dict.fromkeys(partitions, errors.TransactionalIdAuthorizationFailed())
    else:
        outcomes = _refused(partitions) or await _ask(transaction, list(partitions), call)
    result: AddPartitionsToTxn.Response.AddPartitionsToTxnResult = await settled(_told(transaction, call, outcomes))
    return result


def _named(transaction: AddPartitionsToTxn.Request.AddPartitionsToTxnTransaction) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)


@in_turns
def _distinct(
    transaction: AddPartitionsToTxn.Request.AddPartitionsToTxnTransaction, call: Call
) -> Paced[dict[TopicPartition, KafkaError | None]]:
    """Returns the partitions without repetition, each with its error or None. Clients may not add internal topics."""
    image, of_client = call.broker.metadata.image, call.version < _FIRST_OF_BROKERS
    found: dict[TopicPartition, KafkaError | None] = {}
    for each in _named(transaction):
        yield
        if of_client and (each.topic in INTERNAL_TOPICS or not may(call, WRITE_TOPIC, each.topic)):
            found[each] = _DENIED
        else:
            found[each] = None if image.partition(*each) is not None else _MISSING
    return found


def _refused(partitions: Outcomes) -> Outcomes | None:
    """Returns an error for every partition if any of them is refused, else None."""
    if not any(partitions.values()):
        return None
    return {each: error or _NOT_ATTEMPTED for each, error in partitions.items()}


@in_turns
def _told(
    transaction: AddPartitionsToTxn.Request.AddPartitionsToTxnTransaction, call: Call, outcomes: Outcomes
) -> Paced[AddPartitionsToTxn.Response.AddPartitionsToTxnResult]:
    topics: dict[str, list[AddPartitionsToTxn.Response.AddPartitionsToTxnPartitionResult]] = {}
    for each in _named(transaction):
        yield
        error = outcomes[each]
        code = errors.NONE if error is None else fenced.code(error, call.version, _FIRST_WITH_FENCED)
        result = Response.AddPartitionsToTxnPartitionResult(partition_index=each.partition, partition_error_code=code)
        topics.setdefault(each.topic, []).append(result)
    return Response.AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            Response.AddPartitionsToTxnTopicResult(name=name, results_by_partition=results)
            for name, results in topics.items()
        ],
    )


async def _ask(
    transaction: AddPartitionsToTxn.Request.AddPartitionsToTxnTransaction,
    partitions: Sequence[TopicPartition],
    call: Call,
) -> Outcomes:
    coordinator = call.broker.transactions
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    transactional_id = transaction.transactional_id
    try:
        if transaction.verify_only:
            found: Outcomes = await coordinator.verify(transactional_id, producer, partitions)
            return found
        version = V2 if call.version >= _FIRST_OF_BROKERS else 0
        await coordinator.add(transactional_id, producer, partitions, version)
    except KafkaError as error:
        return dict.fromkeys(partitions, error)
    return dict.fromkeys(partitions)
