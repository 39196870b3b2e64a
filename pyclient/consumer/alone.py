"""A consumer without a group: it reads all partitions of its topics and commits nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Final, Protocol

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.config import Config
from pyclient.consumer.appointments import ASSIGNED, REVOKED, Appointments
from pyclient.consumer.errors import IllegalState
from pyclient.consumer.subscription import EARLIEST, Subscription
from pyclient.consumer.types import GroupMetadata
from pyclient.core.client import Client
from pyclient.core.tasks import watched
from pyclient.errors import KafkaError
from pyclient.protocol import ZERO_UUID
from pyclient.topic_partition import TopicPartition

NEEDED: Final = "group.id is missing: it is needed to commit, and to be a member of a group"


class Owner(Protocol):
    """The part of the consumer that this module uses."""

    has_listener: bool

    def on_assignment(self) -> None:
        """Called after partitions were added, which need positions."""

    def on_fault(self, error: KafkaError) -> None:
        """Called when the assignment stops following the metadata. Each later ``poll`` must raise ``error``."""


class Alone:
    """Replaces a group membership: the assignment follows the cluster's metadata. Used on the loop.

    With auto.offset.reset=latest, a partition that is added later is read from its first record. The same holds for a
    topic that matches the pattern later. All these records were written after the consumer started, so the consumer
    reads all of them.
    """

    is_out = is_joining = False

    def __init__(
        self,
        client: Client,
        config: Config,
        subscription: Subscription,
        lock: SignalSafeLock,
        appointments: Appointments,
        owner: Owner,
    ) -> None:
        self._client = client
        self._from_now: bool = config.auto_offset_reset == "latest"
        self._subscription = subscription
        self._lock = lock
        self._appointments = appointments
        self._owner = owner
        self._ids: dict[str, bytes] = {}
        """The ids of the topics that are read. Unknown partitions of these topics were added later."""
        self._absent: set[str] = set()
        """Topics that were missing when reading began, so all their records are new."""
        self._listed: re.Pattern[str] | None = None
        """The pattern whose topics are read. Other topics that match it were added later."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def watched_topics(self) -> Collection[str]:
        """Returns nothing: this consumer watches only the subscribed topics."""
        return ()

    @property
    def group_id(self) -> str:
        """Raises IllegalState, because there is no group."""
        raise IllegalState(NEEDED)

    def metadata(self) -> GroupMetadata:
        """Raises IllegalState, because there is no group."""
        raise IllegalState(NEEDED)

    def regex_of(self, pattern: re.Pattern[str]) -> str | None:
        """Returns None: the client matches the pattern, because there is no coordinator."""
        return None

    # -- life cycle ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts to follow the metadata. Does nothing if already started."""
        if self._task is None or self._task.done():
            work = self._run()
            self._task = watched(self._client.loop, work, "the reading of topics", self._owner.on_fault)

    async def stop(self) -> None:
        """Stops following the metadata."""
        task, self._task = self._task, None
        self._ids.clear()
        self._absent.clear()
        self._listed = None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def leave(self, reason: str, timeout: float = 0.0) -> None:
        """Does nothing, because there is no group to inform."""

    # -- following the metadata ------------------------------------------------------------------------

    def subscription_changed(self) -> None:
        """Called when other topics are subscribed to."""
        self._changed.set()

    def topics_changed(self, topics: Collection[str]) -> None:
        """Called when the metadata of these topics has changed."""
        self._changed.set()

    def is_missing(self, topic: str) -> None:
        """Called when the cluster does not have the topic."""
        if topic in self._subscription.topics:
            self._absent.add(topic)

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._follow()

    async def _follow(self) -> None:
        """Makes the assignment equal to the partitions that the cluster has for the topics."""
        self._forget_left()
        replaced, wanted, owned = self._replaced(), self._wanted(), self._owned()
        pattern = self._subscription.pattern
        is_listed = pattern is not None and pattern is self._listed
        if gone := {tp for tp in owned if tp.topic in replaced or tp not in wanted}:
            owned -= gone
            await self._change(REVOKED, gone, lambda: self._assign(owned))
        if new := wanted - owned:
            later = {tp for tp in new if is_listed or tp.topic in self._ids or tp.topic in self._absent}
            await self._change(ASSIGNED, new, lambda: self._assign(wanted, later))
            self._owner.on_assignment()
        for topic in {tp.topic for tp in wanted}:
            if (known := self._client.cluster.topic_id(topic)) != ZERO_UUID:
                self._ids[topic] = known
            else:
                self._ids.setdefault(topic, ZERO_UUID)
        self._listed = pattern

    def _forget_left(self) -> None:
        """Forgets unsubscribed topics, so that a new subscription does not count them as added later."""
        topics = self._subscription.topics
        self._ids = {topic: id for topic, id in self._ids.items() if topic in topics}
        self._absent &= topics

    def _replaced(self) -> set[str]:
        """Returns the topics that were deleted and created again."""
        cluster = self._client.cluster
        now = {topic: cluster.topic_id(topic) for topic in self._ids}
        return {topic for topic, id in self._ids.items() if id != now[topic] and ZERO_UUID not in (id, now[topic])}

    def _owned(self) -> set[TopicPartition]:
        with self._lock:
            return set(self._subscription.states)

    def _wanted(self) -> set[TopicPartition]:
        """Returns all partitions of the topics. A topic that is unknown now keeps the partitions that are read."""
        cluster, owned = self._client.cluster, self._owned()
        wanted = set()
        for topic in self._subscription.topics:
            known = cluster.partitions(topic)
            if known is not None:
                wanted |= {TopicPartition(topic, row.partition) for row in known}
            else:
                wanted |= {tp for tp in owned if tp.topic == topic}
        return wanted

    # -- the assignment ------------------------------------------------------------------------------

    async def _change(self, action: str, partitions: set[TopicPartition], change: Callable[[], None]) -> None:
        """Applies ``change``. If there is a listener, this happens within a poll, which also calls the listener."""
        if self._owner.has_listener:
            await self._appointments.at_poll(action, partitions, change)
        else:
            change()

    def _assign(self, partitions: set[TopicPartition], later: Collection[TopicPartition] = ()) -> None:
        with self._lock:
            self._subscription.set_assigned(partitions)
            for tp in later if self._from_now else ():
                self._subscription.states[tp].seek_by(EARLIEST)
