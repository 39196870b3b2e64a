"""The input of an assignor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""The partitions by topic id."""


class MemberSpec(NamedTuple):
    """A member: its topics (which all exist) and its previous target assignment."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group. ``members`` has a ``MemberSpec`` for each member id."""

    members: Mapping[str, MemberSpec]
    alike: bool
    """True if all members read the same topics."""
    partition_counts: Mapping[bytes, int]
    """The number of partitions of each subscribed topic."""
