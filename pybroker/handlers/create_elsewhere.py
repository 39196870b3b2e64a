"""Topics that a broker needs and the controller makes: internal ones, and those that clients name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pybroker.cluster.image import TopicImage
from pybroker.cluster.plan import NewTopic, Outcome
from pybroker.handlers.forwarding import Forwarding
from pyclient.protocol import CreateTopics, errors

Creatable = CreateTopics.Request.CreatableTopic


async def create_elsewhere(
    forwarding: Forwarding, metadata: Any, topics: Sequence[NewTopic]
) -> list[Outcome]:
    """The topic, as this broker's ``metadata`` has it then, or the error of each. Raises
    NotController.
    """
    request = CreateTopics.Request(topics=[_creatable(topic) for topic in topics])
    response = await forwarding.ask(CreateTopics, CreateTopics.max_version, None, request)
    results = {result.name: result for result in response.topics}
    return [_outcome(results.get(topic.name), topic.name, metadata.image) for topic in topics]


def _creatable(topic: NewTopic) -> Any:
    return Creatable(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreateTopics.Request.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs
        ],
    )


def _outcome(result: Any, name: str, image: Any) -> Outcome:
    error = errors.by_code(result.error_code) if result is not None else None
    if error is not None:
        return error(result.error_message or "")
    topic: TopicImage | None = image.topic(name)
    return topic or errors.NotController(f"'{name}' is made, but not known here yet")
