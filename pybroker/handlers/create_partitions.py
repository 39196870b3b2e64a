"""CreatePartitions (37), 0-3: adds partitions to topics. Partitions cannot be removed (KIP-195)."""

from __future__ import annotations

from operator import attrgetter

from pybroker.cluster.decisions.plan import NewPartitions, Outcome
from pybroker.cluster.metadata.image import TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.writes import in_writes
from pyclient.protocol import CreatePartitions
from pyclient.protocol.errors import KafkaError


async def handle(request: CreatePartitions.Request, call: Call) -> CreatePartitions.Response:
    """One result per topic, in the order of the request; a name that is there twice, once."""
    lists = "topics", "results"
    response: CreatePartitions.Response = await in_writes(request, call, _at_controller, lists, attrgetter("name"))
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
    ]
    outcomes: list[Outcome]
    try:
        outcomes = await call.broker.controller.create_partitions(
            wanted, validate_only=request.validate_only
        )
    except KafkaError as error:
        outcomes = [error] * len(wanted)
    by_name = {topic.name: outcome for topic, outcome in zip(wanted, outcomes, strict=True)}
    return CreatePartitions.Response(
        results=[
            CreatePartitions.Response.CreatePartitionsTopicResult(name=name, error_message=None)
            if isinstance(outcome, TopicImage)
            else CreatePartitions.Response.CreatePartitionsTopicResult(
                name=name, error_code=outcome.code, error_message=str(outcome)
            )
            for name, outcome in by_name.items()
        ]
    )


_at_controller = forwarded(CreatePartitions, _create)
