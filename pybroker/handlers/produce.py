"""Produce (0), 3-13: appends one record batch to each partition that is named.

- v3 requires magic 2; v7 adds zstd (KIP-110), v8 errors of single records (KIP-467), v10 the new leader (KIP-951)
- v11 adds the error TRANSACTION_ABORTABLE (KIP-890), v13 topic ids (KIP-516); v12 adds partitions to the transaction

Versions 0-2 are advertised, because librdkafka never compresses without them; requests in these versions are refused.

acks=0 wants no response; its errors close the connection. The first batch of a transaction in a
partition waits for the coordinator's answer: see ``admission``. A long request continues in
further turns (``turns``), and a batch that takes long to unpack is unpacked on a thread.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterator
from itertools import repeat
from typing import Any

from cy.batch import CODEC_MASK, HEADER_SIZE, MAGIC_AT, TRANSACTIONAL_FLAG
from cy.batch.compression import Codec
from pybroker.handlers.common import admission
from pybroker.handlers.common.admission import (
    ADDS_SINCE,
    FLAGS_AT,
    MAGIC,
    TOPIC_IDS_SINCE,
    Answers,
    Inquiry,
    Seen,
    keep_records,
)
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.leader_hint import add_leader_hint
from pybroker.handlers.common.pacing import Paced, settled, walk
from pybroker.handlers.common.turns import Turn
from pybroker.log.files.storage import Bytes
from pybroker.log.validation import CheckedBatch, Rules, TooHeavy
from pybroker.replication.partition import ACKS_ALL, ACKS_NONE, Partition
from pyclient.protocol import Produce, errors

Response = Produce.Response
TopicResponse = Response.TopicProduceResponse
PartitionResponse = Response.PartitionProduceResponse
TopicData = Produce.Request.TopicProduceData
PartitionData = Produce.Request.PartitionProduceData
Pending = list[tuple[PartitionResponse, Future[None]]]
Item = tuple[TopicData, PartitionData, Seen | None, list[PartitionResponse]]
"""A batch to append: what ``admission.look`` found (only with a transactional id), and the list for its answer."""

ZSTD_SINCE, HINTS_SINCE = 7, 10
V1, V2 = 1, 2
SPECIAL_FLAGS = TRANSACTIONAL_FLAG | int(Codec.ZSTD)


def handle(request: Produce.Request, call: Call) -> Produce.Response | Awaitable[Produce.Response | None] | None:
    """Answers at once if acks is fulfilled already and no coordinator has to be asked.

    With acks=0, raises the first KafkaError after it has served the other partitions.
    """
    if request.transactional_id is None:
        return serve(request, call, None, None)
    return handle_new(request, call) if call.broker.replicas.partitions.new else in_transaction(request, call)


async def handle_new(request: Produce.Request, call: Call) -> Produce.Response | None:
    """Creates the logs of new partitions in turns, then does what ``in_transaction`` does."""
    table, by_id = call.broker.replicas.partitions, call.version >= TOPIC_IDS_SINCE
    if not call.connection.pinned:
        keep_records(data for topic in request.topic_data for data in topic.partition_data)

    def make() -> Paced[None]:
        for topic in request.topic_data:
            for data in topic.partition_data:
                if by_id:
                    table.new.make(topic.topic_id, data.index)
                else:
                    table.make(topic.name, data.index)
                yield

    await settled(walk(make(), call))
    response: Response | None = await settled(in_transaction(request, call))
    return response


def in_transaction(request: Produce.Request, call: Call) -> Any:
    """Returns the response to a request with a transactional id, or an awaitable of it."""
    seen = admission.look(request, call)
    try:
        admission.check_id(request, seen, call)
        inquiry = admission.inquiry(seen, call)
    except errors.KafkaError as error:
        return refused(request, error)
    if inquiry is not None:
        return admitted(request, seen, inquiry, call)
    return serve(request, call, seen, None)


async def admitted(
    request: Produce.Request, seen: list[Seen], inquiry: Inquiry, call: Call
) -> Produce.Response | None:
    """Asks the coordinator, then does what ``serve`` does."""
    answers = await admission.ask(request, inquiry, call)
    response = serve(request, call, seen, answers)
    return response if response is None or isinstance(response, Response) else await response


def serve(
    request: Produce.Request, call: Call, seen: list[Seen] | None, said: Answers | None
) -> Produce.Response | Awaitable[Produce.Response | None] | None:
    """Appends the batches, and returns the response. ``seen`` is None unless the request has a transactional id.

    ``said`` has the coordinator's answers, None if there was nothing to ask in this turn.
    """
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return serve_one(request, call, seen, said)
    return serve_many(Appends(request, call, seen, said))


def serve_one(
    request: Produce.Request, call: Call, seen: list[Seen] | None, said: Answers | None
) -> Produce.Response | Awaitable[Produce.Response | None] | None:
    """Serves a request with one batch, as most producers send."""
    topic = request.topic_data[0]
    data = topic.partition_data[0]
    answer = PartitionResponse(index=data.index)
    told = TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])
    response = Response(responses=[told])
    now_ms = call.broker.clock.now_ms()
    try:
        done = append(request, call, said, topic, data, seen[0] if seen else None, answer, now_ms, None)
    except TooHeavy as heavy:
        appends = Appends(request, call, seen, said)
        rest = appends.all()
        return serve_rest(appends, next(rest), rest, heavy.rules)
    except errors.KafkaError as error:
        if request.acks == ACKS_NONE:
            raise
        refuse_with_hint(response, answer, call, topic, data, error)
        return response
    if done is not None:
        return promised(response, [(answer, done)])
    return response if request.acks else None


def append(
    request: Produce.Request,
    call: Call,
    said: Answers | None,
    topic: TopicData,
    data: PartitionData,
    seen: Seen | None,
    answer: PartitionResponse,
    now_ms: int,
    checked: CheckedBatch | None,
) -> Future[None] | None:
    """Appends one batch and fills in its ``answer``. ``checked`` is its checked form if it was too heavy.

    Returns a future that ends when acks is fulfilled, None if it is already. Raises KafkaError, TooHeavy.
    """
    replicas, acks = call.broker.replicas, request.acks
    if call.broker.authorizer is not None:
        admission.check_rights(topic, call)
    if seen is not None and seen.partition is not None and said is None:
        partition = seen.partition
    elif call.version >= TOPIC_IDS_SINCE:
        partition = replicas.by_id(topic.topic_id, data.index)
    else:
        partition = replicas.find(topic.name, data.index)
    records = data.records or b""
    version = check(acks, records, seen, partition, call, said)
    info = replicas.append_to(partition, checked or records, acks, now_ms, transaction_version=version)
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time_ms
    answer.log_start_offset = info.log_start_offset
    if acks != ACKS_ALL:
        return None
    return replicas.promise(partition, info.last_offset, request.timeout_ms)


def refuse_with_hint(
    response: Produce.Response,
    answer: PartitionResponse,
    call: Call,
    topic: TopicData,
    data: PartitionData,
    error: errors.KafkaError,
) -> None:
    """Puts ``error`` into the partition's answer, with the current leader if that is another broker."""
    refuse(answer, error)
    if error.code == errors.NotLeaderOrFollower.code and call.version >= HINTS_SINCE:
        name = None if call.version >= TOPIC_IDS_SINCE else topic.name
        add_leader_hint(response, answer, call, name, topic.topic_id, data.index)


