"""What an assignor is, and the information about a group that it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pyclient.topic_partition import TopicPartition


class Member(NamedTuple):
    """A member: its topics, the partitions that it owns, and the generation of that assignment."""

    id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    user_data: bytes = b""
    rack: str | None = None

    @property
    def rank(self) -> tuple[bool, str]:
        """The member's place in the order: static members first, by instance id, then others by member id."""
        return self.instance_id is None, self.instance_id or self.id


class Claim(NamedTuple):
    """The partitions that a member claims to have had, and in which generation (None if it does not say)."""

    partitions: Sequence[TopicPartition]
    generation: int | None


Assignment = dict[str, list[TopicPartition]]
PartitionRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks in which a partition has replicas, if known."""
NO_RACKS: Final[PartitionRacks] = {}
Assign = Callable[[Mapping[str, int], Sequence[Member], PartitionRacks], Assignment]


class Assignor(NamedTuple):
    """``assign(number of partitions by topic, members, racks of partitions)`` returns each member's partitions.

    With ``cooperative``, members keep what they own until it is revoked (KIP-429). ``user_data(owned, generation)``
    returns the data that a member sends to this assignor.
    """

    name: str
    assign: Assign
    cooperative: bool = False
    user_data: Callable[[Sequence[TopicPartition], int], bytes] | None = None
