"""Produce (0), 3-13: appends one record batch to each partition that is named.

v3 magic 2 only, v7 zstd (KIP-110), v8 errors of single records (KIP-467), v10 the new leader
(KIP-951), v11 TRANSACTION_ABORTABLE (KIP-890), v12 adds partitions to the transaction (KIP-890),
v13 topic ids (KIP-516). Versions 0-2 are advertised for the sake of librdkafka, which else never
compresses, and refused.

acks=0 wants no response; its errors close the connection. The first batch of a transaction in a
partition waits for the coordinator's word: see ``admission``.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable

from cy.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_SIZE, MAGIC_AT, TRANSACTIONAL_FLAG
from cy.compression import Codec
from pybroker.handlers import admission
from pybroker.handlers.admission import Answers, Inquiry
from pybroker.handlers.call import Call
from pybroker.handlers.leader_hint import add_leader_hint
from pybroker.replication.partition import ACKS_ALL, Partition
from pyclient.protocol import Produce, errors

Response = Produce.Response
TopicResponse = Response.TopicProduceResponse
PartitionResponse = Response.PartitionProduceResponse
Pending = list[tuple[PartitionResponse, Future[None]]]

ZSTD_SINCE, HINTS_SINCE, ADDS_SINCE, TOPIC_IDS_SINCE = 7, 10, 12, 13
MAGIC = 2
V1, V2 = 1, 2
FLAGS_AT = ATTRIBUTES_AT + 1
SPECIAL_FLAGS = TRANSACTIONAL_FLAG | int(Codec.ZSTD)


def handle(request: Produce.Request, call: Call) -> Produce.Response | Awaitable[Produce.Response | None] | None:
    """Answers at once where what acks promises holds already and no coordinator is to be asked.

    Raises the first KafkaError of acks=0, when the other partitions have been served.
    """
    if request.transactional_id is not None:
        try:
            inquiry = admission.inquiry(request, call)
        except errors.KafkaError as error:
            return refused(request, error)
        if inquiry is not None:
            return admitted(request, inquiry, call)
    return serve(request, call, None)


async def admitted(request: Produce.Request, inquiry: Inquiry, call: Call) -> Produce.Response | None:
    """As ``serve``, after the coordinator has been asked."""
    answers = await admission.ask(request, inquiry, call)
    response = serve(request, call, answers)
    return response if response is None or isinstance(response, Response) else await response


def serve(
    request: Produce.Request, call: Call, said: Answers | None
) -> Produce.Response | Awaitable[Produce.Response] | None:
    """Appends what may be appended. ``said``: what the coordinator has said, None where there was
    nothing to ask in this turn.
    """
    broker = call.broker
    replicas = broker.replicas
    now_ms = broker.clock.now_ms()
    acks = request.acks
    by_id = call.version >= TOPIC_IDS_SINCE
    pending: Pending | None = None
    failure: errors.KafkaError | None = None
    responses: list[TopicResponse] = []
    response = Response(responses=responses)
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            answer = PartitionResponse(index=data.index)
            try:
                if by_id:
                    partition = replicas.by_id(topic.topic_id, data.index)
                else:
                    partition = replicas.find(topic.name, data.index)
                version = check(request, data.records, partition, call, said)
                info = replicas.append_to(
                    partition, data.records, acks, now_ms, transaction_version=version
                )
                answer.base_offset = info.first_offset
                answer.log_append_time_ms = info.log_append_time_ms
                answer.log_start_offset = info.log_start_offset
                if acks == ACKS_ALL:
                    done = replicas.promise(partition, info.last_offset, request.timeout_ms)
                    if done is not None:
                        pending = [*(pending or ()), (answer, done)]
            except errors.KafkaError as error:
                failure = failure or error
                refuse(answer, error)
                if error.code == errors.NotLeaderOrFollower.code and call.version >= HINTS_SINCE:
                    name = None if by_id else topic.name
                    add_leader_hint(response, answer, call, name, topic.topic_id, data.index)
            answers.append(answer)
        responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if acks == 0:
        if failure is not None:
            raise failure
        return None
    return promised(response, pending) if pending is not None else response


def check(
    request: Produce.Request,
    records: bytes | bytearray | memoryview | None,
    partition: Partition,
    call: Call,
    said: Answers | None,
) -> int:
    """What the API asks of a request, before the log looks at the batch; returns the version of
    the transaction that it belongs to, 0 for none.

    Raises InvalidRequiredAcks, InvalidTopicException, InvalidRecord, UnsupportedCompressionType,
    TransactionAbortable, InvalidTxnState, TransactionalIdAuthorizationFailed.
    """
    if not -1 <= request.acks <= 1:
        raise errors.InvalidRequiredAcks(f"acks={request.acks} is none of -1, 0 and 1")
    if admission.is_closed(partition, call):
        raise errors.InvalidTopicException("clients do not write to internal topics")
    if not records:
        raise errors.InvalidRecord("there is no record batch")
    if len(records) >= HEADER_SIZE and records[FLAGS_AT] & SPECIAL_FLAGS and records[MAGIC_AT] == MAGIC:
        flags = records[FLAGS_AT]
        if flags & CODEC_MASK == Codec.ZSTD and call.version < ZSTD_SINCE:
            raise errors.UnsupportedCompressionType(f"zstd needs Produce v{ZSTD_SINCE} or later")
        if flags & TRANSACTIONAL_FLAG:
            if request.transactional_id is None:
                raise errors.TransactionalIdAuthorizationFailed("no transactional id is given")
            if said is not None:
                admission.check(partition, records, said, call.version)
            return V2 if call.version >= ADDS_SINCE else V1
    return 0


def refused(request: Produce.Request, error: errors.KafkaError) -> Produce.Response | None:
    """The response to a request that is wrong as a whole; for acks=0 raises ``error``."""
    if request.acks == 0:
        raise error
    response = Response()
    for topic in request.topic_data:
        answers = [PartitionResponse(index=data.index) for data in topic.partition_data]
        for answer in answers:
            refuse(answer, error)
        response.responses.append(
            TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    return response


def refuse(answer: PartitionResponse, error: errors.KafkaError) -> None:
    """The partition's answer is ``error``."""
    answer.error_code = error.code
    answer.error_message = str(error)
    answer.base_offset = -1
    answer.record_errors = [
        Response.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in getattr(error, "record_errors", ())
    ]


async def promised(response: Produce.Response, pending: Pending) -> Produce.Response:
    """The response, when the promise of acks=all holds for every partition, or cannot."""
    try:
        for answer, done in pending:
            try:
                await done
            except errors.KafkaError as error:
                answer.error_code = error.code
                answer.error_message = str(error)
    finally:
        for _, done in pending:
            done.cancel()
    return response