def serve_many(appends: Appends) -> Produce.Response | Awaitable[Produce.Response | None] | None:
    """Appends as many batches as fit into a turn; ``serve_rest`` appends the others in further turns."""
    rest, turn = appends.all(), appends.call.broker.turns.first_turn()
    for each in rest:
        try:
            appends.add(*each)
        except TooHeavy as heavy:
            return serve_rest(appends, each, rest, heavy.rules)
        if turn.is_over():
            return serve_rest(appends, next(rest, None), rest, None)
    return appends.outcome()


async def serve_rest(
    appends: Appends, at: Item | None, rest: Iterator[Item], heavy: Rules | None
) -> Produce.Response | None:
    """Appends the batch ``at``, and then the ``rest``. If ``heavy`` is given, a thread first checks ``at`` by these
    rules, because the check would block the loop.

    Nothing is read from the connection meanwhile, so a producer's batches are appended in their order.
    """
    connection, turns = appends.call.connection, appends.call.broker.turns
    if not connection.pinned:
        keep_records(data for topic in appends.request.topic_data for data in topic.partition_data)
    appends.expect_waits()
    connection.hold()
    try:
        while at is not None:
            checked = None
            if heavy is not None:
                try:
                    checked = await appends.checked(at, heavy)
                except errors.KafkaError as error:
                    appends.refuse(at, errors.without_frames(error))
                    at = next(rest, None)
            turn = await turns.next_turn()
            appends.look_at_the_clock()
            at, heavy = appends.go_on(at, checked, rest, turn)
    except BaseException:
        appends.give_up()
        raise
    finally:
        connection.release()
    outcome = appends.outcome()
    return outcome if outcome is None or isinstance(outcome, Response) else await outcome


