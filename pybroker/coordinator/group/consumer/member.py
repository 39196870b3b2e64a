"""A member of a consumer group: what it has reported, and its assignment.

A member is an immutable value. A change makes a new value, which the group takes over when its record is replayed.

*Owned* partitions have the epoch in which the member got them: a commit with an earlier epoch is from the time of
another owner (KIP-1251). A *static* member that is temporarily away has the epoch LEAVE_STATIC. A member of the classic
protocol has ``classic``; its epochs are its generations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from pybroker.coordinator.group.members import BYTES_OF_A_MEMBER, Protocols

JOIN: Final = 0
LEAVE: Final = -1
LEAVE_STATIC: Final = -2

Owned = Mapping[bytes, Mapping[int, int]]
"""Topic id → partition → the epoch in which it was assigned."""

Target = Mapping[bytes, frozenset[int]]
"""The partitions by topic id."""

NOTHING: Final[Mapping[bytes, Mapping[int, int]]] = MappingProxyType({})
NO_PARTITIONS: Final[Mapping[int, int]] = MappingProxyType({})
NO_TARGET: Final[Mapping[bytes, frozenset[int]]] = MappingProxyType({})


def _nothing() -> Owned:
    return NOTHING


class MemberState(IntEnum):
    """How far a member has reached its target. The number is the one in the record."""

    STABLE = 0
    """The member has the assignment of its epoch."""
    UNREVOKED = 1
    """The member must revoke partitions before it may enter the next epoch."""
    UNRELEASED = 2
    """The member has entered the epoch, and waits for partitions that other members have not revoked yet."""
    UNKNOWN = 127
    """The state was written by a later version."""


class ClassicFacts(NamedTuple):
    """What a member has reported in the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member. ``regex`` is "" if it subscribes only to names."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Owned = field(default_factory=_nothing)
    pending_revocation: Owned = field(default_factory=_nothing)
    classic: ClassicFacts | None = None

    @property
    def size(self) -> int:
        """The number of bytes that the member has reported, roughly."""
        names = (self.id, self.client_id, self.instance_id or "", self.rack_id or "", self.regex)
        said = sum(map(len, names)) + sum(map(len, self.topics))
        protocols = () if self.classic is None else self.classic.protocols
        return BYTES_OF_A_MEMBER + said + sum(len(name) + len(metadata) for name, metadata in protocols)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Returns whether the member has the target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Returns the epoch in which the member got the partition, None if the member does not have it."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
