"""What an assignor knows of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id → partitions."""


class MemberSpec(NamedTuple):
    """A member: its topics, all of which exist, and what it was to have so far."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group."""

    members: Mapping[str, MemberSpec]
    alike: bool
    """All members read the same topics."""
    partition_counts: Mapping[bytes, int]
    """The number of partitions of each subscribed topic."""
