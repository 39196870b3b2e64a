"""Answers followers' fetches, which tell the leader how far the followers are.

A follower that fetches from an offset has everything below it. That advances the high watermark and answers producers
that wait for acks=all. If the follower has caught up, the leader proposes to add it to the in-sync replicas. If it has
not caught up for ``replica.lag.time.max.ms``, the leader proposes to remove it. ``isr_proposals`` sends these proposals
to the controller.

Followers have fetch sessions of their own (``follower_session``), apart from consumers', so that neither can evict
the other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataImage
from pybroker.config import BrokerConfig
from pybroker.replication.fetch_partition import FetchPartition
from pybroker.replication.fetch_session import Answer
from pybroker.replication.leading.follower_session import FIRST, Asked, FollowerSession, Throttle
from pybroker.replication.leading.isr_proposals import IsrChanges
from pybroker.replication.leading.read_replica import is_rack_aware
from pybroker.replication.partition import Partition
from pybroker.replication.purgatory import Purgatory
from pyclient.protocol import errors


class Leading:
    """Serves the followers of the partitions that this broker leads."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        purgatory: Purgatory,
        image: Callable[[], MetadataImage],
        changes: IsrChanges,
        config: BrokerConfig,
        throttle: Throttle,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """``partitions`` yields all partitions that this broker has at the time of the iteration."""
        self.changes = changes
        self._partitions = partitions
        self._purgatory = purgatory
        self._image = image
        self._clock = clock
        self._loop = loop
        self._throttle = throttle
        self._tells_progress = is_rack_aware(config)
        self._pause_s = max(0.001, config["replica.lag.time.max.ms"] / 2000)
        self._sessions: dict[int, FollowerSession] = {}
        self._timer = loop.call_later(self._pause_s, self._on_timer)

    def fetch(
        self,
        replica: int,
        asked: Asked,
        find: Callable[[FetchPartition], Partition],
        respond: Callable[[int, list[Answer]], Any],
    ) -> Any:
        """Returns ``respond(session id, answers)``, or a future of it if there is no news yet.

        Raises FetchSessionIdNotFound, InvalidFetchSessionEpoch.
        """
        session = self._session(replica, asked, find)
        session.hurry()
        broker = self._image().brokers.get(replica)
        is_eligible = broker is not None and broker.epoch == asked.broker_epoch
        now_ms = self._clock.monotonic_ms()

        def note(wanted: FetchPartition, partition: Partition) -> None:
            self._note_one(replica, asked.broker_epoch, is_eligible, wanted, partition, now_ms)

        return session.fetch(asked, note, respond, now_ms)

    def _session(
        self, replica: int, asked: Asked, find: Callable[[FetchPartition], Partition]
    ) -> FollowerSession:
        session = self._sessions.get(replica)
        if asked.session_epoch == FIRST:
            if session is not None:
                session.close()
            id = random.randint(1, 0x7FFF_FFFF)
            session = FollowerSession(
                id, replica, self._purgatory, find, self._throttle, tells_progress=self._tells_progress
            )
            self._sessions[replica] = session
            session.broker_epoch = asked.broker_epoch
        elif session is None or session.id != asked.session_id:
            raise errors.FetchSessionIdNotFound(f"broker {replica} has no fetch session {asked.session_id}")
        elif session.broker_epoch != asked.broker_epoch:
            session.close()
            raise errors.InvalidFetchSessionEpoch(f"broker {replica} has registered again")
        return session

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
        proposal = partition.on_follower_fetch(
            replica, wanted.fetch_offset, wanted.log_start_offset, now_ms, broker_epoch, is_eligible=is_eligible
        )
        if proposal is not None:
            self.changes.propose(partition)
        if _told(partition, replica) != before:
            self._purgatory.wake(partition)

    def on_brokers(self, brokers: Mapping[int, BrokerRegistration | None]) -> None:
        """Takes over new registrations, for which followers may have waited to rejoin. None: the broker has gone."""
        for id, broker in brokers.items():
            session = self._sessions.pop(id, None) if broker is None else None
            if session is not None:
                session.close()
            for partition in self._partitions:
                if partition.isr is None:
                    continue
                if broker is None:
                    partition.isr.set_ineligible(id)
                elif partition.isr.registered(id, broker.epoch):
                    self.changes.consider(partition)

    def _on_timer(self) -> None:
        """Proposes to remove the followers that have fallen behind."""
        self._timer = self._loop.call_later(self._pause_s, self._on_timer)
        now_ms = self._clock.monotonic_ms()
        for partition in self._partitions:
            if partition.on_tick(now_ms) is not None:
                self.changes.propose(partition)

    def close(self) -> None:
        """Stops the timer, and sends no further proposals."""
        self._timer.cancel()
        self.changes.close()


def _told(partition: Partition, replica: int) -> tuple[int, int]:
    """Returns the two offsets on which waiting requests depend: the high watermark, and the replica's log start."""
    follower = partition.isr.followers.get(replica) if partition.isr is not None else None
    return partition.high_watermark, -1 if follower is None else follower.log_start_offset
