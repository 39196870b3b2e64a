"""Manages the partitions of this broker: serves appends and fetches, and keeps waiting requests.

The table ``partitions`` has the partitions that are here. ``placement`` brings them in line with the metadata.

Loop's thread only, except ``on_dir_failure``, which ``log`` calls on the thread that met the failed disk.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.config import BrokerConfig
from pybroker.log.appending import AppendInfo, Origin
from pybroker.log.dirs.log_dir import LogDir
from pybroker.log.expiry import apply_retention
from pybroker.log.files.storage import Bytes
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
from pybroker.replication.placement import Placement
from pybroker.replication.promises import Appended, Promises
from pybroker.replication.purgatory import (
    Purgatory,
    WaitingDelete,
    WaitingFetch,
)
from pybroker.replication.roles import Roles
from pybroker.topic_partition import TopicPartition

DEFAULT_TIMEOUT_MS = 30_000


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
        new = NewLogs(lambda topic_id, index: self._placement.make_new(topic_id, index), loop)
        self.partitions = table = PartitionTable(node_id, logs, new)
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
        self._roles = Roles(table, logs, self.purgatory, self._promises, clock)
        self.on_leadership = self._roles.on_leadership
        self._placement = Placement(
            node_id,
            table,
            logs,
            self._roles,
            self.purgatory,
            self.moves.preferred_dir,
            config,
            loop,
            pools.changes,
        )
        self.apply, self.announce = self._placement.apply, self._placement.announce
        self.delete_leaving = self._placement.delete_leaving
        logs.on_dir_failure(self.on_dir_failure)

    def connect(
        self, peers: Peers, send: Send, image: Callable[[], MetadataImage], broker_epoch: Callable[[], int]
    ) -> None:
        """Connects this broker with the others of its cluster, for replication.

        ``peers`` connects to the others, and ``send`` sends ISR proposals to the controller. ``image()`` returns the
        published metadata, and ``broker_epoch()`` the epoch of this broker's registration.
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
        self._roles.connect(self.leading, self.fetchers)

    def on_lost(self, listener: Callable[[], object]) -> None:
        """Calls ``listener()`` soon after creating logs has failed, except while their metadata is being applied."""
        self._placement.on_lost = listener

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
        """Appends one batch. Raises the errors of ``partition`` and ``Partition.append``."""
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
        """Appends one batch and wakes the requests that wait for it. Raises the errors of ``Partition.append``."""
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

        Raises InvalidProducerEpoch for a marker that comes too late, TransactionCoordinatorFenced for a marker of a
        replaced coordinator, and the errors of ``append``.
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

        The deletion is durable when this returns. Raises RequestTimedOut, and the errors of
        ``Partition.delete_records``.
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

    # Failed disks

    def on_dir_failure(self, log_dir: LogDir) -> None:
        """Takes the partitions of a failed disk offline. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._roles.drop_offline)

    def close(self) -> None:
        """Cancels all waiting requests, fetches and moves, and stops creating logs."""
        self._placement.close()
        if self.fetchers is not None and self.leading is not None:
            self.fetchers.close()
            self.leading.close()
        self.moves.close()
        self.purgatory.close()
