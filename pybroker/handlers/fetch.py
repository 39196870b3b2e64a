"""Fetch (1), 4-18: returns records of the partitions that the request or its session names.

- v4 adds the isolation level, v5 the log start, v7 sessions (KIP-227), v9 and v12 leader epochs (KIP-320, KIP-595)
- v10 adds zstd, v11 reads from followers (KIP-392), v13 topic ids (KIP-516), v16 the new leader (KIP-951)

A consumer's fetch of many partitions, named by the request or by its session, is served in turns (``pacing``). Before
the read, the logs of new partitions are created, also in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.leader_hint import add_leader_hint
from pybroker.handlers.common.pacing import PIECE, Paced, in_pieces, settled, walk
from pybroker.handlers.common.security.permitted_fetch import PermittedFetch
from pybroker.replication.fetch_partition import FetchPartition, Isolation, PartitionRead
from pybroker.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, Answer, Context, FetchSessions, Key
from pybroker.replication.fetching import Fetch as FetchOperation
from pybroker.replication.leading.follower_session import Asked
from pybroker.replication.leading.read_replica import by_rack, is_rack_aware
from pyclient.protocol import Fetch, errors

if TYPE_CHECKING:  # so that a broker without quotas does not import it
    from cy.quota import Allowance

Response = Fetch.Response
TopicResponse = Response.FetchableTopicResponse
PartitionData = Response.PartitionData
AbortedTransaction = Response.AbortedTransaction

FOLLOWER_READS_SINCE, TOPIC_IDS_SINCE, REPLICA_STATE_SINCE, HINTS_SINCE = 11, 13, 15, 16
NOBODY = UNKNOWN_EPOCH = -1
WITHOUT_LOG = (errors.UnknownTopicOrPartition, errors.UnknownTopicId, errors.TopicAuthorizationFailed)
HINTED = (errors.NotLeaderOrFollower.code, errors.FencedLeaderEpoch.code)


def handle(request: Fetch.Request, call: Call) -> Any:
    """Returns the response, or a future of it if the fetch has to wait."""
    replica = replica_of(request, call.version)
    if replica != NOBODY:
        is_new = bool(call.broker.replicas.partitions.new)
        return follow_new(request, call, replica) if is_new else follow(request, call, replica)
    if names_many(request):
        return fetch_many_named(request, call)
    by_id = call.version >= TOPIC_IDS_SINCE
    try:
        context = context_of(request, call, wanted(request, by_id))
    except errors.KafkaError as error:
        return Response(error_code=error.code)
    if len(context.partitions) > PIECE or call.broker.replicas.partitions.new:
        return fetch_many(context, request, call)
    allowance = None
    if call.broker.quotas is not None:
        share = call.connection.share
        allowance = share.fetch if share is not None and share.is_current else allowance_of(call)
    fetch = operation(context, request, call, allowance)
    return call.broker.replicas.fetch(fetch, request.max_wait_ms, partial(respond, context, call, allowance, fetch))


async def follow_new(request: Fetch.Request, call: Call, replica: int) -> Fetch.Response:
    """Creates the logs of new partitions, then does what ``follow`` does."""
    await make_logs(named(request, call.version >= TOPIC_IDS_SINCE), call)
    response: Response = await settled(follow(request, call, replica))
    return response


async def make_logs(partitions: Iterable[FetchPartition], call: Call) -> None:
    """Creates the partitions' logs that are still missing, in turns."""
    table = call.broker.replicas.partitions

    def make() -> Paced[None]:
        for partition in partitions if table.new else ():
            table.make_for(partition)
            yield

    await settled(walk(make(), call))


def names_many(request: Fetch.Request) -> bool:
    """Returns True if the request names so many partitions that walking them takes several turns."""
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    for gone in request.forgotten_topics_data:
        count += len(gone.partitions)
    return count > PIECE


async def fetch_many_named(request: Fetch.Request, call: Call) -> Fetch.Response:
    """Handles a consumer's request that names many partitions, in turns."""
    by_id = call.version >= TOPIC_IDS_SINCE
    sessions: FetchSessions = call.broker.replicas.sessions
    found: dict[Key, FetchPartition] = {}

    def change(some: list[FetchPartition], forgotten: list[Key]) -> None:
        sessions.update(request.session_id, request.session_epoch, some, forgotten, by_id, call.principal)

    try:
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            await in_pieces(named(request, by_id), lambda some: found.update((p.key, p) for p in some), call)
        else:
            await in_pieces(named(request, by_id), lambda some: change(some, []), call)
            await in_pieces(forgotten(request, by_id), lambda keys: change([], keys), call)
        context = context_of(request, call, found, have_changed=True)
    except errors.KafkaError as error:
        return Response(error_code=error.code)
    return await fetch_many(context, request, call)


