"""Admits transactional batches: what Produce asks the transaction coordinator before it appends them (KIP-890).

A transactional batch goes straight to the log if its producer has an open transaction there; that costs one look-up.
Otherwise this broker asks the coordinator of the transactional id. For Produce v12 and later, it asks the coordinator
to add the partition to the transaction; for older versions, whether the client has added it.
``log.producers.verification`` explains what the log does with the answer.

While the request waits, nothing further is read from its connection. So a producer's batches are appended in their
order, and at most one request per connection is kept. Its batches are copied, because their buffer is reused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cy.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC_AT, PRODUCER_ID_AT, TRANSACTIONAL_FLAG
from pybroker.cluster.metadata.image import INTERNAL_TOPICS
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.security import rights
from pybroker.log.producers.verification import Verification
from pybroker.replication.partition import Partition
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Produce, errors

ABORTABLE_SINCE, ADDS_SINCE, TOPIC_IDS_SINCE = 11, 12, 13
"""The first versions of Produce that know TRANSACTION_ABORTABLE, that add partitions to the transaction, and that name
topics by id.
"""
MAGIC = 2
FLAGS_AT = ATTRIBUTES_AT + 1
"""Where the flags of a batch are: in the lower byte of its attributes."""

_producer = struct.Struct(">qhi")

RETRIABLE = (errors.NotEnoughReplicas, errors.ConcurrentTransactions)
UNANSWERED = (
    errors.BrokerNotAvailable,
    errors.NetworkException,
    errors.RequestTimedOut,
    errors.CoordinatorLoadInProgress,
    errors.CoordinatorNotAvailable,
    errors.NotCoordinator,
)
"""Errors that do not tell whether the partition is in the transaction. The client gets NOT_ENOUGH_REPLICAS instead, the
only retriable error that old clients know here.
"""


class Producer(NamedTuple):
    """The producer that a batch names, and the batch's place in the sequence."""

    id: int
    epoch: int
    sequence: int


class Seen(NamedTuple):
    """The transactional facts of a batch when its request arrived.

    ``flags`` are those of the batch's header, 0 if the data are not a batch. ``producer`` is None unless the batch is
    transactional. ``partition`` is where the batch would be appended, None if this broker may not append it.
    """

    flags: int
    producer: Producer | None
    partition: Partition | None


class Question(NamedTuple):
    """A partition about which the coordinator is asked."""

    partition: Partition
    producer: Producer
    verification: Verification


NO_BATCH = Seen(0, None, None)


class Inquiry(NamedTuple):
    """What this broker asks the coordinator. ``epochs`` has the leader epochs of the partitions of the request."""

    questions: list[Question]
    epochs: Mapping[TopicPartition, int]


class Answer(NamedTuple):
    """The coordinator's answer for a partition: ``error`` is None if the batch may be appended."""

    verification: Verification
    error: errors.KafkaError | None


class Answers(NamedTuple):
    """The coordinator's answers to an inquiry, whose ``epochs`` they repeat."""

    said: Mapping[TopicPartition, Answer]
    epochs: Mapping[TopicPartition, int]


def look(request: Produce.Request, call: Call) -> list[Seen]:
    """Returns the facts about each batch of the request, in the order of the request."""
    replicas, by_id = call.broker.replicas, call.version >= TOPIC_IDS_SINCE
    seen: list[Seen] = []
    for topic in request.topic_data:
        is_permitted = _may_write(topic, call)
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
                seen.append(NO_BATCH)
                continue
            flags = records[FLAGS_AT]
            if not flags & TRANSACTIONAL_FLAG:
                seen.append(Seen(flags, None, None))
                continue
            producer = Producer(*_producer.unpack_from(records, PRODUCER_ID_AT))
            try:
                if by_id:
                    partition = replicas.by_id(topic.topic_id, data.index)
                else:
                    partition = replicas.find(topic.name, data.index)
                partition.check_leader()
            except errors.KafkaError:
                partition = None
            may_write = is_permitted and partition is not None and producer.id >= 0 and not is_closed(partition)
            seen.append(Seen(flags, producer, partition if may_write else None))
    return seen


def _may_write(topic: Produce.Request.TopicProduceData, call: Call) -> bool:
    try:
        check_rights(topic, call)
    except errors.KafkaError:
        return False
    return True


def check_rights(topic: Produce.Request.TopicProduceData, call: Call) -> None:
    """Raises TopicAuthorizationFailed if the client may not write to the topic, UnknownTopicId if there is none."""
    if call.broker.authorizer is not None:
        name = None if call.version >= TOPIC_IDS_SINCE else topic.name
        rights.check_topic(call, rights.WRITE_TOPIC, name, topic.topic_id)


def check_id(request: Produce.Request, seen: Iterable[Seen], call: Call) -> None:
    """Raises TransactionalIdAuthorizationFailed for transactional batches if the client has no right to their
    transactional id.
    """
    if call.broker.authorizer is not None and any(each.flags & TRANSACTIONAL_FLAG for each in seen):
        rights.check(call, rights.WRITE_TRANSACTIONAL_ID, request.transactional_id or "")


