"""Drives the fetch sessions with the leaders of all partitions that this broker follows.

Each leader has a ``Line`` with a connection of its own. While the broker follows any partition of the leader, one
request waits there for records. So records that the leader appends arrive after one trip. The next request goes out as
soon as the response has been handled.

With ``flush.acks``, the records are synced before the next request, because the leader relies on the offset that a
follower names. If a sync is refused (no file descriptor is left), its partition pauses and is synced again later; the
other partitions continue. The log start that a follower names is durable too. A thread writes it, and requests do not
wait for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import NO_LEADER
from pybroker.config import BrokerConfig
from pybroker.replication.following.follower import FIRST_PAUSE_MS, Key
from pybroker.replication.following.leader_session import FetchLimits, Source, Throttle
from pybroker.replication.partition import Partition
from pybroker.replication.purgatory import Purgatory
from pyclient.protocol.errors import KafkaError

PURPOSE: Final = "replication"
KEEPING_PAUSE_S: Final = 1.0
"""How long to wait after a failure to write a log start, before it is written again."""

Done = Callable[[Any, "KafkaError | None"], object]


logger = logging.getLogger(__name__)


class Peers(Protocol):
    """The part of ``pybroker.net.peer.Peers`` that this module uses."""

    def post(self, node_id: int, message: Any, on_done: Done, *, timeout_ms: int, purpose: str) -> None: ...


class Shell(Protocol):
    """The part of the replica manager that this module uses."""

    purgatory: Purgatory

    def sync(self, partition: Partition, offset: int, done: Callable[[Exception | None], None]) -> bool: ...

    def keep_start(self, partition: Partition, done: Callable[[Exception | None], None]) -> None: ...


class Fetchers:
    """The lines to all leaders, and over which line each partition is fetched."""

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        shell: Shell,
        config: BrokerConfig,
        throttle: Throttle,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.node_id = node_id
        self.peers = peers
        self.shell = shell
        self.throttle = throttle
        self.clock = clock
        self.loop = loop
        self.broker_epoch = broker_epoch
        self.timeout_ms: int = config["replica.socket.timeout.ms"]
        self.limits = FetchLimits(
            config["replica.fetch.wait.max.ms"],
            config["replica.fetch.min.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.max.bytes"],
            config["replica.fetch.backoff.ms"],
        )
        self._lines: dict[int, Line] = {}
        self._leaders: dict[Key, int] = {}

    def assign(self, partition: Partition) -> None:
        """Fetches the partition from its leader. If this broker leads it or it has no leader, stops fetching it."""
        if partition.is_leader or partition.leader == NO_LEADER or not partition.is_available:
            self.stop(partition)
        else:
            self._follow(partition)

    def _follow(self, partition: Partition) -> None:
        key = key_of(partition)
        leader = partition.leader
        if self._leaders.get(key, leader) != leader:
            self.stop(partition)
        self._leaders[key] = leader
        line = self._lines.get(leader)
        if line is None:
            line = self._lines[leader] = Line(leader, self)
        epoch, pause_ms = partition.leader_epoch, FIRST_PAUSE_MS

        def begin(error: Exception | None = None) -> None:
            nonlocal pause_ms
            if self._leaders.get(key) != leader or partition.leader_epoch != epoch:
                return
            if error is not None:
                logger.warning("%s is not fetched until a sync succeeds: %s", partition.topic_partition, error)
                self.loop.call_later(pause_ms / 1000, begin)
                pause_ms = self.limits.longer(pause_ms)
            elif self.is_on_disk(partition, begin):
                line.source.follow(partition, self.clock.now_ms())
                line.go_on_soon()

        begin()

    def is_on_disk(self, partition: Partition, done: Callable[[Exception | None], None]) -> bool:
        """Returns True if the log's records are as durable as the topic requires.

        Otherwise it syncs the log, calls ``done(error or None)`` after that, and returns False.
        """
        log = partition.log
        return not log.config.flush_acks or self.shell.sync(partition, log.log_end_offset, done)

    def stop(self, partition: Partition) -> None:
        """Stops fetching the partition."""
        leader = self._leaders.pop(key_of(partition), None)
        if leader is not None:
            line = self._lines[leader]
            line.source.drop(key_of(partition))
            line.go_on_soon()

    def close(self) -> None:
        """Stops fetching all partitions."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        self._leaders.clear()


