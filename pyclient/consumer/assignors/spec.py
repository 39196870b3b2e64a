"""What an assignor knows of a group, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pyclient.topic_partition import TopicPartition


class Member(NamedTuple):
    """A member: its topics, what it owns and since which generation."""

    id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    user_data: bytes = b""
    rack: str | None = None

    @property
    def rank(self) -> tuple[bool, str]:
        """Static members first, by instance id; then by member id."""
        return self.instance_id is None, self.instance_id or self.id


class Claim(NamedTuple):
    """What a member says that it had, and as of which generation (None: it does not say)."""

    partitions: Sequence[TopicPartition]
    generation: int | None


Assignment = dict[str, list[TopicPartition]]
PartitionRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks in which a partition has replicas, as far as they are known."""
NO_RACKS: Final[PartitionRacks] = {}
Assign = Callable[[Mapping[str, int], Sequence[Member], PartitionRacks], Assignment]


class Assignor(NamedTuple):
    """``assign(number of partitions by topic, members, racks of partitions)`` gives each member its partitions.

    ``cooperative``: members keep what they own until it is taken from them (KIP-429).
    ``user_data(owned, generation)``: what a member sends for it.
    """

    name: str
    assign: Assign
    cooperative: bool = False
    user_data: Callable[[Sequence[TopicPartition], int], bytes] | None = None
