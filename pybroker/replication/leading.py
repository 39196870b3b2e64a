"""What the fetches of followers mean to the partitions that this broker leads.

A follower that asks for an offset has everything below: that moves the high watermark, answers
producers that wait for acks=all, and may bring the follower back into the in-sync set. A follower
that has not kept up for ``replica.lag.time.max.ms`` is proposed to leave it. Both are proposals:
``isr_changes`` brings them to the controller.

Followers have fetch sessions of their own, beside those of consumers, so that neither can push out
the other. A follower sends the next request of its session while one is waiting here if it has
something new to tell: the one that waits is then answered at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Final

from pybroker.clock import Clock
from pybroker.cluster.image import MetadataImage
from pybroker.replication.fetch_session import FetchSessions
from pybroker.replication.fetching import Fetch, FetchPartition, PartitionRead
from pybroker.replication.isr_changes import IsrChanges
from pybroker.replication.partition import Partition
from pybroker.replication.purgatory import Purgatory, WaitingFetch
from pyclient.protocol import errors

SESSIONS: Final = 1000


class Leading:
    """The followers of this broker's partitions, as their fetches show them."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        purgatory: Purgatory,
        image: Callable[[], MetadataImage],
        changes: IsrChanges,
        lag_time_max_ms: int,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """``partitions``: all of this broker, whenever it is iterated."""
        self.sessions = FetchSessions(SESSIONS, lambda: random.randint(1, 0x7FFF_FFFF))
        self.changes = changes
        self._partitions = partitions
        self._purgatory = purgatory
        self._image = image
        self._clock = clock
        self._loop = loop
        self._pause_s = max(0.001, lag_time_max_ms / 2000)
        self._waiting: dict[int, WaitingFetch] = {}
        self._timer = loop.call_later(self._pause_s, self._on_timer)

    def hurry(self, replica: int) -> None:
        """A follower has another request: the one that waits is answered with what there is."""
        waiting = self._waiting.pop(replica, None)
        if waiting is not None and not waiting.done():
            waiting.expired()

    def fetch(
        self,
        replica: int,
        broker_epoch: int,
        fetch: Fetch,
        max_wait_ms: int,
        respond: Callable[[list[PartitionRead]], object],
    ) -> object:
        """``respond(reads)``, or the future of it where the follower has everything."""
        enough = fetch.read_all()
        self._note(replica, broker_epoch, fetch)
        if enough or max_wait_ms <= 0 or fetch.has_progress():
            return respond(fetch.reads)
        waiting = self._waiting[replica] = WaitingFetch(self._purgatory, fetch, respond)
        found = [partition for partition in fetch.partitions if partition is not None]
        self._purgatory.park(waiting, found, max_wait_ms)
        return waiting

    def _note(self, replica: int, broker_epoch: int, fetch: Fetch) -> None:
        """What the follower has, of every partition whose history agrees with ours."""
        broker = self._image().brokers.get(replica)
        is_eligible = broker is not None and broker.epoch == broker_epoch
        now_ms = self._clock.monotonic_ms()
        for wanted, partition, read in zip(fetch.wanted, fetch.partitions, fetch.reads, strict=True):
            if partition is not None and not read.is_urgent:
                self._note_one(replica, broker_epoch, is_eligible, wanted, partition, now_ms)
                read.high_watermark = partition.high_watermark

    def _note_one(
        self,
        replica: int,
        broker_epoch: int,
        is_eligible: bool,
        wanted: FetchPartition,
        partition: Partition,
        now_ms: int,
    ) -> None:
        before = _told(partition, replica)
        try:
            proposal = partition.on_follower_fetch(
                replica, wanted.fetch_offset, wanted.log_start_offset, now_ms, broker_epoch, is_eligible=is_eligible
            )
        except errors.KafkaError:
            return  # it leads no more, or that is no replica of it: the next read says so
        if proposal is not None:
            self.changes.propose(partition)
        if _told(partition, replica) != before:
            self._purgatory.wake(partition)

    def _on_timer(self) -> None:
        """Looks for followers that have fallen behind."""
        self._timer = self._loop.call_later(self._pause_s, self._on_timer)
        now_ms = self._clock.monotonic_ms()
        for partition in self._partitions:
            if partition.on_tick(now_ms) is not None:
                self.changes.propose(partition)

    def close(self) -> None:
        """Looks no more."""
        self._timer.cancel()
        self.changes.close()


def _told(partition: Partition, replica: int) -> tuple[int, int]:
    """What those who wait look at: the high watermark, and where the replica's log begins."""
    follower = partition.isr.followers.get(replica) if partition.isr is not None else None
    return partition.high_watermark, -1 if follower is None else follower.log_start_offset