class Appends:
    """Appends the batches of a request, and gathers the response."""

    __slots__ = ("_failure", "_now_ms", "_pending", "_said", "_seen", "call", "request", "response")

    def __init__(
        self, request: Produce.Request, call: Call, seen: list[Seen] | None, said: Answers | None
    ) -> None:
        self.request = request
        self.call = call
        self.response = Response(responses=[])
        self._seen = seen
        self._said = said
        self._now_ms = call.broker.clock.now_ms()
        self._pending: Pending = []
        self._failure: errors.KafkaError | None = None

    def answers_of(self, topic: TopicData) -> list[PartitionResponse]:
        """Returns the list for the answers of a topic."""
        answers: list[PartitionResponse] = []
        told = TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        self.response.responses.append(told)
        return answers

    def all(self) -> Iterator[Item]:
        """Yields all batches of the request, in order."""
        seen = repeat(None) if self._seen is None else iter(self._seen)
        for topic in self.request.topic_data:
            answers = self.answers_of(topic)
            for data in topic.partition_data:
                yield topic, data, next(seen), answers

    def expect_waits(self) -> None:
        """Lets each append check its transaction again, because an open transaction may end during a wait."""
        if self._said is None and self._seen is not None:
            self._said = admission.nothing_said(self._seen)

    def look_at_the_clock(self) -> None:
        """Sets the time of further appends to the current time."""
        self._now_ms = self.call.broker.clock.now_ms()

    def add(
        self,
        topic: TopicData,
        data: PartitionData,
        seen: Seen | None,
        answers: list[PartitionResponse],
        checked: CheckedBatch | None = None,
    ) -> None:
        """Appends one batch and adds the answer for that batch. Raises TooHeavy."""
        answer = PartitionResponse(index=data.index)
        try:
            done = append(self.request, self.call, self._said, topic, data, seen, answer, self._now_ms, checked)
        except errors.KafkaError as error:
            self._refuse(topic, data, answer, error)
        else:
            if done is not None:
                self._pending.append((answer, done))
        answers.append(answer)

    def _refuse(
        self, topic: TopicData, data: PartitionData, answer: PartitionResponse, error: errors.KafkaError
    ) -> None:
        self._failure = self._failure or errors.without_frames(error)
        refuse_with_hint(self.response, answer, self.call, topic, data, error)

    async def checked(self, at: Item, rules: Rules) -> CheckedBatch:
        """Checks a batch on a thread, because it is too heavy for the event loop. Raises KafkaError."""
        broker, records = self.call.broker, at[1].records
        assert records is not None
        return await broker.loop.run_in_executor(broker.unpackers, rules.checked, records, broker.clock.now_ms())

    def go_on(
        self, at: Item | None, checked: CheckedBatch | None, rest: Iterator[Item], turn: Turn
    ) -> tuple[Item | None, Rules | None]:
        """Appends ``at``, and then batches of the ``rest`` until the turn is over.

        ``checked`` is the checked form of ``at`` if it was too heavy. Returns the next batch, None if there is none. If
        that batch is too heavy, also returns the rules by which a thread must check it.
        """
        while at is not None:
            try:
                self.add(*at, checked)
            except TooHeavy as heavy:
                return at, heavy.rules
            checked = None
            at = next(rest, None)
            if turn.is_over():
                break
        return at, None

    def refuse(self, at: Item, error: errors.KafkaError) -> None:
        """Adds an error answer for a batch that is not appended."""
        topic, data, _, answers = at
        answers.append(PartitionResponse(index=data.index))
        self._refuse(topic, data, answers[-1], error)

    def give_up(self) -> None:
        """Cancels all waits, because the request was cancelled."""
        for _, done in self._pending:
            done.cancel()

    def outcome(self) -> Produce.Response | Awaitable[Produce.Response] | None:
        """Returns the handler's result after all appends. Raises the first error of acks=0."""
        if self.request.acks == ACKS_NONE:
            if self._failure is not None:
                raise self._failure
            return None
        return promised(self.response, self._pending) if self._pending else self.response


