"""What a consumer commits, for whom, and when: the application's offsets, and with auto-commit what it is done with.

``Commits`` lives on the client's loop. The lock guards the subscription, which it reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.config import Config
from pyclient.consumer.alone import NEEDED, Alone
from pyclient.consumer.commit_timer import CommitTimer
from pyclient.consumer.committed import CommittedOffsets
from pyclient.consumer.errors import CommitFailed, IllegalState
from pyclient.consumer.group.membership import Membership
from pyclient.consumer.interceptors import Interceptors
from pyclient.consumer.subscription import PartitionState, Subscription
from pyclient.consumer.types import GroupMetadata, OffsetAndMetadata
from pyclient.core.client import Client
from pyclient.core.tasks import tell
from pyclient.errors import ClientClosed, KafkaError
from pyclient.protocol.errors import RebalanceInProgress
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)

COMMIT_S: Final = 5.0
"""For a commit without a waiting caller."""

OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]


class Commits:
    """The commits of one consumer."""

    def __init__(
        self,
        client: Client,
        config: Config,
        subscription: Subscription,
        lock: SignalSafeLock,
        interceptors: Interceptors,
        member: Callable[[], Membership | Alone],
        hold: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """``member()`` is the membership; ``hold`` runs a coroutine beside everything else."""
        self._client = client
        self._group_id: str = config.group_id
        self._by_itself: bool = config.enable_auto_commit and bool(config.group_id)
        self._timeout: float = config.default_api_timeout_ms / 1000
        self._subscription = subscription
        self._lock = lock
        self._interceptors = interceptors
        self._member = member
        self._timer = CommitTimer(client.loop, config.auto_commit_interval_ms / 1000, self._by_time, hold)
        self.committed = CommittedOffsets(client, config.group_id, self._who) if config.group_id else None
        """None without a group."""

    def start(self) -> None:
        """With auto-commit, commits from time to time."""
        if self._by_itself:
            self._timer.start()

    def stop(self) -> None:
        """Begins no further commit by itself."""
        self._timer.stop()

    # -- who commits ---------------------------------------------------------------------------------

    def of_group(self) -> CommittedOffsets:
        """The group's offsets. Raises IllegalState without a group."""
        if self.committed is None:
            raise IllegalState(NEEDED)
        return self.committed

    def identity(self) -> GroupMetadata:
        """The identity for commits: the member, or the group alone where partitions were assigned by hand."""
        member = self._member()
        return member.metadata() if self._subscription.by_group else GroupMetadata(member.group_id)

    def _who(self) -> GroupMetadata:
        """The identity for commits now. Raises CommitFailed where the group would refuse it, RebalanceInProgress where
        it waits."""
        member, who = self._member(), self.identity()
        if not self._subscription.by_group:
            return who
        if member.is_out:
            raise CommitFailed("removed from the group since the last poll: others may have the partitions")
        if who.generation_id < 1:
            raise CommitFailed("not a member of the group now: poll to join again")
        if member.is_joining:
            raise RebalanceInProgress("the group is rebalancing: poll, then commit again")
        return who

    def are_taken(self) -> bool:
        """The group takes commits of us now."""
        try:
            self._who()
        except KafkaError:
            return False
        return True

    # -- what the application commits ------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = None) -> None:
        """Commits offsets. Raises CommitFailed, RebalanceInProgress …"""
        committed = self.of_group()
        with self._lock:
            held = {tp: self._subscription.states.get(tp) for tp in offsets}
        limit = self._timeout if timeout is None else timeout
        await committed.commit(offsets, limit, partial(self._still_holds, held))
        with self._lock:
            for tp, state in held.items():
                if state is not None:
                    state.committed = offsets[tp].offset
        if offsets:
            self._interceptors.on_commit(offsets)

    def _still_holds(self, held: Mapping[TopicPartition, PartitionState | None]) -> bool:
        """We are a member, and none of these was given up: no other member can have committed meanwhile."""
        with self._lock:
            states = self._subscription.states
            return self.identity().generation_id > 0 and all(
                state is not None and states.get(tp) is state for tp, state in held.items()
            )

    async def commit_telling(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_commit: OnCommit | None
    ) -> None:
        """Commits; ``on_commit`` learns how it went, without it a failure is logged; so is what it raises itself."""
        failure: KafkaError | None = ClientClosed()
        try:
            await self.commit(offsets)
            failure = None
        except KafkaError as error:
            failure = error
        finally:
            if on_commit is not None:
                tell(self._client.loop, "on_commit", on_commit, offsets, failure)
            elif failure is not None:
                self.on_failed(failure)

    async def fetch(
        self, partitions: Collection[TopicPartition], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed."""
        return await self.of_group().fetch(partitions, self._timeout if timeout is None else timeout)

    # -- with auto-commit ------------------------------------------------------------------------------

    async def commit_settled(self, timeout: float = COMMIT_S) -> None:
        """What the application is done with. No error: it is tried again later."""
        try:
            await self.commit_or_raise(timeout)
        except KafkaError as error:
            self.on_failed(error)

    async def commit_or_raise(self, timeout: float) -> None:
        """As ``commit_settled``. Raises what ``commit`` does."""
        if not self._by_itself:
            return
        with self._lock:
            offsets = {
                tp: OffsetAndMetadata(state.settled, state.settled_epoch)
                for tp, state in self._subscription.states.items()
                if state.settled is not None and state.settled != state.committed
            }
        await self.commit(offsets, timeout)

    async def _by_time(self) -> None:
        """Unless the application is committing, which is not overtaken, or the group takes no commits of us now."""
        if self.committed is not None and not self.committed.is_busy and self.are_taken():
            await self.commit_settled()

    def on_failed(self, error: KafkaError) -> None:
        """Handles the failure of a commit without a waiting caller."""
        log.warning("a commit of group %s failed: %s", self._group_id, error)
