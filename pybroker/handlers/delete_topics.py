"""DeleteTopics (20), 1-6: deletes topics: up to v5 by name, in v6 by name or id (KIP-516).

The reply comes when the deletion is durable and visible. The logs are deleted later.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pybroker.cluster.decisions.plan import Outcome, TopicName
from pybroker.cluster.metadata.image import MetadataImage, TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.mutation_quota import Mutation, within_quota
from pybroker.handlers.common.security.rights import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC, may
from pybroker.handlers.common.writes import in_writes
from pyclient.protocol import ZERO_UUID, DeleteTopics, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Asked = DeleteTopics.Request.DeleteTopicState
    Result = DeleteTopics.Response.DeletableTopicResult

_DENIED: Final = errors.TopicAuthorizationFailed()
_FIRST_WITH_IDS = 6
_FIRST_WITH_TOPIC_DELETION_DISABLED = 3


def _lists(version: int) -> tuple[str, str]:
    return ("topic_names" if version < _FIRST_WITH_IDS else "topics"), "responses"


def _key(topic: str | Asked, call: Call) -> Hashable:
    """Returns a value that identifies a topic, whether the request gives its name or its id."""
    if isinstance(topic, str):
        return topic
    found = call.broker.metadata.image.topic_by_id(topic.topic_id) if topic.name is None else None
    return topic.name or topic.topic_id if found is None else found.name


def _cost(topic: str | Asked, call: Call) -> int:
    name = _key(topic, call)
    found = call.broker.metadata.image.topic(name) if isinstance(name, str) else None
    return 0 if found is None else len(found.partitions)


def _is_permitted(topic: str | Asked, call: Call) -> bool:
    name = _key(topic, call)
    return may(call, DELETE_CLUSTER, is_told=False) or (
        isinstance(name, str) and may(call, DELETE_TOPIC, name, is_told=False)
    )


def _refused(topic: str | Asked, error: KafkaError) -> Result:
    if isinstance(topic, str):
        return _result(TopicName(topic), error)
    return _result(TopicName(topic.name, topic.topic_id), error)


@within_quota(Mutation(_lists, 5, _key, _cost, _is_permitted, _refused))
async def handle(request: DeleteTopics.Request, call: Call) -> DeleteTopics.Response:
    """Answers with one result per topic, in the order of the request. A repeated topic gets only one result."""
    response: DeleteTopics.Response
    if call.version < _FIRST_WITH_IDS:
        response = await in_writes(request, call, _at_controller, _lists(call.version), str)
    else:
        key, spelled = partial(_key, call=call), attrgetter("name", "topic_id")
        response = await in_writes(request, call, _at_controller, _lists(call.version), key, spelled)
    return response


async def _delete(request: DeleteTopics.Request, call: Call) -> DeleteTopics.Response:
    names = _names(request, call.version)
    denied = {} if call.broker.authorizer is None or may(call, DELETE_CLUSTER, is_told=False) else _denied(names, call)
    allowed = [asked for asked in names if asked not in denied]
    outcomes: dict[TopicName, Outcome] = dict.fromkeys(names, _DENIED)
    outcomes.update(zip(allowed, await _outcomes(allowed, call), strict=True))
    return DeleteTopics.Response(
        responses=[_result(denied.get(asked, asked), outcome) for asked, outcome in outcomes.items()]
    )


_at_controller = forwarded(DeleteTopics, _delete)


def _names(request: DeleteTopics.Request, version: int) -> list[TopicName]:
    if version < _FIRST_WITH_IDS:
        return [TopicName(name) for name in request.topic_names]
    return [
        TopicName(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
        for topic in request.topics
    ]


def _denied(names: Sequence[TopicName], call: Call) -> dict[TopicName, TopicName]:
    """Returns the topics that the client may not delete, in the form that the response shows.

    If the request gives an id, the response has the topic's name only if the client may describe the topic.
    """
    image: MetadataImage = call.broker.metadata.image
    denied = {}
    for asked in names:
        if asked.id is None or asked.name is not None:
            name, is_told = asked.name, True
        else:
            topic = image.topic_by_id(asked.id)
            name = None if topic is None else topic.name
            is_told = name is not None and may(call, DESCRIBE_TOPIC, name, is_told=False)
        if name is not None and not may(call, DELETE_TOPIC, name):
            denied[asked] = TopicName(name if is_told else None, asked.id)
    return denied


async def _outcomes(names: Sequence[TopicName], call: Call) -> Sequence[Outcome]:
    if not call.broker.config["delete.topic.enable"]:
        disabled = (
            errors.TopicDeletionDisabled
            if call.version >= _FIRST_WITH_TOPIC_DELETION_DISABLED
            else errors.InvalidRequest
        )
        return [disabled("delete.topic.enable is false")] * len(names)
    try:
        outcomes: Sequence[Outcome] = await call.broker.controller.delete_topics(names)
    except KafkaError as error:
        return [error] * len(names)
    return outcomes


def _result(asked: TopicName, outcome: Outcome) -> Result:
    if isinstance(outcome, TopicImage):
        return DeleteTopics.Response.DeletableTopicResult(name=outcome.name, topic_id=outcome.id)
    return DeleteTopics.Response.DeletableTopicResult(
        name=asked.name,
        topic_id=asked.id or ZERO_UUID,
        error_code=outcome.code,
        error_message=str(outcome),
    )