async def fetch_many(context: Context, request: Fetch.Request, call: Call) -> Fetch.Response:
    """Creates the logs of new partitions, then reads, waits and answers, in turns."""
    await make_logs(context.partitions, call)
    allowance = allowance_of(call)
    fetch = operation(context, request, call, allowance)
    enough: list[bool] = []
    await in_pieces(fetch.wanted, lambda some: enough.append(fetch.read_some(some)), call)
    if not any(enough) and request.max_wait_ms > 0 and fetch.wanted:
        await wait(fetch, request.max_wait_ms, call)
    delay_ms = 0
    if allowance is not None:
        has_all, delay_ms = allowance.use_or_wait(fetch.size, call.broker.clock.monotonic_ms())
        if not has_all:
            return put_off(context, delay_ms)
    response = Response(throttle_time_ms=delay_ms)
    try:
        reads = zip(context.partitions, fetch.reads, strict=True)
        await in_pieces(reads, lambda some: add_answers(response, call, context.some(some)), call)
        response.session_id = context.end(call.broker.clock.monotonic_ms())
    except errors.KafkaError as error:
        return Response(error_code=error.code)
    return response


async def wait(fetch: FetchOperation, max_wait_ms: int, call: Call) -> None:
    """Waits until the fetch has read enough bytes, but at most ``max_wait_ms``."""
    waiting = call.broker.replicas.purgatory.begin(fetch, max_wait_ms)
    try:
        await in_pieces(range(len(fetch.wanted)), waiting.watch, call)
        await waiting
    finally:
        waiting.cancel()


def context_of(
    request: Fetch.Request, call: Call, partitions: dict[Key, FetchPartition], *, have_changed: bool = False
) -> Context:
    """Returns the request's context in its session. Raises the errors of ``FetchSessions.context``.

    With ``have_changed``, the session knows the request's changes already.
    """
    broker, by_id = call.broker, call.version >= TOPIC_IDS_SINCE
    sessions: FetchSessions = broker.replicas.sessions
    return sessions.context(
        request.session_id,
        request.session_epoch,
        partitions,
        () if have_changed else forgotten(request, by_id),
        by_id,
        broker.clock.monotonic_ms(),
        call.principal,
    )


def operation(
    context: Context, request: Fetch.Request, call: Call, allowance: Allowance | None
) -> FetchOperation:
    """Returns the fetch of the context's partitions, limited to the bytes that a quota allows at once.

    Raises InvalidRequest, for which the response has no field.
    """
    broker = call.broker
    max_bytes = min(request.max_bytes, broker.config["fetch.max.bytes"])
    if allowance is not None and allowance.most_at_once < max_bytes:
        max_bytes = allowance.most_at_once
    redirects = request.rack_id and is_rack_aware(broker.config)
    fetch = FetchOperation if broker.authorizer is None else partial(PermittedFetch, call)
    return fetch(
        context.partitions,
        broker.replicas.resolve,
        min_bytes=request.min_bytes,
        max_bytes=max_bytes,
        isolation=isolation(request.isolation_level),
        must_lead=call.version < FOLLOWER_READS_SINCE,
        select=by_rack(request.rack_id, broker.metadata.image.brokers) if redirects else None,
    )


def follow(request: Fetch.Request, call: Call, replica: int) -> Any:
    """Returns the response to a follower, or a future of it."""
    leading = call.broker.replicas.leading
    if replica != call.connection.broker_id or leading is None:
        return refuse(request, call)
    by_id = call.version >= TOPIC_IDS_SINCE
    asked = Asked(
        request.session_id,
        request.session_epoch,
        UNKNOWN_EPOCH if request.replica_state is None else request.replica_state.replica_epoch,
        wanted(request, by_id),
        forgotten(request, by_id),
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
    )
    try:
        return leading.fetch(replica, asked, call.broker.replicas.resolve, partial(response_of, call))
    except errors.KafkaError as error:
        return Response(error_code=error.code)


def replica_of(request: Fetch.Request, version: int) -> int:
    """Returns the broker id of the fetching follower, negative for a consumer."""
    if version < REPLICA_STATE_SINCE:
        return max(request.replica_id, NOBODY)
    return max(request.replica_state.replica_id, NOBODY) if request.replica_state is not None else NOBODY


def refuse(request: Fetch.Request, call: Call) -> Any:
    """Returns TOPIC_AUTHORIZATION_FAILED for each named partition, or a future of that response."""
    return refuse_many(request, call) if names_many(request) else refused(request)


async def refuse_many(request: Fetch.Request, call: Call) -> Fetch.Response:
    """Returns the same response as ``refused``, in turns."""
    response = Response()
    rows = ((topic, each) for topic in request.topics for each in topic.partitions)
    await in_pieces(rows, partial(add_refusals, response), call)
    return response


def refused(request: Fetch.Request) -> Fetch.Response:
    """Returns TOPIC_AUTHORIZATION_FAILED for each named partition."""
    response = Response()
    add_refusals(response, ((topic, each) for topic in request.topics for each in topic.partitions))
    return response


