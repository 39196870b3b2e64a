"""Tells apart the topics that have had one name, because topics are deleted and created again.

The oracle keeps its records by partition of a topic, not of a name. It calls the first topic of a name by the name, the
second ``name#2`` and so on. No topic can have such a name.
"""

from __future__ import annotations

from collections import Counter

from pybroker.cluster.metadata import znodes
from pybroker.topic_partition import TopicPartition
from pyclient.protocol.uuids import from_base64

NOTES = f"{znodes.DELETED_TOPICS}/"


class Incarnations:
    """All topics that ever existed, and which of them were deleted."""

    def __init__(self) -> None:
        self.noted: set[bytes] = set()
        """The ids of topics whose deletion is noted in the store. Only these may lose their logs."""
        self._keys: dict[tuple[bytes, int], TopicPartition] = {}
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._count: Counter[str] = Counter()

    def store_changed(self, path: str) -> None:
        """Reacts to a changed node of the store, which may be the note of a deletion."""
        if path.startswith(NOTES):
            self.noted.add(from_base64(path[len(NOTES) :].partition("/")[0]))

    def key(self, topic_id: bytes, name: str, index: int) -> TopicPartition:
        """Returns the oracle's name of a partition of that topic."""
        found = self._keys.get((topic_id, index))
        if found is None:
            found = self._keys[topic_id, index] = TopicPartition(self._named(topic_id, name), index)
        return found

    def _named(self, topic_id: bytes, name: str) -> str:
        known = self._names.get(topic_id)
        if known is None:
            self._count[name] += 1
            known = name if self._count[name] == 1 else f"{name}#{self._count[name]}"
            self._names[topic_id] = known
            self._ids[known] = topic_id
        return known

    def find(self, topic_id: bytes, index: int) -> TopicPartition | None:
        """Like ``key``, for a topic that was seen before."""
        return self._keys.get((topic_id, index))

    def id_of(self, key: TopicPartition) -> bytes:
        """Returns the id of the topic."""
        return self._ids[key.topic]

    def is_deleted(self, key: TopicPartition) -> bool:
        """True if the oracle has noted that the topic was deleted."""
        return self._ids[key.topic] in self.noted

    def all_of(self, tp: TopicPartition) -> list[TopicPartition]:
        """Returns every partition that has had the name."""
        return [key for key in self._keys.values() if real(key) == tp]


def real(key: TopicPartition) -> TopicPartition:
    """Returns the name that brokers and clients use."""
    name, mark, _ = key.topic.partition("#")
    return TopicPartition(name, key.partition) if mark else key
