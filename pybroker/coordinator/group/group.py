"""The interface of all kinds of groups to their shard.

A shard has groups by id, of both protocols, and separately their committed offsets (``offset_store``). Offsets survive
a change of protocol, and groups do not know them. A group decides which clients may commit and fetch, which topics are
subscribed, when offsets may expire, and how it is described. Requests that only one protocol has (JoinGroup,
ConsumerGroupHeartbeat) go directly to that class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pybroker.coordinator.group.offsets import CommittedOffset
from pybroker.coordinator.shard import Record, Result

if TYPE_CHECKING:
    from pyclient.protocol import DescribeGroups, ListGroups

CLASSIC: Final = "classic"
CONSUMER_KIND: Final = "consumer"


class Commit(NamedTuple):
    """The sender of a commit: the fields of OffsetCommit and TxnOffsetCommit that a group checks."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The generation of a classic member or the member epoch of another; negative if the client is not a member."""
    version: int
    """The version of the request's API."""
    transactional: bool


CheckPartition = Callable[[str, bytes, int], None]
"""``check(topic, topic id, partition)`` raises StaleMemberEpoch or IllegalGeneration."""

class Subscription(NamedTuple):
    """What a member reads: the listed topics, and all that match ``regex`` ("" if there is none)."""

    topics: frozenset[str]
    regex: str = ""


RetentionStart = Callable[[CommittedOffset], int]
"""Returns when the retention time of an offset began, in milliseconds by the wall clock."""


class Group(Protocol):
    """A group of any protocol."""

    id: str

    @property
    def kind(self) -> str:
        """CLASSIC or CONSUMER_KIND: the ``group_type`` of ListGroups."""
        ...

    @property
    def is_empty(self) -> bool:
        """True if the group has no members and is not deleted."""
        ...

    @property
    def may_go(self) -> bool:
        """True if the group is empty and expects no member, so that it is removed with its last offset."""
        ...

    def may_commit(self, commit: Commit, result: Result) -> CheckPartition | None:
        """Checks whether the offsets may be committed, and renews the member's session. May return a check to call for
        each partition.

        Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, StaleMemberEpoch, RebalanceInProgress,
        CoordinatorNotAvailable, UnsupportedVersion. For a transactional commit the caller turns StaleMemberEpoch into
        IllegalGeneration.
        """
        ...

    def may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Checks an OffsetFetch 9; None and -1 mean a client that is not a member.

        Raises UnknownMemberId, StaleMemberEpoch, IllegalGeneration, and GroupIdNotFound if there is nothing to fetch.
        """
        ...

    def check_offsets_deletable(self) -> None:
        """Checks an OffsetDelete. Raises NonEmptyGroup, GroupIdNotFound."""
        ...

    def check_deletable(self) -> None:
        """Checks a DeleteGroups. Raises NonEmptyGroup, GroupIdNotFound."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Returns whether members read the topic. If they do, its offsets do not expire and may not be deleted."""
        ...

    def retention_start(self) -> RetentionStart | None:
        """Returns a function that tells when an offset's retention time began; None if no offset may expire now."""
        ...

    def tombstones(self) -> list[Record]:
        """Returns the records that delete the group, without its offsets."""
        ...

    def described(self) -> DescribeGroups.Response.DescribedGroup:
        """Describes the group for DescribeGroups. Raises GroupIdNotFound if that API does not show such groups."""
        ...

    def listed(self) -> ListGroups.Response.ListedGroup:
        """Returns the group's row of ListGroups."""
        ...

    def member_subscriptions(self) -> Iterator[tuple[str, Subscription | bytes]]:
        """Yields each member's id and subscription, for classic members as the bytes that ``subscribed_topics`` reads.
        """
        ...

    def resume(self, result: Result) -> None:
        """Starts the sessions after the log has been loaded."""
        ...

    def die(self) -> None:
        """Cancels the group's timers: it was deleted, or a group of the other protocol replaces it."""
        ...