def add_refusals(response: Fetch.Response, rows: Iterable[tuple[Any, Any]]) -> None:
    """Appends refusals of these topics' partitions to the response."""
    for topic, each in rows:
        last = response.responses[-1] if response.responses else None
        if last is None or (last.topic, last.topic_id) != (topic.topic, topic.topic_id):
            last = TopicResponse(topic=topic.topic, topic_id=topic.topic_id)
            response.responses.append(last)
        code = errors.TopicAuthorizationFailed.code
        last.partitions.append(
            PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1, records=b"")
        )


def isolation(level: int) -> Isolation:
    """Returns the isolation for a level in a request. Raises InvalidRequest, for which the response has no field."""
    if level == Isolation.READ_UNCOMMITTED:
        return Isolation.READ_UNCOMMITTED
    if level != Isolation.READ_COMMITTED:
        raise errors.InvalidRequest(f"isolation level {level} is neither 0 nor 1")
    return Isolation.READ_COMMITTED


def wanted(request: Fetch.Request, by_id: bool) -> dict[Key, FetchPartition]:
    """Returns the partitions that the request names, each once, in its order."""
    return {partition.key: partition for partition in named(request, by_id)}


def named(request: Fetch.Request, by_id: bool) -> Iterator[FetchPartition]:
    """Yields the partitions that the request names; a partition may occur several times."""
    for topic in request.topics:
        name = None if by_id else topic.topic
        for each in topic.partitions:
            yield FetchPartition(
                name,
                topic.topic_id,
                each.partition,
                each.fetch_offset,
                max(0, each.partition_max_bytes),
                each.current_leader_epoch,
                each.last_fetched_epoch,
                each.log_start_offset,
            )


def forgotten(request: Fetch.Request, by_id: bool) -> Iterator[Key]:
    """Yields the partitions that the session should forget."""
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield topic.topic_id if by_id else topic.topic, index


def respond(
    context: Context, call: Call, allowance: Allowance | None, fetch: FetchOperation, reads: list[PartitionRead]
) -> Fetch.Response:
    """Returns the response with the records that ``fetch`` has read, or an empty one if the client's quota is used up.
    """
    now_ms, delay_ms = call.broker.clock.monotonic_ms(), 0
    if allowance is not None:
        has_all, delay_ms = allowance.use_or_wait(fetch.size, now_ms)
        if not has_all:
            return put_off(context, delay_ms)
    try:
        session_id, answers = context.answer(reads, now_ms)
    except errors.KafkaError as error:
        return Response(error_code=error.code)
    response = response_of(call, session_id, answers)
    response.throttle_time_ms = delay_ms
    return response


def allowance_of(call: Call) -> Allowance | None:
    """Returns the client's fetch quota, None if it has none."""
    share = call.connection.share
    if share is None or not share.is_current:
        quotas = call.broker.quotas
        if quotas is None:
            return None
        share = quotas.share(call.connection.principal, call.client_id, call.broker.clock.monotonic_ms())
    return share.fetch


def put_off(context: Context, delay_ms: int) -> Fetch.Response:
    """Returns an empty response for a client beyond its quota, so that it asks again after ``delay_ms``."""
    try:
        return Response(throttle_time_ms=delay_ms, session_id=context.put_off())
    except errors.KafkaError as error:
        return Response(error_code=error.code)


def response_of(call: Call, session_id: int, answers: list[Answer]) -> Fetch.Response:
    """Returns the response with these answers."""
    response = Response(session_id=session_id)
    add_answers(response, call, answers)
    return response


def add_answers(response: Fetch.Response, call: Call, answers: Iterable[Answer]) -> None:
    """Appends these answers to the response."""
    topic = response.responses[-1] if response.responses else None
    for partition, read in answers:
        key = partition.key[0]
        if topic is None or key != (topic.topic_id if partition.topic is None else topic.topic):
            topic = TopicResponse(topic=partition.topic or "", topic_id=partition.topic_id)
            response.responses.append(topic)
        data = partition_data(partition, read)
        topic.partitions.append(data)
        if data.error_code in HINTED and call.version >= HINTS_SINCE:
            add_leader_hint(response, data, call, partition.topic, partition.topic_id, partition.index)


def partition_data(partition: FetchPartition, read: PartitionRead) -> PartitionData:
    """Returns one partition's part of the response."""
    aborted: list[AbortedTransaction] | None = [] if isinstance(read.error, WITHOUT_LOG) else None
    if read.aborted is not None:
        aborted = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in read.aborted
        ]
    data = PartitionData(
        partition_index=partition.index,
        error_code=0 if read.error is None else read.error.code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=aborted,
        preferred_read_replica=read.preferred_read_replica,
        records=read.records,
    )
    if read.diverging is not None:
        data.diverging_epoch = Response.EpochEndOffset(epoch=read.diverging.epoch, end_offset=read.diverging.end_offset)
    return data
