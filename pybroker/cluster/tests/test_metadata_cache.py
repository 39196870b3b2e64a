"""The metadata that clients see while a broker applies a change."""

from __future__ import annotations

import asyncio

from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, TopicImage
from pybroker.cluster.metadata_cache import MetadataCache


def test_a_metadata_version_is_reached_once_the_logs_of_its_deleted_topics_are_gone() -> None:
    """If this broker forwards a deletion to the controller, it answers once its metadata have reached that version."""

    async def main() -> None:
        topic = TopicImage("t", b"t" * 16, ())
        cache = MetadataCache(MetadataImage(version=6, topics={"t": topic}, names={topic.id: "t"}))
        seen: list[tuple[list[str], int]] = []

        async def remove_logs(delta: MetadataDelta, image: MetadataImage) -> None:
            seen.append((list(cache.image.topics), cache.image.version))
            assert image.version == 7

        cache.add_listener(remove_logs)
        await cache.publish(MetadataDelta(deleted={"t": topic}))
        assert seen == [([], 6)]
        assert (cache.image.topics, cache.image.version) == ({}, 7)

    asyncio.run(main())
