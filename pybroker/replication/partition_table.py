"""The partitions that this broker has: found by topic name or id and index.

The errors of what is not found are the wire's: UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID for what does not
exist, NOT_LEADER_OR_FOLLOWER for what other brokers have.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.log.manager import LogManager
from pybroker.replication.fetch_partition import FetchPartition
from pybroker.replication.partition import Partition
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class PartitionTable:
    """Those with a log on this broker, beside the metadata that say which these should be."""

    def __init__(self, node_id: int, logs: LogManager) -> None:
        self.node_id = node_id
        self.logs = logs
        self.image = MetadataImage()
        """The metadata that has been applied here."""
        self.topics: dict[str, dict[int, Partition]] = {}
        """Partitions by index by topic name; only those with a log on this broker."""
        self.topic_ids: dict[bytes, dict[int, Partition]] = {}
        """The same by topic id."""
        self.unopened: set[tuple[bytes, int]] = set()
        """Replicas, by topic id and index, that should be here and could not be opened or made."""
        self.withheld: set[tuple[bytes, int]] = set()
        """Those of them whose logs may be on a disk that is not there: they are not made again."""

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.topics.values():
            yield from partitions.values()

    def add(self, partition: Partition) -> None:
        """The partition is here from now on."""
        self.expect_no_more(partition.topic_id, partition.topic_partition.partition)
        partitions = self.topic_ids.setdefault(partition.topic_id, {})
        self.topics[partition.topic_partition.topic] = partitions
        partitions[partition.topic_partition.partition] = partition

    def expect_no_more(self, topic_id: bytes, index: int) -> None:
        """The replica is here, or need not be."""
        self.unopened.discard((topic_id, index))
        self.withheld.discard((topic_id, index))

    def give_up(self, topic_id: bytes) -> list[Partition]:
        """The topic's replicas here. The topic is on its way out: no other replica of it is expected any more."""
        self.unopened = {row for row in self.unopened if row[0] != topic_id}
        self.withheld = {row for row in self.withheld if row[0] != topic_id}
        return list(self.topic_ids.get(topic_id, {}).values())

    def take_out(self, partition: Partition) -> None:
        """The partition is no longer on this broker."""
        topic, index = partition.topic_partition
        partitions = self.topic_ids[partition.topic_id]
        del partitions[index]
        if not partitions:
            del self.topic_ids[partition.topic_id]
            if self.topics.get(topic) is partitions:
                del self.topics[topic]

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """A partition that is here.

        Raises UnknownTopicOrPartition, NotLeaderOrFollower, KafkaStorageError.
        """
        return self.find(topic_partition.topic, topic_partition.partition)

    def find(self, topic: str, index: int) -> Partition:
        """As ``partition``."""
        partitions = self.topics.get(topic)
        if partitions is not None and index in partitions:
            return partitions[index]
        image = self.image.partition(topic, index)
        if image is None:
            raise errors.UnknownTopicOrPartition(f"there is no {topic}-{index}")
        is_withheld = (self.image.topics[topic].id, index) in self.withheld
        if self.node_id in image.replicas and (is_withheld or self.logs.offline_dirs):
            raise errors.KafkaStorageError(f"the log dir of {topic}-{index} is offline")
        raise errors.NotLeaderOrFollower(f"{topic}-{index} is not on broker {self.node_id}")

    def by_id(self, topic_id: bytes, index: int) -> Partition:
        """As ``partition``, by topic id.

        Raises UnknownTopicId, UnknownTopicOrPartition, NotLeaderOrFollower.
        """
        partitions = self.topic_ids.get(topic_id)
        if partitions is not None and index in partitions:
            return partitions[index]
        topic = self.image.topic_by_id(topic_id)
        if topic is None:
            raise errors.UnknownTopicId(f"there is no topic of id {topic_id.hex()}")
        return self.find(topic.name, index)

    def resolve(self, fetch: FetchPartition) -> Partition:
        """The partition that a fetch names. Raises as ``partition`` and ``by_id``."""
        if fetch.topic is not None:
            return self.find(fetch.topic, fetch.index)
        return self.by_id(fetch.topic_id, fetch.index)

    def lost(self) -> frozenset[tuple[bytes, int]]:
        """Replicas, by topic id and index, that should be here and are on no disk that works; metadata that is just
        being applied counts as far as it is.
        """
        offline = (partition for partition in self if partition.log.log_dir.offline) if self.logs.offline_dirs else ()
        return frozenset(self.unopened).union((each.topic_id, each.topic_partition.partition) for each in offline)
