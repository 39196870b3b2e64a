"""Admits writes to a transaction: what Produce asks the transaction coordinator (KIP-890).

A transactional batch goes straight to the log where its producer has an open transaction there, at
the price of a look-up. Else the coordinator of the transactional id is asked: from Produce v12 on
to add the partition to the transaction, before that whether the client has added it. What that means
to the log is in ``log.verification``.

Meanwhile the request waits, and with it its connection. Nothing more is read from it, so a producer's batches are
appended in the order in which they came, and at most one request per connection is kept. Its batches are copied, as
their buffer is used again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cy.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC_AT, PRODUCER_ID_AT, TRANSACTIONAL_FLAG
from pybroker.cluster.metadata.image import INTERNAL_TOPICS
from pybroker.handlers.common import rights
from pybroker.handlers.common.call import Call
from pybroker.log.producers.verification import Verification
from pybroker.replication.partition import Partition
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import Produce, errors

ABORTABLE_SINCE, ADDS_SINCE, TOPIC_IDS_SINCE = 11, 12, 13
"""Versions of Produce."""
MAGIC = 2
FLAGS_AT = ATTRIBUTES_AT + 1
"""The flags are in the lower byte of the attributes."""

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
"""The coordinator has not said anything: old clients know how to repeat NOT_ENOUGH_REPLICAS only."""


class Producer(NamedTuple):
    """The producer of a batch, and the batch's place in its sequence."""

    id: int
    epoch: int
    sequence: int


class Seen(NamedTuple):
    """A batch of a request with a transactional id, as it was when the request came.

    ``flags``: of its header, 0 of what is no batch. ``producer``: of a transactional batch, else None.
    ``partition``: the one led here that would take such a batch, in this turn of the loop; else None.
    """

    flags: int
    producer: Producer | None
    partition: Partition | None


class Question(NamedTuple):
    """A partition for which the coordinator is asked."""

    partition: Partition
    producer: Producer
    verification: Verification


NO_BATCH = Seen(0, None, None)


class Inquiry(NamedTuple):
    """The inquiry for a request. ``epochs``: those in which this broker leads the partitions that it writes to."""

    questions: list[Question]
    epochs: Mapping[TopicPartition, int]


class Answer(NamedTuple):
    """The result: ``error`` is None where the batch may be appended."""

    verification: Verification
    error: errors.KafkaError | None


class Answers(NamedTuple):
    """The result of an inquiry; ``epochs`` as there."""

    said: Mapping[TopicPartition, Answer]
    epochs: Mapping[TopicPartition, int]


def look(request: Produce.Request, call: Call) -> list[Seen]:
    """Each batch of the request, in its order."""
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
    """Raises TopicAuthorizationFailed for a topic that the client may not write to, UnknownTopicId."""
    if call.broker.authorizer is not None:
        name = None if call.version >= TOPIC_IDS_SINCE else topic.name
        rights.check_topic(call, rights.WRITE_TOPIC, name, topic.topic_id)


def check_id(request: Produce.Request, seen: Iterable[Seen], call: Call) -> None:
    """Raises TransactionalIdAuthorizationFailed for transactional batches of an id that is not the client's."""
    if call.broker.authorizer is not None and any(each.flags & TRANSACTIONAL_FLAG for each in seen):
        rights.check(call, rights.WRITE_TRANSACTIONAL_ID, request.transactional_id or "")


def inquiry(seen: Sequence[Seen], call: Call) -> Inquiry | None:
    """What has to be asked before a request of these batches can be served, None where it is nothing.

    Raises InvalidProducerIdMapping where there are transactional batches of several producers.
    """
    found = _transactional(seen)
    if len(found) > 1 and len({(producer.id, producer.epoch) for _, producer in found}) > 1:
        raise errors.InvalidProducerIdMapping("transactional batches of more than one producer")
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
    """For a request that had nothing to ask, and whose batches are appended in later turns: their transactions have to
    be open then as they were when it came.
    """
    return Answers({}, _epochs(_transactional(seen)))


def _epochs(found: Iterable[tuple[Partition, Producer]]) -> dict[TopicPartition, int]:
    return {partition.topic_partition: partition.leader_epoch for partition, _ in found}


def _transactional(seen: Iterable[Seen]) -> list[tuple[Partition, Producer]]:
    """The transactional batches that a partition led here would take."""
    return [
        (each.partition, each.producer)
        for each in seen
        if each.partition is not None and each.producer is not None
    ]


def is_closed(partition: Partition) -> bool:
    """True for an internal topic: only its coordinator writes there, whatever a client calls itself."""
    return partition.topic_partition.topic in INTERNAL_TOPICS


async def ask(request: Produce.Request, inquiry: Inquiry, call: Call) -> Answers:
    """The coordinator's answers; the connection is held until they are there."""
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
    """Copies them: the connection's buffer is used again while the request waits."""
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
    """The coordinator's refusal in words that a producer of that version understands."""
    unanswered = isinstance(error, UNANSWERED)
    if unanswered or (isinstance(error, errors.ConcurrentTransactions) and version < ADDS_SINCE):
        return errors.NotEnoughReplicas(f"the partition's transaction cannot be verified: {error}")
    if isinstance(error, errors.ProducerFenced):
        return errors.InvalidProducerEpoch(str(error))
    if isinstance(error, errors.TransactionAbortable):
        return unverified(version)
    return error


def unverified(version: int) -> errors.KafkaError:
    """The refusal of a batch that belongs to no open transaction."""
    text = "the partition has not been added to the transaction"
    return errors.TransactionAbortable(text) if version >= ABORTABLE_SINCE else errors.InvalidTxnState(text)


def check(partition: Partition, producer: Producer | None, answers: Answers, version: int) -> None:
    """May this transactional batch be appended, after a wait? Looked at in the append's turn.

    Raises what the coordinator has said, NotLeaderOrFollower where this broker began to lead since, so that
    nobody was asked; TransactionAbortable or InvalidTxnState where the transaction has ended since.
    """
    states = partition.log.producers
    if producer is None or producer.id < 0 or states.is_fenced(producer.id, producer.epoch):
        return  # nobody's transaction, or the log says what is wrong
    answer = answers.said.get(partition.topic_partition)
    if answer is not None and answer.error is not None:
        raise answer.error
    if states.is_ongoing(producer.id, producer.epoch):
        return
    if answers.epochs.get(partition.topic_partition) != partition.leader_epoch:
        raise errors.NotLeaderOrFollower("not the leader of this epoch when the request came")
    if answer is None or not states.verifications.stands(producer.id, answer.verification):
        raise unverified(version)
