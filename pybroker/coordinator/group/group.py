"""What every kind of group is to the shard that holds it.

A shard holds groups by id, whatever their protocol. Beside them it holds their committed offsets (``offset_store``):
offsets outlive a change of protocol, and groups know nothing of them. A group decides who may commit and fetch, what is
subscribed, when offsets may expire, and how it is shown. What only one protocol has (JoinGroup, ConsumerGroupHeartbeat)
goes to that class.
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
    """The sender of a commit: the facts of OffsetCommit and TxnOffsetCommit that a group looks at."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The generation of a classic member, or the epoch of another; negative for a client that is no member."""
    version: int
    """The version of the request's API."""
    transactional: bool


CheckPartition = Callable[[str, bytes, int], None]
"""``check(topic, topic id, partition)`` raises StaleMemberEpoch or IllegalGeneration."""

class Subscription(NamedTuple):
    """What a member reads: topics, and those that match ``regex``, "" where there is none."""

    topics: frozenset[str]
    regex: str = ""


RetentionStart = Callable[[CommittedOffset], int]
"""From when the retention of an offset counts, in milliseconds by the wall clock."""


class Group(Protocol):
    """One group."""

    id: str

    @property
    def kind(self) -> str:
        """CLASSIC or CONSUMER_KIND: the ``group_type`` of ListGroups."""
        ...

    @property
    def is_empty(self) -> bool:
        """No members, not deleted."""
        ...

    @property
    def may_go(self) -> bool:
        """Whether the group is empty and not expected to return, so that it is removed with its last offset."""
        ...

    def may_commit(self, commit: Commit, result: Result) -> CheckPartition | None:
        """Whether the offsets may be committed; a check for each partition where that depends.

        What a commit does to the member's session happens here. Raises UnknownMemberId,
        FencedInstanceId, IllegalGeneration, StaleMemberEpoch, RebalanceInProgress,
        CoordinatorNotAvailable, UnsupportedVersion; for a transactional commit StaleMemberEpoch
        becomes IllegalGeneration at the caller.
        """
        ...

    def may_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Checks an OffsetFetch 9; None and -1 stand for a client that is no member. Raises UnknownMemberId,
        StaleMemberEpoch, IllegalGeneration, and GroupIdNotFound if there is nothing to fetch.
        """
        ...

    def check_offsets_deletable(self) -> None:
        """OffsetDelete. Raises NonEmptyGroup, GroupIdNotFound."""
        ...

    def check_deletable(self) -> None:
        """DeleteGroups. Raises NonEmptyGroup, GroupIdNotFound."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read the topic: its offsets neither expire nor may be deleted."""
        ...

    def retention_start(self) -> RetentionStart | None:
        """None where no offset of the group expires now."""
        ...

    def tombstones(self) -> list[Record]:
        """The records that delete the group, without its offsets."""
        ...

    def described(self) -> DescribeGroups.Response.DescribedGroup:
        """DescribeGroups. Raises GroupIdNotFound where that API does not show such groups."""
        ...

    def listed(self) -> ListGroups.Response.ListedGroup:
        """ListGroups."""
        ...

    def member_subscriptions(self) -> Iterator[tuple[str, Subscription | bytes]]:
        """Each member's id and what it reads, or the bytes (``subscribed_topics``) in which it said so."""
        ...

    def resume(self, result: Result) -> None:
        """The log has been loaded: sessions begin."""
        ...

    def die(self) -> None:
        """The group is gone, or another kind takes its place: nothing of it fires any more."""
        ...
