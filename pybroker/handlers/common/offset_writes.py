"""Commits offsets, or deletes them, for existing partitions; refuses all others.

The coordinator gets the partitions in parts, each of which is one write to its log. The parts are large, because each
write waits for the other replicas, however small it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from pybroker.cluster.metadata.image import MetadataImage, TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Part, one_by_one, parts
from pybroker.handlers.common.security.rights import READ_TOPIC, may
from pyclient.protocol import errors

PARTITIONS_AT_ONCE: Final = 500
"""How many partitions one write has at most."""


def by_name(asked: Any, image: MetadataImage) -> TopicImage | None:
    """Finds the topic by its name."""
    return image.topic(asked.name)


def by_id(asked: Any, image: MetadataImage) -> TopicImage | None:
    """Finds the topic by its id, and puts its name into ``asked``."""
    topic = image.topic_by_id(asked.topic_id)
    if topic is not None:
        asked.name = topic.name
    return topic


async def of_existing(
    request: Any,
    call: Call,
    told: list[Any],
    kinds: tuple[Callable[..., Any], Callable[..., Any]],
    ask: Callable[[Any], Awaitable[Any]],
    *,
    find: Callable[[Any, MetadataImage], TopicImage | None] = by_name,
    unknown: type[errors.KafkaError] = errors.UnknownTopicOrPartition,
    always: bool = False,
    denied: type[errors.KafkaError] | None = None,
) -> None:
    """Appends the topics' results to ``told``, in the request's order. ``kinds`` are the types of both results.

    ``await ask(request)`` returns the coordinator's response to a part of the request. ``unknown`` is the error for a
    topic that ``find`` does not find. With ``always``, ``ask`` is called even if no partition exists, because the
    coordinator may refuse the whole request. ``denied`` is the error of a client that may not commit at all. Topics
    that the client may not read are refused. Raises what ``ask`` raises.
    """
    topic_kind, partition_kind = kinds

    async def commit(part: list[Part]) -> None:
        image: MetadataImage = call.broker.metadata.image
        request.topics, answers = [], []
        for asked, partitions, begin in part:
            topic = find(asked, image)
            refusal = denied or _refusal(asked, topic, unknown, call)
            count = 0 if topic is None or refusal is not None else len(topic.partitions)
            if not begin:
                told.append(topic_kind(asked))
            asked.partitions = [each for each in partitions if 0 <= each.partition_index < count]
            if len(asked.partitions) < len(partitions):
                code = (refusal or errors.UnknownTopicOrPartition).code
                told[-1].partitions += [
                    partition_kind(partition_index=each.partition_index, error_code=code)
                    for each in partitions
                    if not 0 <= each.partition_index < count
                ]
            if asked.partitions:
                request.topics.append(asked)
                answers.append(told[-1])
        if answers or (always and denied is None):
            for topic, answered in zip(answers, (await ask(request)).topics, strict=True):
                topic.partitions += answered.partitions

    await one_by_one(parts(request.topics, "partitions", PARTITIONS_AT_ONCE), commit, call)


def _refusal(
    asked: Any, topic: TopicImage | None, unknown: type[errors.KafkaError], call: Call
) -> type[errors.KafkaError] | None:
    """Returns the error for a topic that the client may not read or that does not exist, else None."""
    if asked.name and not may(call, READ_TOPIC, asked.name):
        return errors.TopicAuthorizationFailed
    return unknown if topic is None else None
