"""Follows: drives the fetch sessions with the leaders of those partitions that this broker follows.

One line per leader, over a connection of its own. While there is anything to follow there is a
request at the leader, which waits there until records come; so what was appended there is here
after one trip. After the answer the next request goes out at once, except where the topic wants its
records on the disk first (``flush.acks``): the position that a follower names is what the leader
counts on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from pybroker.clock import Clock
from pybroker.cluster.image import NO_LEADER
from pybroker.config import BrokerConfig
from pybroker.replication.follower import Key
from pybroker.replication.partition import Partition
from pybroker.replication.purgatory import Purgatory
from pybroker.replication.source import FetchLimits, Source, Throttle
from pyclient.protocol.errors import KafkaError

PURPOSE: Final = "replication"
FIRST_PAUSE_MS: Final = 20

Done = Callable[[Any, "KafkaError | None"], object]


logger = logging.getLogger(__name__)


class Peers(Protocol):
    """What is needed of ``pybroker.net.peer.Peers``."""

    def post(self, node_id: int, message: Any, on_done: Done, *, timeout_ms: int, purpose: str) -> None: ...


class Shell(Protocol):
    """What is needed of the replica manager."""

    purgatory: Purgatory

    def sync(self, partition: Partition, offset: int, done: Callable[[Exception | None], None]) -> bool: ...


class Fetchers:
    """The lines to all leaders."""

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
        """A leader epoch has begun: fetches from its leader, if that is another broker."""
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
        log, epoch = partition.log, partition.leader_epoch

        def begin(error: Exception | None = None) -> None:
            if self._leaders.get(key) == leader and partition.leader_epoch == epoch:
                line.source.follow(partition, self.clock.now_ms())
                line.go_on_soon()

        if not log.config.flush_acks or self.shell.sync(partition, log.log_end_offset, begin):
            begin()

    def stop(self, partition: Partition) -> None:
        """Fetches the partition no more."""
        leader = self._leaders.pop(key_of(partition), None)
        if leader is not None:
            line = self._lines[leader]
            line.source.drop(key_of(partition))
            line.go_on_soon()

    def close(self) -> None:
        """Fetches nothing any more."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        self._leaders.clear()


class Line:
    """The requests to one leader."""

    def __init__(self, leader: int, fetchers: Fetchers) -> None:
        self.source = Source(leader, fetchers.node_id, fetchers.broker_epoch, fetchers.limits, fetchers.throttle)
        self._leader = leader
        self._fetchers = fetchers
        self._unsynced = 0
        self._pause_ms = FIRST_PAUSE_MS
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._retry_at_ms = 0
        self._closed = False

    def go_on_soon(self) -> None:
        """Something has changed; what else changes in this turn of the loop goes along."""
        if self._soon is None and not self._closed:
            self._soon = self._fetchers.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Asks what there is to ask."""
        self._soon = None
        if self._closed or self._unsynced:
            return
        now_ms = self._fetchers.clock.monotonic_ms()
        while now_ms >= self._retry_at_ms and self.source.may_ask(now_ms):
            self._ask()
        self._set_timer(now_ms)

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
            logger.exception("an answer of broker %d could not be taken; it is asked anew", self._leader)
            self.source.end_session()
            self._pause(now_ms)
        else:
            self._go_on()

    def _take(self, number: int, response: Any, now_ms: int) -> None:
        fetchers = self._fetchers
        for partition in self.source.on_response(number, response, now_ms, fetchers.clock.now_ms()):
            fetchers.shell.purgatory.wake(partition)
            log = partition.log
            if log.config.flush_acks and not fetchers.shell.sync(partition, log.log_end_offset, self._on_synced):
                self._unsynced += 1
        if response.error_code:
            self._pause(now_ms)
        else:
            self._pause_ms = FIRST_PAUSE_MS

    def _pause(self, now_ms: int) -> None:
        """The leader does not answer, or not what was asked: asks again in a while, which doubles."""
        self._retry_at_ms = now_ms + self._pause_ms
        self._pause_ms = min(self._pause_ms * 2, max(self._fetchers.limits.backoff_ms, FIRST_PAUSE_MS))
        self.go_on_soon()

    def _on_synced(self, error: Exception | None) -> None:
        self._unsynced -= 1
        self.go_on_soon()

    def _set_timer(self, now_ms: int) -> None:
        """For partitions, or the whole line, that wait after something went wrong."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self.source.next_due_ms()
        if self._retry_at_ms > now_ms and len(self.source):
            due_ms = self._retry_at_ms
        if due_ms is not None:
            self._timer = self._fetchers.loop.call_later(max(1, due_ms - now_ms) / 1000, self._go_on)

    def close(self) -> None:
        """Asks no more, and does not hear what is answered."""
        self._closed = True
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()


def key_of(partition: Partition) -> Key:
    """The partition's topic id and index."""
    return partition.topic_id, partition.topic_partition.partition