def inquiry(seen: Sequence[Seen], call: Call) -> Inquiry | None:
    """Returns what to ask the coordinator before these batches may be appended, None if nothing.

    Raises InvalidProducerIdMapping if there are transactional batches of several producers.
    """
    found = _transactional(seen)
    if len(found) > 1 and len({(producer.id, producer.epoch) for _, producer in found}) > 1:
        raise errors.InvalidProducerIdMapping("the request has transactional batches of more than one producer")
    asked: list[Question] = []
    for partition, producer in found:
        states = partition.log.producers
        if not states.is_ongoing(producer.id, producer.epoch) and not states.is_fenced(producer.id, producer.epoch):
            verification = states.verifications.start(
                *producer, bumps_epochs=call.version >= ADDS_SINCE, now_ms=call.broker.clock.now_ms()
            )
            asked.append(Question(partition, producer, verification))
    return Inquiry(asked, _epochs(found)) if asked else None


def nothing_said(seen: Iterable[Seen]) -> Answers:
    """Returns empty answers for a request that asks the coordinator nothing and appends its batches over several turns.

    ``check`` then requires that the transactions of these batches are still open.
    """
    return Answers({}, _epochs(_transactional(seen)))


def _epochs(found: Iterable[tuple[Partition, Producer]]) -> dict[TopicPartition, int]:
    return {partition.topic_partition: partition.leader_epoch for partition, _ in found}


def _transactional(seen: Iterable[Seen]) -> list[tuple[Partition, Producer]]:
    """Returns partition and producer of each transactional batch that this broker may append."""
    return [
        (each.partition, each.producer)
        for each in seen
        if each.partition is not None and each.producer is not None
    ]


def is_closed(partition: Partition) -> bool:
    """Returns True for an internal topic: only its coordinator may write there."""
    return partition.topic_partition.topic in INTERNAL_TOPICS


async def ask(request: Produce.Request, inquiry: Inquiry, call: Call) -> Answers:
    """Asks the coordinator. The connection reads no further request until the coordinator answers."""
    assert request.transactional_id is not None
    keep_records(data for topic in request.topic_data for data in topic.partition_data)
    asked = inquiry.questions
    producer = asked[0].producer
    names = [each.partition.topic_partition for each in asked]
    call.connection.hold()
    try:
        said = await call.broker.transactions.admit(
            request.transactional_id, producer.id, producer.epoch, names, add=call.version >= ADDS_SINCE
        )
    except errors.KafkaError as error:
        said = dict.fromkeys(names, error)
    finally:
        call.connection.release()
    answers = {each.partition.topic_partition: _answer(each, said, call.version) for each in asked}
    return Answers(answers, inquiry.epochs)


def keep_records(batches: Iterable[Produce.Request.PartitionProduceData]) -> None:
    """Copies the batches, because the connection reuses its buffer while the request waits."""
    for data in batches:
        if isinstance(data.records, memoryview):
            data.records = bytearray(data.records)


def _answer(
    question: Question, said: Mapping[TopicPartition, errors.KafkaError | None], version: int
) -> Answer:
    error = said.get(question.partition.topic_partition)
    if error is None:
        return Answer(question.verification, None)
    told = as_told(error, version)
    if not isinstance(told, RETRIABLE):
        verifications = question.partition.log.producers.verifications
        verifications.refuse(question.producer.id, question.producer.epoch, question.verification)
    return Answer(question.verification, told)


def as_told(error: errors.KafkaError, version: int) -> errors.KafkaError:
    """Translates the coordinator's error into one that a producer of that version understands."""
    unanswered = isinstance(error, UNANSWERED)
    if unanswered or (isinstance(error, errors.ConcurrentTransactions) and version < ADDS_SINCE):
        return errors.NotEnoughReplicas(f"the partition's transaction cannot be verified: {error}")
    if isinstance(error, errors.ProducerFenced):
        return errors.InvalidProducerEpoch(str(error))
    if isinstance(error, errors.TransactionAbortable):
        return unverified(version)
    return error


def unverified(version: int) -> errors.KafkaError:
    """Returns the error for a batch that belongs to no open transaction."""
    text = "the partition has not been added to the transaction"
    return errors.TransactionAbortable(text) if version >= ABORTABLE_SINCE else errors.InvalidTxnState(text)


def check(partition: Partition, producer: Producer | None, answers: Answers, version: int) -> None:
    """Checks, right before the append, that a transactional batch that has waited may still be appended.

    Raises the coordinator's error. Raises NotLeaderOrFollower if this broker became the leader only during the wait, so
    that it has not asked. Raises TransactionAbortable or InvalidTxnState if the transaction ended during the wait.
    """
    states = partition.log.producers
    if producer is None or producer.id < 0 or states.is_fenced(producer.id, producer.epoch):
        return  # it belongs to no transaction, or the append itself will raise the right error
    answer = answers.said.get(partition.topic_partition)
    if answer is not None and answer.error is not None:
        raise answer.error
    if states.is_ongoing(producer.id, producer.epoch):
        return
    if answers.epochs.get(partition.topic_partition) != partition.leader_epoch:
        raise errors.NotLeaderOrFollower("this broker became the leader only after the request came")
    if answer is None or not states.verifications.stands(producer.id, answer.verification):
        raise unverified(version)
