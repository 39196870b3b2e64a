"""The common part of both kinds of membership: the assignment, and the calls about its changes.

The member's identity changes on the loop, at any time, but the application sees it as of its last ``poll``. For the
application, a member that was removed from its group keeps its identity and partitions until the next poll. So commits
before that poll name the old member, and the coordinator refuses them. Otherwise records would be processed twice: by
the new owner of the partitions, and by this member under the identity that it gets when it joins again.
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
"""For the last word to the coordinator."""


class Owner(Protocol):
    """The consumer, as its membership sees it."""

    has_listener: bool

    async def commit_settled(self) -> None:
        """The positions up to which the application is done are committed, with auto-commit."""

    def on_assignment(self) -> None:
        """There are new partitions, which need positions."""

    def on_error(self, error: KafkaError) -> None:
        """``poll`` has to raise this."""

    def on_fault(self, error: KafkaError) -> None:
        """The membership has ended: each ``poll`` has to raise this."""

    def poll_is_late(self) -> bool:
        """The application has not polled for max.poll.interval.ms."""


class Membership(ABC):
    """A member of a group. ``run`` is a task on the loop that ends by being cancelled."""

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
        """The generation, or member epoch; -1 outside the group."""
        self._shown = GroupMetadata(self.group_id, -1, "", self.instance_id)
        self._losses = 0
        """How often the group has put the member out while it had partitions …"""
        self._heard = 0
        """… and how many of these the application has learned of, in a poll."""
        self._client = client
        self._config = config
        self._subscription = subscription
        self._lock = lock
        self._appointments = appointments
        self._owner = owner
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def metadata(self) -> GroupMetadata:
        """The application's identity: the member as of the last poll, and as it went on since without a loss."""
        return self._shown

    @property
    def is_out(self) -> bool:
        """The group has evicted the member, and the application has not learned of it yet."""
        return self._losses != self._heard

    @property
    def is_joining(self) -> bool:
        """A rebalance goes on, of which the group's answer is awaited: commits would wait for it, and be refused."""
        return False

    def show(self) -> None:
        """Shows the application the current membership, unless the member was removed since."""
        if not self.is_out:
            self._shown = GroupMetadata(self.group_id, self.epoch, self.member_id, self.instance_id)

    def _put_out(self) -> None:
        """The member is no longer in the group; other members may own its partitions now."""
        self._losses += bool(self.owned())

    def start(self) -> None:
        """Begins; harmless when it has begun."""
        if self._task is None or self._task.done():
            self._heard = self._losses
            self._task = self._watched(self.run())

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        what = f"the membership of group {self.group_id}"
        return watched(self._client.loop, work, what, self._owner.on_fault)

    def regex_of(self, pattern: re.Pattern[str]) -> str | None:
        """The pattern as the coordinator matches it, None where it does not: then the client does."""
        return None

    @abstractmethod
    async def run(self) -> None:
        """Joins, stays, joins again …"""

    @abstractmethod
    def subscription_changed(self) -> None:
        """Other topics than before, or more partitions."""

    @abstractmethod
    async def leave(self, reason: str, timeout: float = GOODBYE_S) -> None:
        """Tells the coordinator, once, in ``timeout`` seconds; we are no member then, whatever it raises."""

    async def _say_goodbye(self, api: Api, message: Any, timeout: float) -> None:
        async def goodbye() -> None:
            node = await self._client.coordinator(self.group_id, GROUP)
            await self._client.send(node, api, message)

        await self._client.within(goodbye(), self._client.clock() + timeout)

    async def stop(self) -> None:
        """Ends the task; the membership stays as it is at the coordinator."""
        task, self._task = self._task, None
        if task is not None:
            await ended(task)

    # -- the assignment ------------------------------------------------------------------------------

    def owned(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        with self._lock:
            return set(self._subscription.states)

    async def revoke(self, partitions: Partitions) -> None:
        """Gives partitions up when the application is done with them and they are committed."""
        if not partitions:
            return
        self._hold_back(partitions)
        await self._appointments.at_poll(SETTLE)
        await self._owner.commit_settled()
        await self._change(REVOKED, partitions, self.owned() - set(partitions))

    async def lose(self, partitions: Partitions) -> None:
        """These are others' already, or do not exist any more: nothing is committed. They are gone when the application
        polls: until then its records of these are in its hands.
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
        """These are ours from now on, also what was held back for a revocation that was cut short; tells what is new
        (``always``: even if nothing is).
        """
        with self._lock:
            self._subscription.stay(assigned)
        new = set(assigned) - self.owned()
        if new or always:
            await self._change(ASSIGNED, new, assigned)
        self._owner.on_assignment()

    async def _change(self, action: str, partitions: Partitions, assigned: Partitions) -> None:
        """``assigned`` is ours from now on; with a listener it is so when that has heard of it, in a poll."""

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
