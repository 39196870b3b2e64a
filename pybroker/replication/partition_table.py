"""The partitions that this broker has: found by topic name or id and index.

The errors of what is not found are the wire's: UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID for what does not
exist, NOT_LEADER_OR_FOLLOWER for what other brokers have.
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
    """The partitions with a log on this broker, beside the metadata that say which these should be.

    A partition in ``new`` gets its log when it is looked up.
    """

    def __init__(self, node_id: int, logs: LogManager, new: NewLogs) -> None:
        self.node_id = node_id
        self.logs = logs
        self.new = new
        """Replicas whose logs are still to be made. They lack nothing: they are neither ``unopened`` nor lost."""
        self.image = MetadataImage()
        """The metadata that has been applied here."""
        self.topics: dict[str, dict[int, Partition]] = {}
        """Partitions by index by topic name; only those with a log on this broker."""
        self.topic_ids: dict[bytes, dict[int, Partition]] = {}
        """The same by topic id."""
        self.unopened: set[tuple[bytes, int]] = set()
        """Replicas, by topic id and index, that should be here and could not be opened or made."""
        self.withheld: set[tuple[bytes, int]] = set()
        """The partitions whose logs may be on a disk that is not there: they are not made again."""

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
        """The replica should be here, and is not yet; True where it has been so before."""
        replica = (topic_id, index)
        was_expected = replica in self.unopened
        self.unopened.add(replica)
        return was_expected

    def make_later(self, topic_id: bytes, index: int) -> None:
        """Nothing has failed: the log is new, and is made when it is needed, or when nothing else is to be done."""
        self.unopened.discard((topic_id, index))
        self.new.add(topic_id, index)

    def must_wait(self, topic: TopicImage, image: PartitionImage, *, is_start: bool) -> bool:
        """Whether the log may be on a disk that is not there, and nobody else surely has what is in it."""
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
            logger.error("%s: its log must be in a log dir that is not there, so it is not started again", tp)
        return True

    def expect_no_more(self, topic_id: bytes, index: int) -> None:
        """The replica is here, or need not be."""
        self.unopened.discard((topic_id, index))
        self.withheld.discard((topic_id, index))
        self.new.discard(topic_id, index)

    def give_up(self, topic_id: bytes) -> list[Partition]:
        """The topic's replicas here. The topic is on its way out: no other replica of it is expected any more."""
        self.unopened = {row for row in self.unopened if row[0] != topic_id}
        self.withheld = {row for row in self.withheld if row[0] != topic_id}
        self.new.give_up(topic_id)
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
        made = self.make(topic, index)
        if made is not None:
            return made
        is_withheld = (self.image.topics[topic].id, index) in self.withheld
        if self.node_id in image.replicas and (is_withheld or self.logs.offline_dirs):
            raise errors.KafkaStorageError(f"the log dir of {topic}-{index} is offline")
        raise errors.NotLeaderOrFollower(f"{topic}-{index} is not on broker {self.node_id}")

    def make(self, topic: str, index: int) -> Partition | None:
        """The partition, if its log was still to be made and now is; None if there is nothing to do, or it failed."""
        found = self.image.topic(topic)
        return None if found is None else self.new.make(found.id, index)

    def make_for(self, fetch: FetchPartition) -> None:
        """What a fetch names has its log now, if it was still to be made."""
        if fetch.topic is not None:
            self.make(fetch.topic, fetch.index)
        else:
            self.new.make(fetch.topic_id, fetch.index)

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
