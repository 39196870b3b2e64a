"""The commits of a consumer: those of the application, and with auto-commit the offsets of processed records.

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
from pyclient.consumer.errors import CommitFailed, IllegalState
from pyclient.consumer.group.membership import Membership
from pyclient.consumer.interceptors import Interceptors
from pyclient.consumer.offsets.commit_timer import CommitTimer
from pyclient.consumer.offsets.committed import CommittedOffsets
from pyclient.consumer.subscription import PartitionState, Subscription
from pyclient.consumer.types import GroupMetadata, OffsetAndMetadata
from pyclient.core.client import Client
from pyclient.core.tasks import tell
from pyclient.errors import KafkaError
from pyclient.protocol.errors import RebalanceInProgress
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)

COMMIT_S: Final = 5.0
"""Seconds for a commit that no caller waits for."""

OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]


class Commits:
    """The commits of one consumer: automatic ones, and those of the application."""

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
        """``member()`` is the membership; ``hold`` runs a coroutine in the background."""
        self._client = client
        self._group_id: str = config.group_id
        self._by_itself: bool = config.enable_auto_commit and bool(config.group_id)
        self._subscription = subscription
        self._lock = lock
        self._interceptors = interceptors
        self._member = member
        self._timer = CommitTimer(client.loop, config.auto_commit_interval_ms / 1000, self._by_time, hold)
        self.committed = CommittedOffsets(client, config.group_id, self._who) if config.group_id else None
        """The group's committed offsets; None without a group."""

    def start(self) -> None:
        """Starts auto-commit, if it is on."""
        if self._by_itself:
            self._timer.start()

    def stop(self) -> None:
        """Stops auto-commit."""
        self._timer.stop()

    # -- who commits ---------------------------------------------------------------------------------

    def of_group(self) -> CommittedOffsets:
        """Returns the group's offsets. Raises IllegalState without a group."""
        if self.committed is None:
            raise IllegalState(NEEDED)
        return self.committed

    def identity(self) -> GroupMetadata:
        """Returns the identity for commits: the member, or only the group if the application assigned the partitions.
        """
        member = self._member()
        return member.metadata() if self._subscription.by_group else GroupMetadata(member.group_id)

    def _who(self) -> GroupMetadata:
        """Returns the identity for commits now. Raises CommitFailed if the group would reject it, and
        RebalanceInProgress while the group rebalances.
        """
        member, who = self._member(), self.identity()
        if not self._subscription.by_group:
            return who
        if member.is_out:
            raise CommitFailed("the group has evicted this consumer since its last poll: others may own its partitions")
        if who.generation_id < 1:
            raise CommitFailed("this consumer is not a member of the group: poll to join again")
        if member.is_joining:
            raise RebalanceInProgress("the group is rebalancing: poll, then commit again")
        return who

    def are_taken(self) -> bool:
        """Returns whether the group accepts commits from this member now."""
        try:
            self._who()
        except KafkaError:
            return False
        return True

    # -- what the application commits ------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = None) -> None:
        """Commits offsets. Raises CommitFailed, RebalanceInProgress and others."""
        committed = self.of_group()
        with self._lock:
            held = {tp: self._subscription.states.get(tp) for tp in offsets}
        await committed.commit(offsets, timeout, partial(self._still_holds, held))
        with self._lock:
            for tp, state in held.items():
                if state is not None:
                    state.committed = offsets[tp].offset
        if offsets:
            self._interceptors.on_commit(offsets)

    def _still_holds(self, held: Mapping[TopicPartition, PartitionState | None]) -> bool:
        """Returns whether this is a member that has given up none of these partitions. If so, no other member can have
        committed them.
        """
        with self._lock:
            states = self._subscription.states
            return self.identity().generation_id > 0 and all(
                state is not None and states.get(tp) is state for tp, state in held.items()
            )

    async def commit_telling(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_commit: OnCommit | None
    ) -> None:
        """Commits, and passes the result to ``on_commit``. Without it, logs a failure. Also logs errors of
        ``on_commit``.
        """
        failure: KafkaError | None = self._client.closed()
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
        """Returns the offsets that the group has committed."""
        return await self.of_group().fetch(partitions, timeout)

    # -- with auto-commit ------------------------------------------------------------------------------

    async def commit_settled(self, timeout: float = COMMIT_S) -> None:
        """With auto-commit, commits the offsets of processed records. Logs errors; a later commit tries again."""
        try:
            await self.commit_or_raise(timeout)
        except KafkaError as error:
            self.on_failed(error)

    async def commit_or_raise(self, timeout: float) -> None:
        """Like ``commit_settled``, but raises the errors of ``commit``."""
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
        """Commits unless the application is committing, or the group accepts no commits from this member now."""
        if self.committed is not None and not self.committed.is_busy and self.are_taken():
            await self.commit_settled()

    def on_failed(self, error: KafkaError) -> None:
        """Logs the failure of a commit that no caller waits for."""
        log.warning("a commit of group %s failed: %s", self._group_id, error)
