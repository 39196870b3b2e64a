"""Commits, and deletions of commits, of partitions that exist; the others are refused here.

The coordinator is asked part by part, each part one write of its log: a write that other replicas must have waits for
them, however little it holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from pybroker.cluster.metadata.image import MetadataImage, TopicImage
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import Part, one_by_one, parts
from pybroker.handlers.common.rights import READ_TOPIC, may
from pyclient.protocol import errors

PARTITIONS_AT_ONCE: Final = 500
"""Partitions of one write."""


def by_name(asked: Any, image: MetadataImage) -> TopicImage | None:
    """The topic of that name."""
    return image.topic(asked.name)


def by_id(asked: Any, image: MetadataImage) -> TopicImage | None:
    """The topic of that id; gives what was asked its name."""
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
    """Puts the topics' answers into ``told``, in the request's order: ``kinds`` are those of topics and partitions.

    ``await ask(request)`` is the coordinator's response to a request that has a part of its partitions only.
    ``unknown``: the error of a topic that ``find`` does not find. ``always``: the coordinator is asked even where no
    partition exists, for it may refuse the whole request. ``denied``: the error of who may not commit at all. All
    topics have to be ones that the client may read. Raises what ``ask`` raises.
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
    """The error of a topic whose name is not to be read, or that is not there."""
    if asked.name and not may(call, READ_TOPIC, asked.name):
        return errors.TopicAuthorizationFailed
    return unknown if topic is None else None
