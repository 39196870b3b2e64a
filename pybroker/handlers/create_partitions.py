"""CreatePartitions (37), 0-3: adds partitions to topics. Partitions cannot be removed (KIP-195)."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from pybroker.cluster.decisions.plan import NewPartitions, Outcome
from pybroker.cluster.decisions.topics import MAX_PARTITIONS_PER_REQUEST
from pybroker.cluster.metadata.image import TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.mutation_quota import Mutation, within_quota
from pybroker.handlers.common.security.rights import ALTER_TOPIC, may
from pybroker.handlers.common.writes import in_writes
from pyclient.protocol import CreatePartitions, errors
from pyclient.protocol.errors import KafkaError

_LISTS: Final = "topics", "results"
_DENIED: Final = errors.TopicAuthorizationFailed()


def _cost(topic: CreatePartitions.Request.CreatePartitionsTopic, call: Call) -> int:
    found = call.broker.metadata.image.topic(topic.name)
    count = 0 if found is None else topic.count - len(found.partitions)
    return 0 if count > MAX_PARTITIONS_PER_REQUEST else count


_MUTATION: Final = Mutation(
    lists=lambda version: _LISTS,
    strict_since=3,
    key=lambda topic, call: topic.name,
    cost=_cost,
    is_permitted=lambda topic, call: may(call, ALTER_TOPIC, topic.name, is_told=False),
    refused=lambda topic, error: _result(topic.name, error),
)


@within_quota(_MUTATION)
async def handle(request: CreatePartitions.Request, call: Call) -> CreatePartitions.Response:
    """Answers with one result per topic, in the order of the request. A repeated name gets only one result."""
    response: CreatePartitions.Response = await in_writes(request, call, _at_controller, _LISTS, attrgetter("name"))
    return response


async def _create(request: CreatePartitions.Request, call: Call) -> CreatePartitions.Response:
    wanted = [
        NewPartitions(
            topic.name,
            topic.count,
            None
            if topic.assignments is None
            else tuple(tuple(assignment.broker_ids) for assignment in topic.assignments),
        )
        for topic in request.topics
        if may(call, ALTER_TOPIC, topic.name)
    ]
    by_name: dict[str, Outcome] = dict.fromkeys((topic.name for topic in request.topics), _DENIED)
    outcomes: list[Outcome]
    try:
        outcomes = await call.broker.controller.create_partitions(
            wanted, validate_only=request.validate_only
        )
    except KafkaError as error:
        outcomes = [error] * len(wanted)
    by_name |= {topic.name: outcome for topic, outcome in zip(wanted, outcomes, strict=True)}
    return CreatePartitions.Response(results=[_result(name, outcome) for name, outcome in by_name.items()])


def _result(name: str, outcome: Outcome) -> CreatePartitions.Response.CreatePartitionsTopicResult:
    if isinstance(outcome, TopicImage):
        return CreatePartitions.Response.CreatePartitionsTopicResult(name=name, error_message=None)
    return CreatePartitions.Response.CreatePartitionsTopicResult(
        name=name, error_code=outcome.code, error_message=str(outcome)
    )


_at_controller = forwarded(CreatePartitions, _create)
