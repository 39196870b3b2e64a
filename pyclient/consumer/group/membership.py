"""The common part of both kinds of membership: the assignment, and the calls about its changes.

The member's identity changes on the loop, at any time, but the application sees it as of its last ``poll``. For the
application, a member that was evicted keeps its identity and partitions until the next poll. So commits before that
poll name the old member, and the coordinator rejects them. Otherwise records would be processed twice: by the new owner
of the partitions, and by this member under the identity that it gets when it joins again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Coroutine
from typing import Any, Final, Protocol

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.config import Config
from pyclient.consumer.appointments import ASSIGNED, LOST, REVOKED, SETTLE, Appointments
from pyclient.consumer.subscription import Subscription
from pyclient.consumer.types import GroupMetadata
from pyclient.core.client import Client
from pyclient.core.kinds import GROUP
from pyclient.core.tasks import ended, watched
from pyclient.errors import KafkaError
from pyclient.protocol.apis import Api
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)
Partitions = Collection[TopicPartition]
GOODBYE_S: Final = 5.0
"""Seconds for leaving the group."""


class Owner(Protocol):
    """The part of the consumer that a membership uses."""

    has_listener: bool

    async def commit_settled(self) -> None:
        """Commits the positions up to which the application has processed records, if auto-commit is on."""

    def on_assignment(self) -> None:
        """Called when new partitions need positions."""

    def on_error(self, error: KafkaError) -> None:
        """Makes ``poll`` raise this."""

    def on_fault(self, error: KafkaError) -> None:
        """Called when the membership has ended: each ``poll`` must raise this."""

    def poll_is_late(self) -> bool:
        """Returns whether the application has not polled for max.poll.interval.ms."""


class Membership(ABC):
    """A member of a group. ``run`` is a task on the loop that ends when it is cancelled."""

    def __init__(
        self,
        client: Client,
        config: Config,
        subscription: Subscription,
        lock: SignalSafeLock,
        appointments: Appointments,
        owner: Owner,
    ) -> None:
        self.group_id: str = config.group_id
        self.instance_id: str | None = config.group_instance_id
        self.member_id = ""
        self.epoch = -1
        """The generation or member epoch; -1 outside the group."""
        self._shown = GroupMetadata(self.group_id, -1, "", self.instance_id)
        self._losses = 0
        """How often the group has evicted the member while it had partitions …"""
        self._heard = 0
        """… and how many of these evictions the application has learned about, in a poll."""
        self._client = client
        self._config = config
        self._subscription = subscription
        self._lock = lock
        self._appointments = appointments
        self._owner = owner
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def metadata(self) -> GroupMetadata:
        """Returns the identity that the application sees: that of the last poll, or a later one if the group has not
        evicted the member since.
        """
        return self._shown

    @property
    def is_out(self) -> bool:
        """Whether the group has evicted the member, and the application does not know it yet."""
        return self._losses != self._heard

    @property
    def is_joining(self) -> bool:
        """Whether a rebalance is waiting for the group's answer. Commits would wait until then, and be rejected."""
        return False

    def show(self) -> None:
        """Shows the application the current membership, unless the member was evicted since."""
        if not self.is_out:
            self._shown = GroupMetadata(self.group_id, self.epoch, self.member_id, self.instance_id)

    def _put_out(self) -> None:
        """Notes that the member was evicted; other members may own its partitions now."""
        self._losses += bool(self.owned())

    def start(self) -> None:
        """Starts the task. Does nothing if it runs."""
        if self._task is None or self._task.done():
            self._heard = self._losses
            self._task = self._watched(self.run())

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        what = f"the membership of group {self.group_id}"
        return watched(self._client.loop, work, what, self._owner.on_fault)

    def regex_of(self, pattern: re.Pattern[str]) -> str | None:
        """Returns the pattern for the coordinator, or None if the client must match it."""
        return None

    @abstractmethod
    async def run(self) -> None:
        """Joins, stays a member, and joins again after an eviction."""

    @abstractmethod
    def subscription_changed(self) -> None:
        """Called when other topics are subscribed to, or a topic has more partitions."""

    @abstractmethod
    async def leave(self, reason: str, timeout: float = GOODBYE_S) -> None:
        """Tells the coordinator once that the member leaves, within ``timeout`` seconds. The member has left even if
        this raises.
        """

    async def _say_goodbye(self, api: Api, message: Any, timeout: float) -> None:
        async def goodbye() -> None:
            node = await self._client.coordinator(self.group_id, GROUP)
            await self._client.send(node, api, message)

        await self._client.within(goodbye(), self._client.clock() + timeout)

    async def stop(self) -> None:
        """Ends the task. The coordinator keeps the member until its session expires."""
        task, self._task = self._task, None
        if task is not None:
            await ended(task)

    # -- the assignment ------------------------------------------------------------------------------

    def owned(self) -> set[TopicPartition]:
        """Returns the partitions that are read now."""
        with self._lock:
            return set(self._subscription.states)

    async def revoke(self, partitions: Partitions) -> None:
        """Gives partitions up after the application has processed their records and the offsets are committed."""
        if not partitions:
            return
        self._hold_back(partitions)
        await self._appointments.at_poll(SETTLE)
        await self._owner.commit_settled()
        await self._change(REVOKED, partitions, self.owned() - set(partitions))

    async def lose(self, partitions: Partitions) -> None:
        """Removes partitions that other members have, or that no longer exist; nothing is committed. They stay assigned
        until the application polls, because it may still process their records.
        """
        if not partitions:
            return
        self._hold_back(partitions)
        kept, losses = self.owned() - set(partitions), self._losses

        def change() -> None:
            self._assign(kept)
            self._heard = losses

        await self._appointments.at_poll(LOST, partitions, change)

    async def take_over(self, assigned: Partitions, *, always: bool) -> None:
        """Takes over the assigned partitions, also those that an unfinished revocation held back. Tells the listener
        about new ones (``always``: even if there are none).
        """
        with self._lock:
            self._subscription.stay(assigned)
        new = set(assigned) - self.owned()
        if new or always:
            await self._change(ASSIGNED, new, assigned)
        self._owner.on_assignment()

    async def _change(self, action: str, partitions: Partitions, assigned: Partitions) -> None:
        """Makes ``assigned`` the assignment. If there is a listener, this happens within a poll, which also calls the
        listener.
        """

        if self._owner.has_listener:
            await self._appointments.at_poll(action, partitions, lambda: self._assign(assigned))
        else:
            self._assign(assigned)

    def _assign(self, partitions: Partitions) -> None:
        if log.isEnabledFor(logging.DEBUG):
            owned = self.owned()
            changes = [sorted(map(str, each)) for each in ({*partitions} - owned, owned - {*partitions})]
            log.debug("group %s, member %s: assigned %s, revoked %s", self.group_id, self.member_id, *changes)
        with self._lock:
            self._subscription.set_assigned(partitions)

    def _hold_back(self, partitions: Partitions) -> None:
        """Makes ``poll`` return no more records of these partitions."""
        with self._lock:
            self._subscription.leave(partitions)

    async def _rest(self, seconds: float) -> None:
        """Waits for some seconds, or until something has changed."""
        with contextlib.suppress(TimeoutError):  # asyncio.wait_for of Python 3.11 may swallow a cancellation
            async with asyncio.timeout(seconds):
                await self._wake.wait()
