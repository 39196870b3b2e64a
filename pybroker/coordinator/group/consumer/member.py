"""A member of a consumer group: what it has said, and what it has.

A member is a value. What changes makes another value, which becomes the group's by the record that
was written of it.

*Owned* partitions stand with the epoch in which the member got them: a commit of an earlier epoch
comes from another owner's time (KIP-1251). A *static* member that has gone for a moment stays with
the epoch LEAVE_STATIC. A member that speaks the classic protocol has ``classic``: it sees its epochs as generations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from pybroker.coordinator.group.members import Protocols

JOIN: Final = 0
LEAVE: Final = -1
LEAVE_STATIC: Final = -2

Owned = Mapping[bytes, Mapping[int, int]]
"""Topic id → partition → the epoch in which it was assigned."""

Target = Mapping[bytes, frozenset[int]]
"""Topic id → partitions."""

NOTHING: Final[Mapping[bytes, Mapping[int, int]]] = MappingProxyType({})
NO_PARTITIONS: Final[Mapping[int, int]] = MappingProxyType({})
NO_TARGET: Final[Mapping[bytes, frozenset[int]]] = MappingProxyType({})


def _nothing() -> Owned:
    return NOTHING


class MemberState(IntEnum):
    """Where a member stands on its way to the target; the number is the record's."""

    STABLE = 0
    """It has what its epoch gives it."""
    UNREVOKED = 1
    """It has to give partitions back before it may enter the next epoch."""
    UNRELEASED = 2
    """It has entered the epoch, and waits for partitions that others have not given back yet."""
    UNKNOWN = 127
    """Written by a later version."""


class ClassicFacts(NamedTuple):
    """What a member has said in the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member; ``regex`` is "" where it subscribes to names alone."""

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

    def is_reconciled_to(self, epoch: int) -> bool:
        """It has what the target assignment of that epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which it got the partition, None where it does not have it."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
