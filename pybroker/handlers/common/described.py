"""The last description of each topic's partitions in Metadata responses, in bytes.

Clients ask for the same topics again and again, and a description rarely changes. It depends on the partitions of the
image, on the brokers that are alive, and on the request's version. While these stay the same, further responses contain
the same bytes. So a response takes time for its topics, but not for their partitions.
"""

from __future__ import annotations

from typing import NamedTuple

from cy.wire.wire_types import EncodedArray
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage


class Form(NamedTuple):
    """What a description depends on, apart from its topic. ``alive``: the brokers that the client can reach."""

    alive: frozenset[int]
    version: int


class DescribedTopics:
    """The last description of each topic."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[tuple[PartitionImage, ...], Form, EncodedArray]] = {}

    def find(self, topic: TopicImage, form: Form) -> EncodedArray | None:
        """Returns the topic's last description; None if its partitions or the form have changed since."""
        partitions, last_form, encoded = self._by_name.get(topic.name, (None, None, None))
        return encoded if partitions is topic.partitions and last_form == form else None

    def keep(self, topic: TopicImage, form: Form, encoded: EncodedArray) -> None:
        """Stores a description, which replaces the topic's last one."""
        self._by_name[topic.name] = topic.partitions, form, encoded

    async def forget(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Drops the descriptions of topics that no longer exist. The metadata cache calls it for each change."""
        for name in (*delta.deleted, *delta.missing):
            self._by_name.pop(name, None)
