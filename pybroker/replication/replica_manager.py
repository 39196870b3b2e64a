"""The partitions of this broker, and the shell around them: clients' appends and fetches, who
waits, and the metadata that moves them.

Metadata arrives by ``apply``: logs are made, opened, reconfigured and deleted, and each partition
gets its role. What is here is found by ``hosted``'s methods.

Loop's thread only, except ``on_dir_failure``, which the log floor calls from wherever a disk
failed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Set
from concurrent.futures import Executor

from pybroker.clock import Clock
from pybroker.cluster.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pybroker.config import BrokerConfig, ConfigError, stored_topic_config, topic_config
from pybroker.log.appending import AppendInfo, Origin
from pybroker.log.config import LogConfig
from pybroker.log.log import Log
from pybroker.log.log_dir import LogDir
from pybroker.log.manager import LogManager
from pybroker.log.marker import EndTxnMarker
from pybroker.log.marker import encode as encode_marker
from pybroker.log.storage import Bytes
from pybroker.replication.fetch_session import FetchSessions
from pybroker.replication.fetchers import Fetchers, Peers
from pybroker.replication.fetching import Fetch, PartitionRead
from pybroker.replication.hosted import HostedPartitions
from pybroker.replication.isr_changes import IsrChanges, Send
from pybroker.replication.leading import Leading
from pybroker.replication.moves import Moves
from pybroker.replication.partition import ACKS_ALL, Partition
from pybroker.replication.promises import Promises
from pybroker.replication.purgatory import (
    Purgatory,
    WaitingDelete,
    WaitingFetch,
)
from pybroker.replication.throttled import ReplicationThrottle
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

Leadership = Callable[[TopicPartition, int | None], object]

DEFAULT_TIMEOUT_MS = 30_000

logger = logging.getLogger(__name__)


class Appended:
    """An append: its outcome, and ``done``, the future of what ``acks`` promises (None: it holds
    already).

    ``done`` raises NotEnoughReplicasAfterAppend, NotLeaderOrFollower, RequestTimedOut,
    KafkaStorageError.
    """

    __slots__ = ("done", "info")

    def __init__(self, info: AppendInfo, done: asyncio.Future[None] | None) -> None:
        self.info = info
        self.done = done


class ReplicaManager(HostedPartitions):
    """All partitions of which this broker has a replica, and what is done with them."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        super().__init__(node_id, logs)
        self.config = config
        self.clock = clock
        self.purgatory = Purgatory(loop)
        self.sessions = FetchSessions(
            config["max.incremental.fetch.session.cache.slots"],
            lambda: random.randint(1, 0x7FFF_FFFF),
        )
        self.moves = Moves(logs, clock, loop, executor)
        self.leading: Leading | None = None
        """The followers of what is led here, and what is followed: None for a broker without others."""
        self.fetchers: Fetchers | None = None
        self._loop = loop
        self._executor = executor
        self._promises = Promises(self.purgatory, loop, executor)
        self.promise = self._promises.promise
        self.sync = self._promises.sync
        self._listeners: list[Leadership] = []
        self._unannounced: dict[TopicPartition, int] = {}
        """Leader epochs that have begun here, but are not in the published metadata yet."""
        self._started = False
        logs.on_dir_failure(self.on_dir_failure)
        config.on_change(self._on_config_change)

    def connect(
        self, peers: Peers, send: Send, image: Callable[[], MetadataImage], broker_epoch: Callable[[], int]
    ) -> None:
        """There are other brokers: ``peers`` reaches them, ``send`` asks the controller to change an
        ISR, ``image()`` is the published metadata, ``broker_epoch()`` that of its registration.
        """
        loop, config = self._loop, self.config
        changes = IsrChanges(image, broker_epoch, send, self.purgatory.wake, loop)
        sending = ReplicationThrottle("leader", self.node_id, config, image)
        self.leading = Leading(self, self.purgatory, image, changes, config, sending.delay_ms, self.clock, loop)
        fetching = ReplicationThrottle("follower", self.node_id, config, image)
        self.fetchers = Fetchers(
            self.node_id, peers, self, config, fetching.delay_ms, self.clock, loop, broker_epoch
        )

    def on_leadership(self, listener: Leadership) -> None:
        """``listener(tp, epoch)`` when this broker begins to lead; ``(tp, None)`` when it ends.

        A beginning is told by ``announce``, an end at once.
        """
        self._listeners.append(listener)

    def announce(self) -> None:
        """The metadata last applied here is published now: whoever waits for a leadership that it
        gives may begin, and finds there what his log speaks of.
        """
        begun, self._unannounced = self._unannounced, {}
        for topic_partition, leader_epoch in begun.items():
            for listener in self._listeners:
                listener(topic_partition, leader_epoch)

    # Producing

    def append(
        self,
        topic_partition: TopicPartition,
        records: Bytes,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Appended:
        """Appends one batch. Raises as ``partition`` and ``Partition.append``."""
        partition = self.partition(topic_partition)
        info = self.append_to(partition, records, acks, now_ms, origin)
        done = self.promise(partition, info.last_offset, timeout_ms) if acks == ACKS_ALL else None
        return Appended(info, done)

    def append_to(
        self,
        partition: Partition,
        records: Bytes,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Appends one batch and wakes those who wait for it. Raises as ``Partition.append``."""
        info = partition.append(records, acks, now_ms, origin, transaction_version)
        self.purgatory.wake(partition)
        return info

    def append_marker(
        self,
        topic_partition: TopicPartition,
        marker: EndTxnMarker,
        now_ms: int,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Appended:
        """Ends a transaction in one of its partitions, with the promise of acks=all.

        Raises InvalidProducerEpoch for a marker that is too late, TransactionCoordinatorFenced for
        one of a replaced coordinator, and as ``append``.
        """
        partition = self.partition(topic_partition)
        records = encode_marker(marker, now_ms)
        info = self.append_to(
            partition, records, ACKS_ALL, now_ms, Origin.COORDINATOR, marker.transaction_version
        )
        return Appended(info, self.promise(partition, info.last_offset, timeout_ms))

    # Fetching

    def fetch(
        self,
        fetch: Fetch,
        max_wait_ms: int,
        respond: Callable[[list[PartitionRead]], object],
    ) -> object:
        """``respond(reads)``, or the future of it where the fetch has to wait."""
        if fetch.read_all() or max_wait_ms <= 0:
            return respond(fetch.reads)
        waiting = WaitingFetch(self.purgatory, fetch, respond)
        found = [partition for partition in fetch.partitions if partition is not None]
        self.purgatory.park(waiting, found, max_wait_ms)
        return waiting

    # Deleting records

    async def delete_records(self, partition: Partition, offset: int, timeout_ms: int) -> int:
        """Deletes the records below ``offset`` (-1: the high watermark) on all replicas; returns
        the low watermark.

        Durable when it returns. Raises as ``Partition.delete_records``; RequestTimedOut.
        """
        offset = partition.delete_records(offset)
        log = partition.log
        log.apply_retention(self.clock.now_ms())
        self.purgatory.wake(partition)
        await self._loop.run_in_executor(self._executor, log.log_dir.checkpoint_log_start_offsets)
        low_watermark = partition.low_watermark()
        if low_watermark < offset:
            waiting = WaitingDelete(self.purgatory, partition, offset)
            self.purgatory.park(waiting, (partition,), timeout_ms)
            low_watermark = await waiting
        return low_watermark

    # Metadata

    async def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Makes this broker's partitions what ``image`` says; ``delta`` is what is new in it."""
        before, self.image = self.image, image
        if self.leading is not None:
            self.leading.on_brokers(delta.brokers)
        for topic in delta.deleted.values():
            self.unopened = {row for row in self.unopened if row[0] != topic.id}
            await self._remove(list(self.topic_ids.get(topic.id, {}).values()))
        if not self._started:
            await self._delete_what_left({topic.id for topic in delta.deleted.values()})
        if any(log_dir.offline for log_dir in self.logs.dirs):
            self._drop_offline()
        for topic in delta.changed.values():
            config = self._config_of(topic)
            for partition in self._news(topic, before.topic_by_id(topic.id)):
                if await self._place(topic, partition, config):
                    await asyncio.sleep(0)
        if not self._started:
            self._started = True
            self._report_strays()

    def _news(self, topic: TopicImage, before: TopicImage | None) -> Iterator[PartitionImage]:
        """The partitions that are not as before: of thousands, often one."""
        if before is None or before.configs != topic.configs:
            yield from topic.partitions
            return
        here = self.topics.get(topic.name, {})
        known = len(before.partitions)
        for index, partition in enumerate(topic.partitions):
            is_same = index < known and partition is before.partitions[index]
            if not is_same or (index not in here and self.node_id in partition.replicas):
                yield partition

    async def _place(self, topic: TopicImage, image: PartitionImage, config: LogConfig) -> bool:
        """Gives one partition its log and its role, or takes it away; True where that took time."""
        known = self.topics.get(topic.name, {}).get(image.index)
        partition = known
        try:
            if self.node_id not in image.replicas:
                self.unopened.discard((topic.id, image.index))
                if known is not None:
                    await self._remove([known])
                return known is not None
            if known is None:
                self.unopened.add((topic.id, image.index))
                partition = self._host(topic, image, config)
            elif known.log.config != config:
                known.log.config = config
            if partition is not None:
                self._give_role(partition, image)
        except errors.KafkaError as error:
            logger.error("%s-%d: %s", topic.name, image.index, error)
        return known is None

    def _host(self, topic: TopicImage, image: PartitionImage, config: LogConfig) -> Partition | None:
        """Opens or makes the log of a partition that is new here."""
        tp = TopicPartition(topic.name, image.index)
        log = self.logs.get(tp)
        if log is None and not self._started and self.logs.offline_dirs:
            logger.error("%s: its log must be in a log dir that is offline", tp)
            return None
        if log is not None and log.topic_id not in (topic.id, bytes(16)):
            logger.warning("%s: %s belongs to a deleted topic of this name", tp, log.folder)
            self.logs.delete(tp)
        log = self.logs.get_or_create(tp, topic.id, config, self.moves.preferred_dir(tp))
        lag_time_max_ms = self.config["replica.lag.time.max.ms"]
        partition = Partition(tp, topic.id, self.node_id, log, lag_time_max_ms)
        self.add(partition)
        return partition

    def _give_role(self, partition: Partition, image: PartitionImage) -> None:
        led = partition.is_leader
        changed = partition.become(image, self.clock.monotonic_ms())
        self.purgatory.wake(partition)
        if changed and self.fetchers is not None:
            self.fetchers.assign(partition)
        if self.leading is not None and partition.is_leader:
            self.leading.changes.consider(partition)
        if changed and partition.is_leader:
            self._unannounced[partition.topic_partition] = partition.leader_epoch
        elif led and not partition.is_leader:
            self._tell_end(partition.topic_partition)

    async def _remove(self, partitions: list[Partition]) -> None:
        """Replicas leave this broker; their files are gone when this returns."""
        for partition in partitions:
            self._withdraw(partition)
        leaving = [partition.topic_partition for partition in partitions]
        await self._loop.run_in_executor(self._executor, self._delete_logs, leaving)

    async def _delete_what_left(self, deleted: Set[bytes]) -> None:
        """Removes what left this broker while it was down: topics that were deleted, and replicas that have moved."""
        left = [log.topic_partition for log in self.logs if log.topic_id in deleted or self._has_moved(log)]
        await self._loop.run_in_executor(self._executor, self._delete_logs, left)

    def _has_moved(self, log: Log) -> bool:
        topic = self.image.topic_by_id(log.topic_id)
        index = log.topic_partition.partition
        return (
            topic is not None and index < len(topic.partitions) and self.node_id not in topic.partitions[index].replicas
        )

    def _withdraw(self, partition: Partition) -> None:
        """The replica is found no more, and whoever waits for it hears so."""
        self.take_out(partition)
        self._stop(partition, None)
        move = self.logs.moving_to(partition.topic_partition)
        if move is not None:
            move.cancel()

    def _delete_logs(self, topic_partitions: list[TopicPartition]) -> None:
        """Removes files of withdrawn replicas; blocks, on a pool thread."""
        for tp in topic_partitions:
            try:
                self.logs.delete(tp)
            except errors.KafkaStorageError as error:
                logger.error("deleting %s: %s", tp, error)
        self.logs.forget_deleted()

    def _stop(self, partition: Partition, failure: errors.KafkaStorageError | None) -> None:
        """The partition serves nobody any more."""
        led = partition.is_leader
        if failure is None:
            partition.go()
        else:
            partition.go_offline(failure)
        self._promises.forget(partition)
        if self.fetchers is not None:
            self.fetchers.stop(partition)
        self.purgatory.wake(partition)
        if led:
            self._tell_end(partition.topic_partition)

    def _tell_end(self, topic_partition: TopicPartition) -> None:
        self._unannounced.pop(topic_partition, None)
        for listener in self._listeners:
            listener(topic_partition, None)

    def _config_of(self, topic: TopicImage) -> LogConfig:
        """The topic's configuration, without what is of another version."""
        try:
            return topic_config(self.config, topic.configs)
        except ConfigError as error:
            logger.error("configuration of %s: %s; its default is used", topic.name, error)
            return stored_topic_config(self.config, topic.configs)

    def _on_config_change(self, names: frozenset[str]) -> None:
        """Broker keys that are defaults of topic keys may have changed."""
        for name, partitions in self.topics.items():
            topic = self.image.topic(name)
            if topic is not None:
                config = self._config_of(topic)
                for partition in partitions.values():
                    if partition.log.config != config:
                        partition.log.config = config
                        partition.reconfigured()
                        partition.advance()
                        self.purgatory.wake(partition)

    # Failed disks

    def on_dir_failure(self, log_dir: LogDir) -> None:
        """A disk has failed; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._drop_offline)

    def _drop_offline(self) -> None:
        for partition in list(self):
            if partition.log.log_dir.offline and partition.is_available:
                self._stop(partition, partition.log.log_dir.storage_error())

    def _report_strays(self) -> None:
        """Logs of topics that do not exist:

        An interrupted deletion, or a store that has lost them. Left alone.
        """
        for log in self.strays():
            logger.warning("%s belongs to no topic of this cluster; it is left alone", log.folder)

    def close(self) -> None:
        """Cancels whatever waits or moves; nothing is appended any more."""
        if self.fetchers is not None and self.leading is not None:
            self.fetchers.close()
            self.leading.close()
        self.moves.close()
        self.purgatory.close()
