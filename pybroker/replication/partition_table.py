"""Finds the partitions of this broker, by topic name or id, and index.

A partition that does not exist raises UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID; one that only other brokers have
raises NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pybroker.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from pybroker.log.manager import LogManager
from pybroker.replication.fetch_partition import FetchPartition
from pybroker.replication.new_logs import NewLogs
from pybroker.replication.partition import Partition
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

logger = logging.getLogger(__name__)


class PartitionTable:
    """The partitions with a log on this broker, and the metadata that tells which ones it should have.

    Looking up a partition in ``new`` creates its log.
    """

    def __init__(self, node_id: int, logs: LogManager, new: NewLogs) -> None:
        self.node_id = node_id
        self.logs = logs
        self.new = new
        """Replicas whose logs are missing and will be created. They are neither in ``unopened`` nor in ``lost()``."""
        self.image = MetadataImage()
        """The metadata that this broker has applied."""
        self.topics: dict[str, dict[int, Partition]] = {}
        """By topic name and then index: the partitions with a log on this broker."""
        self.topic_ids: dict[bytes, dict[int, Partition]] = {}
        """The partitions of ``topics`` again, by topic id and then index."""
        self.unopened: set[tuple[bytes, int]] = set()
        """Replicas, by topic id and index, that should be here but could not be opened or created."""
        self.withheld: set[tuple[bytes, int]] = set()
        """Replicas whose logs may be on a missing disk, so that no empty logs may be created for them."""

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.topics.values():
            yield from partitions.values()

    def add(self, partition: Partition) -> None:
        """Adds a partition."""
        self.expect_no_more(partition.topic_id, partition.topic_partition.partition)
        partitions = self.topic_ids.setdefault(partition.topic_id, {})
        self.topics[partition.topic_partition.topic] = partitions
        partitions[partition.topic_partition.partition] = partition

    def expect(self, topic_id: bytes, index: int) -> bool:
        """Notes that the replica should be here but is not open yet. Returns True if that was noted before."""
        replica = (topic_id, index)
        was_expected = replica in self.unopened
        self.unopened.add(replica)
        return was_expected

    def make_later(self, topic_id: bytes, index: int) -> None:
        """Adds a new log to ``new``, which creates it when a request needs it or when the loop has time."""
        self.unopened.discard((topic_id, index))
        self.new.add(topic_id, index)

    def must_wait(self, topic: TopicImage, image: PartitionImage, *, is_start: bool) -> bool:
        """Returns True if the log may be on a missing disk, unless another replica certainly has its records."""
        replica, tp = (topic.id, image.index), TopicPartition(topic.name, image.index)
        is_gone = self.logs.offline_dirs or self.logs.directories.missing
        if is_start and is_gone and not self.logs.has(tp, topic.id):
            self.withheld.add(replica)
        if replica not in self.withheld:
            return False
        if not self.logs.offline_dirs and self.node_id not in (*image.isr, *image.elr, image.leader):
            self.withheld.discard(replica)
            return False
        if is_start:
            logger.error("%s stays offline: its log must be in a log dir that is missing or offline", tp)
        return True

    def expect_no_more(self, topic_id: bytes, index: int) -> None:
        """Notes that the replica is here or need not be here."""
        self.unopened.discard((topic_id, index))
        self.withheld.discard((topic_id, index))
        self.new.discard(topic_id, index)

    def give_up(self, topic_id: bytes) -> list[Partition]:
        """Stops expecting replicas of a topic that is being deleted; returns those that are here."""
        self.unopened = {row for row in self.unopened if row[0] != topic_id}
        self.withheld = {row for row in self.withheld if row[0] != topic_id}
        self.new.give_up(topic_id)
        return list(self.topic_ids.get(topic_id, {}).values())

    def take_out(self, partition: Partition) -> None:
        """Removes a partition that is no longer on this broker."""
        topic, index = partition.topic_partition
        partitions = self.topic_ids[partition.topic_id]
        del partitions[index]
        if not partitions:
            del self.topic_ids[partition.topic_id]
            if self.topics.get(topic) is partitions:
                del self.topics[topic]

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Returns a partition of this broker.

        Raises UnknownTopicOrPartition, NotLeaderOrFollower, KafkaStorageError.
        """
        return self.find(topic_partition.topic, topic_partition.partition)

    def find(self, topic: str, index: int) -> Partition:
        """Returns a partition of this broker. Raises the errors of ``partition``."""
        partitions = self.topics.get(topic)
        if partitions is not None and index in partitions:
            return partitions[index]
        image = self.image.partition(topic, index)
        if image is None:
            raise errors.UnknownTopicOrPartition(f"there is no partition {topic}-{index}")
        made = self.make(topic, index)
        if made is not None:
            return made
        is_withheld = (self.image.topics[topic].id, index) in self.withheld
        if self.node_id in image.replicas and (is_withheld or self.logs.offline_dirs):
            raise errors.KafkaStorageError(f"the log dir of {topic}-{index} is offline")
        raise errors.NotLeaderOrFollower(f"{topic}-{index} is not on broker {self.node_id}")

    def make(self, topic: str, index: int) -> Partition | None:
        """Creates the partition's log if it is still missing; returns None if it is not, or if that failed."""
        found = self.image.topic(topic)
        return None if found is None else self.new.make(found.id, index)

    def make_for(self, fetch: FetchPartition) -> None:
        """Creates the log of the partition that a fetch names, if it is still missing."""
        if fetch.topic is not None:
            self.make(fetch.topic, fetch.index)
        else:
            self.new.make(fetch.topic_id, fetch.index)

    def by_id(self, topic_id: bytes, index: int) -> Partition:
        """Returns a partition of this broker by its topic id.

        Raises UnknownTopicId, UnknownTopicOrPartition, NotLeaderOrFollower.
        """
        partitions = self.topic_ids.get(topic_id)
        if partitions is not None and index in partitions:
            return partitions[index]
        topic = self.image.topic_by_id(topic_id)
        if topic is None:
            raise errors.UnknownTopicId(f"there is no topic with the id {topic_id.hex()}")
        return self.find(topic.name, index)

    def resolve(self, fetch: FetchPartition) -> Partition:
        """Returns the partition that a fetch names. Raises the errors of ``partition`` and ``by_id``."""
        if fetch.topic is not None:
            return self.find(fetch.topic, fetch.index)
        return self.by_id(fetch.topic_id, fetch.index)

    def lost(self) -> frozenset[tuple[bytes, int]]:
        """Returns the replicas, by topic id and index, that should be here but are on no working disk.

        While new metadata are being applied, the result is that of the part that has been applied.
        """
        offline = (partition for partition in self if partition.log.log_dir.offline) if self.logs.offline_dirs else ()
        return frozenset(self.unopened).union((each.topic_id, each.topic_partition.partition) for each in offline)
