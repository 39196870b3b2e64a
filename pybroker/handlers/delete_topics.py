"""DeleteTopics (20), 1-6: deletes topics; v1-5 by name, v6 by name or id (KIP-516).

The reply comes when the deletion is durable and the logs here have lost their names. Their files are removed later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pybroker.cluster.decisions.plan import Outcome, TopicName
from pybroker.cluster.metadata.image import TopicImage
from pybroker.handlers.common.call import Call
from pyclient.protocol import ZERO_UUID, DeleteTopics, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Result = DeleteTopics.Response.DeletableTopicResult

_FIRST_WITH_IDS = 6
_FIRST_WITH_TOPIC_DELETION_DISABLED = 3


async def handle(request: DeleteTopics.Request, call: Call) -> DeleteTopics.Response:
    """One result per topic, in the order of the request."""
    names = _names(request, call.version)
    outcomes = await _delete(names, call)
    return DeleteTopics.Response(
        responses=[_result(n, outcome) for n, outcome in zip(names, outcomes, strict=True)]
    )


def _names(request: DeleteTopics.Request, version: int) -> list[TopicName]:
    if version < _FIRST_WITH_IDS:
        return [TopicName(name) for name in request.topic_names]
    return [
        TopicName(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
        for topic in request.topics
    ]


async def _delete(names: Sequence[TopicName], call: Call) -> Sequence[Outcome]:
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
