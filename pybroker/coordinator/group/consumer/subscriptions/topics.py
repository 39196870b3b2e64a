"""Topics as consumer groups see them: their ids, and a hash that shows when a topic has changed.

The hash of a topic is the one in Kafka's records (KIP-1101). It is XXH3 over a zero byte, the topic's id, its name, its
number of partitions, and the racks of each partition. Numbers are little-endian; text is UTF-16 code units followed by
their count. The hash of a group is XXH3 over the hashes of its topics, in the order of their names. It is 0 if the
group reads no topic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

import xxhash

from pybroker.cluster.metadata.image import MetadataImage, TopicImage

Racks = dict[int, str | None]


class Topics:
    """The current metadata image, with cached hashes."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._seen = image()
        self._hashes: dict[str, tuple[TopicImage, int]] = {}
        self._racks: Racks = {}
        self._grown_at = self._seen.version

    @property
    def image(self) -> MetadataImage:
        """The current metadata image."""
        return self._image()

    @property
    def grown_at(self) -> int:
        """The last version of the image that brought a new topic."""
        self._look()
        return self._grown_at

    def ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """Returns the ids of those topics that exist."""
        topics = self._image().topics
        return frozenset(topics[name].id for name in names if name in topics)

    def hash_of(self, names: Iterable[str]) -> int:
        """Returns the metadata hash of a group that reads these topics, as a signed 64-bit number."""
        self._look()
        topics = self._seen.topics
        found = [self._hash(topics[name]) for name in sorted(name for name in names if name in topics)]
        if not found:
            return 0
        return _signed(xxhash.xxh3_64_intdigest(struct.pack(f"<{len(found)}q", *found)))

    def _look(self) -> None:
        image = self._image()
        if image is self._seen:
            return
        racks = {broker.id: broker.rack for broker in image.brokers.values()}
        if racks != self._racks:
            self._racks = racks
            self._hashes.clear()
        before = self._seen.topics
        if image.topics is not before:
            if any(name not in before for name in image.topics):
                self._grown_at = image.version
            for name in [name for name in self._hashes if name not in image.topics]:
                del self._hashes[name]
        self._seen = image

    def _hash(self, topic: TopicImage) -> int:
        known = self._hashes.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        value = topic_hash(topic, self._racks)
        self._hashes[topic.name] = (topic, value)
        return value


def topic_hash(topic: TopicImage, racks: Racks) -> int:
    """Returns the hash of one topic, as a signed 64-bit number. ``racks`` are by broker id."""
    high, low = struct.unpack(">qq", topic.id)
    parts = [struct.pack("<bqq", 0, high, low), _text(topic.name)]
    parts.append(struct.pack("<i", len(topic.partitions)))
    for partition in topic.partitions:
        parts.append(struct.pack("<i", partition.index))
        for rack in sorted(filter(None, (racks.get(id) for id in partition.replicas))):
            units = _text(rack)
            parts += units[-4:], units
    return _signed(xxhash.xxh3_64_intdigest(b"".join(parts)))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