class Line:
    """The requests of this broker's followers to one leader."""

    def __init__(self, leader: int, fetchers: Fetchers) -> None:
        self.source = Source(leader, fetchers.node_id, fetchers.broker_epoch, fetchers.limits, fetchers.throttle)
        self._leader = leader
        self._fetchers = fetchers
        self._unsynced = 0
        self._keeping: set[Key] = set()
        """Partitions whose log start a thread is writing."""
        self._pause_ms = FIRST_PAUSE_MS
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._retry_at_ms = 0
        self._closed = False

    def go_on_soon(self) -> None:
        """Calls ``_go_on`` after this turn of the loop, so that one request has all changes of the turn."""
        if self._soon is None and not self._closed:
            self._soon = self._fetchers.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Does all work that is due: syncs, one piece of a truncation, and requests."""
        self._soon = None
        if self._closed:
            return
        self._keep_starts()
        if self._unsynced:
            return
        now_ms = self._fetchers.clock.monotonic_ms()
        while (unsynced := self.source.take_unsynced(now_ms)) is not None:
            self._sync(unsynced)
        cut = self.source.go_on_cutting(now_ms, self._fetchers.clock.now_ms())
        if cut is not None:
            self._has_changed(cut)
        if self._unsynced:
            return
        while now_ms >= self._retry_at_ms and self.source.may_ask(now_ms):
            self._ask()
        self._set_timer(now_ms)

    def _keep_starts(self) -> None:
        for partition in self.source.take_starts_to_keep():
            if key_of(partition) not in self._keeping:
                self._keeping.add(key_of(partition))
                self._fetchers.shell.keep_start(partition, partial(self._on_kept, partition))

    def _on_kept(self, partition: Partition, error: Exception | None) -> None:
        """Notes that a log start is durable. After an error, tries again later, unless the disk has failed."""
        if error is None:
            self._keeping.discard(key_of(partition))
            self.source.on_kept(key_of(partition))
            self.go_on_soon()
        elif partition.is_available and not self._closed:
            self._fetchers.loop.call_later(KEEPING_PAUSE_S, self._on_kept, partition, None)

    def _ask(self) -> None:
        number, request = self.source.next_request()
        fetchers = self._fetchers

        def done(response: Any, error: KafkaError | None) -> None:
            self._on_done(number, response, error)

        fetchers.peers.post(self._leader, request, done, timeout_ms=fetchers.timeout_ms, purpose=PURPOSE)

    def _on_done(self, number: int, response: Any, error: KafkaError | None) -> None:
        if self._closed:
            return
        now_ms = self._fetchers.clock.monotonic_ms()
        if error is not None:
            self.source.on_failure()
            self._pause(now_ms)
            return
        try:
            self._take(number, response, now_ms)
        except Exception:
            logger.exception("a fetch response of broker %d could not be handled; fetching again", self._leader)
            self.source.end_session()
            self._pause(now_ms)
        else:
            self._go_on()

    def _take(self, number: int, response: Any, now_ms: int) -> None:
        fetchers = self._fetchers
        for partition in self.source.on_response(number, response, now_ms, fetchers.clock.now_ms()):
            self._has_changed(partition)
        if response.error_code:
            self._pause(now_ms)
        else:
            self._pause_ms = FIRST_PAUSE_MS

    def _has_changed(self, partition: Partition) -> None:
        """Wakes the requests that wait for the partition, and syncs its log if the topic requires it."""
        self._fetchers.shell.purgatory.wake(partition)
        self._sync(partition)

    def _sync(self, partition: Partition) -> None:
        """Holds the next request until the partition's records are as durable as the topic requires."""
        self._unsynced += 1
        if self._fetchers.is_on_disk(partition, partial(self._on_synced, partition)):
            self._unsynced -= 1

    def _pause(self, now_ms: int) -> None:
        """Delays the next request to the leader by a pause, which doubles with each failure."""
        self._retry_at_ms = now_ms + self._pause_ms
        self._pause_ms = self._fetchers.limits.longer(self._pause_ms)
        self.go_on_soon()

    def _on_synced(self, partition: Partition, error: Exception | None) -> None:
        self._unsynced -= 1
        if error is not None:
            logger.warning("%s is not fetched until a sync succeeds: %s", partition.topic_partition, error)
            self.source.await_sync(key_of(partition), self._fetchers.clock.monotonic_ms())
        self.go_on_soon()

    def _set_timer(self, now_ms: int) -> None:
        """Sets the timer for the next retry, of single partitions or of the whole line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self.source.next_due_ms()
        if self._retry_at_ms > now_ms and len(self.source):
            due_ms = self._retry_at_ms
        if due_ms is not None:
            self._timer = self._fetchers.loop.call_later(max(1, due_ms - now_ms) / 1000, self._go_on)

    def close(self) -> None:
        """Sends no further requests and ignores pending answers."""
        self._closed = True
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()


def key_of(partition: Partition) -> Key:
    """Returns the partition's topic id and index."""
    return partition.topic_id, partition.topic_partition.partition
