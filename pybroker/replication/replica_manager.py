"""Manages the partitions of this broker: serves appends and fetches, keeps waiting requests, applies metadata.

``apply`` takes new metadata. It opens, reconfigures and deletes logs, leaves new ones to ``new_logs``, and gives each
partition its role. The table ``partitions`` has the partitions that are here.

Loop's thread only, except ``on_dir_failure``, which ``log`` calls on the thread that met the failed disk.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from pybroker.config import BrokerConfig, ConfigError, stored_topic_config, topic_config
from pybroker.config.log_config import LogConfig
from pybroker.log.appending import AppendInfo, Origin
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.expiry import apply_retention
from pybroker.log.files.storage import Bytes
from pybroker.log.log import Log
from pybroker.log.manager import LogManager
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.log.producers.marker import encode as encode_marker
from pybroker.log.segment.segments import REMOVED_PER_TURN
from pybroker.log.validation import Records
from pybroker.pools import Pools
from pybroker.replication.fetch_partition import PartitionRead
from pybroker.replication.fetch_session import FetchSessions
from pybroker.replication.fetching import Fetch
from pybroker.replication.following.fetchers import Fetchers, Peers
from pybroker.replication.following.throttled import ReplicationThrottle
from pybroker.replication.leading.follower_fetches import Leading
from pybroker.replication.leading.isr_proposals import IsrChanges, Send
from pybroker.replication.moves import Moves
from pybroker.replication.new_logs import NewLogs
from pybroker.replication.partition import ACKS_ALL, Partition
from pybroker.replication.partition_table import PartitionTable
from pybroker.replication.promises import Appended, Promises
from pybroker.replication.purgatory import (
    Purgatory,
    WaitingDelete,
    WaitingFetch,
)
from pybroker.replication.strays import ADVICE, reason_to_leave
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

Leadership = Callable[[TopicPartition, int | None], object]

DEFAULT_TIMEOUT_MS = 30_000
PLACED_PER_TURN = 500
"""How many partitions whose logs need not be opened get their role in one turn of the loop."""
TELLING_PAUSE_S = 0.1
"""How long failures to create logs are gathered before they are reported together."""

logger = logging.getLogger(__name__)


class ReplicaManager:
    """All partitions of which this broker has a replica, and the operations on them."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        pools: Pools,
    ) -> None:
        self.node_id = node_id
        self.logs = logs
        self.partitions = table = PartitionTable(node_id, logs, NewLogs(self._make_new, loop))
        self.partition, self.find, self.by_id, self.resolve = table.partition, table.find, table.by_id, table.resolve
        self.config = config
        self.clock = clock
        self.purgatory = Purgatory(loop)
        self.sessions = FetchSessions(
            config["max.incremental.fetch.session.cache.slots"],
            lambda: random.randint(1, 0x7FFF_FFFF),
        )
        self.moves = Moves(logs, clock, loop, pools.copies, pools.upkeep)
        self.leading: Leading | None = None
        """Serves the followers of this broker's partitions. A single broker has neither this nor ``fetchers``."""
        self.fetchers: Fetchers | None = None
        self._loop = loop
        self._pools = pools
        self._promises = Promises(self.purgatory, loop, pools.syncs)
        self.promise = self._promises.promise
        self.sync = self._promises.sync
        self.keep_start = self._promises.keep_start
        self._listeners: list[Leadership] = []
        self._unannounced: dict[TopicPartition, int] = {}
        """Leader epochs that have begun here, but that the published metadata does not have yet."""
        self.on_lost: Callable[[], object] = lambda: None
        """Called soon after creating logs has failed, except while their metadata is being applied."""
        self._telling: asyncio.TimerHandle | None = None
        self._started = False
        self._is_applying = False
        logs.on_dir_failure(self.on_dir_failure)
        config.on_change(self._on_config_change)

    def connect(
        self, peers: Peers, send: Send, image: Callable[[], MetadataImage], broker_epoch: Callable[[], int]
    ) -> None:
        """Connects this broker with the others of its cluster, for replication.

        ``peers`` reaches them, ``send`` sends ISR proposals to the controller, ``image()`` returns the published
        metadata, ``broker_epoch()`` the epoch of this broker's registration.
        """
        loop, config = self._loop, self.config
        changes = IsrChanges(image, broker_epoch, send, self.purgatory.wake, loop)
        sending = ReplicationThrottle("leader", self.node_id, config, image)
        self.leading = Leading(
            self.partitions, self.purgatory, image, changes, config, sending.delay_ms, self.clock, loop
        )
        fetching = ReplicationThrottle("follower", self.node_id, config, image)
        self.fetchers = Fetchers(
            self.node_id, peers, self, config, fetching.delay_ms, self.clock, loop, broker_epoch
        )

    def on_leadership(self, listener: Leadership) -> None:
        """Calls ``listener(tp, epoch)`` when this broker begins to lead, ``listener(tp, None)`` when it stops.

        The first call is made by ``announce``, the second at once.
        """
        self._listeners.append(listener)

    def announce(self) -> None:
        """Tells the listeners which partitions this broker leads by the metadata last applied, and creates new logs.

        Call it when that metadata is published, so that listeners find there what their logs refer to.
        """
        self._is_applying = False
        self._announce()
        self.partitions.new.go_on()

    def _announce(self) -> None:
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
        records: Records,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Appends one batch and wakes the requests that wait for it. Raises as ``Partition.append``."""
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
        """Appends the marker that ends a transaction in one of its partitions, as with acks=all.

        Raises InvalidProducerEpoch for a marker that comes too late, TransactionCoordinatorFenced for one of a replaced
        coordinator, and as ``append``.
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
        """Returns ``respond(reads)``, or a future of it if the fetch has to wait."""
        if fetch.read_all() or max_wait_ms <= 0:
            return respond(fetch.reads)
        return self.wait(fetch, max_wait_ms, respond)

    def wait(
        self, fetch: Fetch, max_wait_ms: int, respond: Callable[[list[PartitionRead]], object]
    ) -> WaitingFetch:
        """Returns a future of ``respond(reads)``, for a fetch that has read everything and needs more."""
        waiting = WaitingFetch(self.purgatory, fetch, respond)
        found = [partition for partition in fetch.partitions if partition is not None]
        self.purgatory.park(waiting, found, max_wait_ms)
        return waiting

    # Deleting records

    async def delete_records(self, partition: Partition, offset: int, timeout_ms: int) -> int:
        """Deletes the records below ``offset`` (-1: the high watermark) on all replicas; returns the low watermark.

        The deletion is durable when this returns. Raises as ``Partition.delete_records``, and RequestTimedOut.
        """
        offset = partition.delete_records(offset)
        log = partition.log
        self.purgatory.wake(partition)
        while apply_retention(log, self.clock.now_ms()) == REMOVED_PER_TURN:
            await asyncio.sleep(0)
            if self.logs.get(partition.topic_partition) is not log:
                break
        await self._loop.run_in_executor(self._pools.syncs, log.keep_start)
        low_watermark = partition.low_watermark()
        if low_watermark < offset:
            waiting = WaitingDelete(self.purgatory, partition, offset)
            self.purgatory.park(waiting, (partition,), timeout_ms)
            low_watermark = await waiting
        return low_watermark

    # Metadata

    async def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Brings this broker's partitions in line with ``image``, in which ``delta`` is new.

        New logs are created later: see ``new_logs``.
        """
        self._is_applying = True
        self.partitions.new.pause()
        before, self.partitions.image = self.partitions.image, image
        if self.leading is not None:
            self.leading.on_brokers(delta.brokers)
        await self._remove_topics(delta.deleted.values())
        for topic in delta.missing.values():
            await self._set_aside([partition.log for partition in self.partitions.give_up(topic.id)])
        if delta.reading is not None or not self._started:
            await self._leave_what_is_not_ours({topic.id for topic in delta.deleted.values()})
        if any(log_dir.offline for log_dir in self.logs.dirs):
            self._drop_offline()
        for topic in delta.changed.values():
            config = self._config_of(topic)
            for number, partition in enumerate(self._news(topic, before.topic_by_id(topic.id)), 1):
                if await self._place(topic, partition, config) or number % PLACED_PER_TURN == 0:
                    await asyncio.sleep(0)
        self._started = True

    def _news(self, topic: TopicImage, before: TopicImage | None) -> Iterator[PartitionImage]:
        """Yields the topic's partitions that have changed: of thousands, often one."""
        if before is None or before.configs != topic.configs:
            yield from topic.partitions
            return
        here = self.partitions.topics.get(topic.name, {})
        later = self.partitions.new.of(topic.id)
        known = len(before.partitions)
        for index, partition in enumerate(topic.partitions):
            is_same = index < known and partition is before.partitions[index]
            is_placed = index in here or index in later
            if not is_same or (not is_placed and self.node_id in partition.replicas):
                yield partition

    async def _place(self, topic: TopicImage, image: PartitionImage, config: LogConfig) -> bool:
        """Gives one partition its log and its role, or removes it. Returns True if that may have taken long."""
        if self.logs.may_remember(TopicPartition(topic.name, image.index)):  # a request may create its log meanwhile
            await self._loop.run_in_executor(self._pools.changes, self.logs.forget_deleted)
        known = self.partitions.topics.get(topic.name, {}).get(image.index)
        partition = known
        try:
            if self.node_id not in image.replicas:
                self.partitions.expect_no_more(topic.id, image.index)
                if known is not None:
                    await self._remove([known])
                return known is not None
            if known is None:
                partition = await self._host(topic, image, config)
            elif known.log.config != config:
                known.log.config = config
            if partition is not None:
                self._give_role(partition, image)
        except errors.KafkaError as error:
            logger.error("%s-%d: %s", topic.name, image.index, error)
        return partition is not known

    async def _host(self, topic: TopicImage, image: PartitionImage, config: LogConfig) -> Partition | None:
        """Opens the log of a partition that is new here, and returns the partition.

        Returns None if the log is missing and is created later: always, unless a coordinator needs it at once or an
        earlier attempt failed. Also returns None if the log may be on a missing disk.
        """
        tp = TopicPartition(topic.name, image.index)
        log = self.logs.get(tp)
        is_new = not self.partitions.expect(topic.id, image.index)
        if log is None and self.partitions.must_wait(topic, image, is_start=not self._started):
            return None
        if log is None and is_new and not topic.is_internal and not self.logs.is_stray(tp, topic.id):
            self.partitions.make_later(topic.id, image.index)
            return None
        if log is not None and log.topic_id not in (topic.id, bytes(16)):
            await self._set_aside([log])
        get = self._get_or_create(tp, topic.id, config)
        if self.logs.is_stray(tp, topic.id):  # it may have to be recovered
            log = await self._loop.run_in_executor(self._pools.changes, get)
            log.log_dir.check_online()
        else:
            log = get()
        return self._add(topic.id, log)

    def _get_or_create(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig) -> Callable[[], Log]:
        preferred = self.moves.preferred_dir(topic_partition)
        return partial(self.logs.get_or_create, topic_partition, topic_id, config, preferred)

    def _add(self, topic_id: bytes, log: Log) -> Partition:
        lag_time_max_ms = self.config["replica.lag.time.max.ms"]
        partition = Partition(log.topic_partition, topic_id, self.node_id, log, lag_time_max_ms)
        self.partitions.add(partition)
        return partition

    def _make_new(self, topic_id: bytes, index: int) -> Partition | None:
        """Creates a log that ``new_logs`` has kept, and gives its partition its role. Returns None if that failed."""
        topic = self.partitions.image.topic_by_id(topic_id)
        image = None if topic is None else self.partitions.image.partition(topic.name, index)
        if topic is None or image is None or self.node_id not in image.replicas:
            return None  # the metadata that is being applied takes it away
        tp = TopicPartition(topic.name, index)
        self.partitions.expect(topic_id, index)
        try:
            partition = self._add(topic_id, self._get_or_create(tp, topic_id, self._config_of(topic))())
            self._give_role(partition, image)
        except errors.KafkaError as error:
            logger.error("%s: %s", tp, error)
            if self._telling is None:
                self._telling = self._loop.call_later(TELLING_PAUSE_S, self._tell_lost)
            return None
        if not self._is_applying:
            self._announce()
        return partition

    def _tell_lost(self) -> None:
        self._telling = None
        self.on_lost()

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

    async def _remove_topics(self, topics: Iterable[TopicImage]) -> None:
        """Deletes the logs of many topics together, so that each log dir is synced only once."""
        logs = []
        for topic in topics:
            partitions = self.partitions.give_up(topic.id)
            for partition in partitions:
                self._withdraw(partition)
            logs += self.logs.take_out(partition.topic_partition for partition in partitions)
            await asyncio.sleep(0)
        await self._delete_logs(logs)

    async def _remove(self, partitions: list[Partition]) -> None:
        """Removes replicas from this broker. Returns when that is durable; a thread then deletes the files."""
        for partition in partitions:
            self._withdraw(partition)
        await self._delete(partition.topic_partition for partition in partitions)

    async def _delete(self, topic_partitions: Iterable[TopicPartition]) -> None:
        await self._delete_logs(self.logs.take_out(topic_partitions))

    async def _delete_logs(self, logs: list[Log]) -> None:
        """Deletes logs that ``take_out`` has returned."""
        if logs:
            await self._loop.run_in_executor(self._pools.changes, self.logs.delete_all, logs)

    async def _leave_what_is_not_ours(self, deleted: Set[bytes]) -> None:
        """After the whole image was read: deletes logs of deleted topics, sets other logs that it lacks aside."""
        await self._delete([log.topic_partition for log in self.logs if log.topic_id in deleted])
        await self._set_aside([log for log in self.logs if reason_to_leave(log, self.partitions.image, self.node_id)])

    async def _set_aside(self, logs: list[Log]) -> None:
        """Turns logs that belong to no partition of this broker into strays, whose files are kept."""
        reasons = {log: reason_to_leave(log, self.partitions.image, self.node_id) for log in logs}
        for log in logs:
            hosted = self.partitions.topics.get(log.topic_partition.topic, {}).get(log.topic_partition.partition)
            if hosted is not None:
                self._withdraw(hosted)
        self.logs.take_out(log.topic_partition for log in logs)
        if reasons:
            await self._loop.run_in_executor(self._pools.changes, self._set_logs_aside, reasons)

    def _set_logs_aside(self, reasons: Mapping[Log, str]) -> None:
        """Sets logs aside; blocks, so it runs on a pool thread."""
        for log, why in reasons.items():
            try:
                stray = self.logs.set_aside(log, why)
            except errors.KafkaStorageError as error:
                logger.error("the log of %s cannot be set aside: %s", log.topic_partition, error)
                continue
            if stray is not None:
                logger.error("%s: %s. %s", log.topic_partition, why, ADVICE % stray.folder)
        self.logs.forget_deleted()

    def _withdraw(self, partition: Partition) -> None:
        """Removes a replica from the table, and fails the requests that wait for it."""
        self.partitions.take_out(partition)
        self._stop(partition, None)
        move = self.logs.moving_to(partition.topic_partition)
        if move is not None:
            move.cancel()

    def _stop(self, partition: Partition, failure: errors.KafkaStorageError | None) -> None:
        """Stops a partition: it serves no further requests. ``failure`` is that of its disk, None if it was removed."""
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
        """Returns the topic's configuration, without keys that this version does not know."""
        try:
            config = topic_config(self.config, topic.configs)
            return config.asking_all_replicas() if topic.has_unknown_configs else config
        except ConfigError as error:
            logger.error("topic %s has a wrong setting, and the default is used instead: %s", topic.name, error)
            return stored_topic_config(self.config, topic.configs)

    def _on_config_change(self, names: frozenset[str]) -> None:
        """Reconfigures all logs, because a broker key that is a topic's default may have changed."""
        for name, partitions in list(self.partitions.topics.items()):
            topic = self.partitions.image.topic(name)
            if topic is not None:
                config = self._config_of(topic)
                for partition in list(partitions.values()):
                    if partition.log.config != config:
                        partition.log.config = config
                        partition.reconfigured()
                        partition.advance()
                        self.purgatory.wake(partition)

    # Failed disks

    def on_dir_failure(self, log_dir: LogDir) -> None:
        """Takes the partitions of a failed disk offline. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._drop_offline)

    def _drop_offline(self) -> None:
        for partition in list(self.partitions):
            if partition.log.log_dir.offline and partition.is_available:
                self._stop(partition, partition.log.log_dir.storage_error())

    def close(self) -> None:
        """Cancels all waiting requests, fetches and moves, and creates no further logs."""
        self.partitions.new.close()
        if self._telling is not None:
            self._telling.cancel()
        if self.fetchers is not None and self.leading is not None:
            self.fetchers.close()
            self.leading.close()
        self.moves.close()
        self.purgatory.close()
