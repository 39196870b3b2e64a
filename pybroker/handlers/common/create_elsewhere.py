"""Asks the controller to create topics that this broker needs: internal ones, and those that clients name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pybroker.cluster.decisions.plan import NewTopic, Outcome
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.cluster.metadata_cache import MetadataCache
from pybroker.handlers.common.call import Forwards
from pyclient.protocol import CreateTopics, errors

Creatable = CreateTopics.Request.CreatableTopic


async def create_elsewhere(
    forwarding: Forwards, metadata: MetadataCache, topics: Sequence[NewTopic]
) -> list[Outcome]:
    """Returns each topic as it is in this broker's ``metadata`` afterwards, or its error. Raises NotController."""
    request = CreateTopics.Request(topics=[_creatable(topic) for topic in topics])
    answer = await forwarding.ask(CreateTopics, CreateTopics.max_version, None, request)
    response = cast(CreateTopics.Response, answer)
    results = {result.name: result for result in response.topics}
    return [_outcome(results.get(topic.name), topic.name, metadata.image) for topic in topics]


def _creatable(topic: NewTopic) -> Creatable:
    return Creatable(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreateTopics.Request.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs
        ],
    )


def _outcome(
    result: CreateTopics.Response.CreatableTopicResult | None, name: str, image: MetadataImage
) -> Outcome:
    if result is not None and (error := errors.by_code(result.error_code)) is not None:
        return error(result.error_message or "")
    return image.topic(name) or errors.NotController(f"topic '{name}' was created, but is not known here yet")
