"""Gives each partition of this broker its role, and tells all parts that depend on it. Loop's thread only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import BrokerRegistration, PartitionImage
from pybroker.log.manager import LogManager
from pybroker.replication.following.fetchers import Fetchers
from pybroker.replication.leading.follower_fetches import Leading
from pybroker.replication.partition import Partition
from pybroker.replication.partition_table import PartitionTable
from pybroker.replication.promises import Promises
from pybroker.replication.purgatory import Purgatory
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

Leadership = Callable[[TopicPartition, int | None], object]


class Roles:
    """Sets which partitions this broker leads and which it follows, and has the parts that must know."""

    def __init__(
        self, partitions: PartitionTable, logs: LogManager, purgatory: Purgatory, promises: Promises, clock: Clock
    ) -> None:
        self._partitions = partitions
        self._logs = logs
        self._purgatory = purgatory
        self._promises = promises
        self._clock = clock
        self._leading: Leading | None = None
        self._fetchers: Fetchers | None = None
        self._listeners: list[Leadership] = []
        self._unannounced: dict[TopicPartition, int] = {}
        """Leader epochs that have begun here, but that the published metadata does not have yet."""

    def connect(self, leading: Leading, fetchers: Fetchers) -> None:
        """Lets ``leading`` serve followers and ``fetchers`` fetch from leaders, from now on."""
        self._leading, self._fetchers = leading, fetchers

    def on_leadership(self, listener: Leadership) -> None:
        """Calls ``listener(tp, epoch)`` when this broker begins to lead, ``listener(tp, None)`` when it stops.

        ``announce`` makes the call for a beginning; the call for an end is made at once.
        """
        self._listeners.append(listener)

    def announce(self) -> None:
        """Tells the listeners which leaderships have begun, now that the metadata with them are published."""
        begun, self._unannounced = self._unannounced, {}
        for topic_partition, leader_epoch in begun.items():
            for listener in self._listeners:
                listener(topic_partition, leader_epoch)

    def on_brokers(self, brokers: Mapping[int, BrokerRegistration | None]) -> None:
        """Handles brokers that have registered or have gone."""
        if self._leading is not None:
            self._leading.on_brokers(brokers)

    def give(self, partition: Partition, image: PartitionImage) -> None:
        """Makes the partition leader or follower, as the metadata says."""
        led = partition.is_leader
        changed = partition.become(image, self._clock.monotonic_ms())
        self._purgatory.wake(partition)
        if changed and self._fetchers is not None:
            self._fetchers.assign(partition)
        if self._leading is not None and partition.is_leader:
            self._leading.changes.consider(partition)
        if changed and partition.is_leader:
            self._unannounced[partition.topic_partition] = partition.leader_epoch
        elif led and not partition.is_leader:
            self._tell_end(partition.topic_partition)

    def withdraw(self, partition: Partition) -> None:
        """Removes a replica from the table, and fails the requests that wait for it."""
        self._partitions.take_out(partition)
        self._stop(partition, None)
        move = self._logs.moving_to(partition.topic_partition)
        if move is not None:
            move.cancel()

    def _stop(self, partition: Partition, failure: errors.KafkaStorageError | None) -> None:
        """Stops serving a partition. ``failure`` is the error of its failed disk, None if the partition was removed."""
        led = partition.is_leader
        if failure is None:
            partition.go()
        else:
            partition.go_offline(failure)
        self._promises.forget(partition)
        if self._fetchers is not None:
            self._fetchers.stop(partition)
        self._purgatory.wake(partition)
        if led:
            self._tell_end(partition.topic_partition)

    def drop_offline(self) -> None:
        """Takes the partitions of failed disks offline."""
        for partition in list(self._partitions):
            if partition.log.log_dir.offline and partition.is_available:
                self._stop(partition, partition.log.log_dir.storage_error())

    def _tell_end(self, topic_partition: TopicPartition) -> None:
        self._unannounced.pop(topic_partition, None)
        for listener in self._listeners:
            listener(topic_partition, None)