def check(
    acks: int,
    records: Bytes,
    seen: Seen | None,
    partition: Partition,
    call: Call,
    said: Answers | None,
) -> int:
    """Checks what the API requires, before the log checks the batch.

    Returns the transaction version of a transactional batch, 0 for others.

    Raises InvalidRequiredAcks, InvalidTopicException, InvalidRecord, UnsupportedCompressionType,
    TransactionAbortable, InvalidTxnState, TransactionalIdAuthorizationFailed.
    """
    if not -1 <= acks <= 1:
        raise errors.InvalidRequiredAcks(f"acks={acks} is invalid: it must be -1, 0 or 1")
    if admission.is_closed(partition):
        raise errors.InvalidTopicException("clients may not write to internal topics")
    if not records:
        raise errors.InvalidRecord("the request has no record batch for the partition")
    if seen is not None:
        flags = seen.flags
    elif len(records) >= HEADER_SIZE and records[FLAGS_AT] & SPECIAL_FLAGS and records[MAGIC_AT] == MAGIC:
        flags = records[FLAGS_AT]
    else:
        return 0
    if flags & CODEC_MASK == Codec.ZSTD and call.version < ZSTD_SINCE:
        raise errors.UnsupportedCompressionType(f"zstd needs Produce v{ZSTD_SINCE} or later")
    if not flags & TRANSACTIONAL_FLAG:
        return 0
    if seen is None:
        raise errors.TransactionalIdAuthorizationFailed("a transactional batch came without a transactional id")
    if said is not None:
        admission.check(partition, seen.producer, said, call.version)
    return V2 if call.version >= ADDS_SINCE else V1


def refused(request: Produce.Request, error: errors.KafkaError) -> Produce.Response | None:
    """Returns the response to a request that is refused as a whole; for acks=0 raises ``error``."""
    if request.acks == ACKS_NONE:
        raise error
    response = Response()
    for topic in request.topic_data:
        answers = [PartitionResponse(index=data.index) for data in topic.partition_data]
        for answer in answers:
            refuse(answer, error)
        response.responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    return response


def refuse(answer: PartitionResponse, error: errors.KafkaError) -> None:
    """Puts ``error`` into the partition's answer."""
    answer.error_code = error.code
    answer.error_message = str(error)
    answer.base_offset = -1
    answer.record_errors = [
        Response.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in getattr(error, "record_errors", ())
    ]


async def promised(response: Produce.Response, pending: Pending) -> Produce.Response:
    """Returns the response as soon as acks=all is fulfilled or has failed for every partition."""
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
