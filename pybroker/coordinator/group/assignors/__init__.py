"""Server-side assignors (KIP-848): they assign the partitions of a consumer group to its members.

An assignor is a function of a ``GroupSpec``, and deterministic. It assigns every partition of a subscribed topic to one
member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pybroker.coordinator.group.assignors import range as range_assignor
from pybroker.coordinator.group.assignors import uniform
from pybroker.coordinator.group.assignors.spec import GroupSpec, Partitions

Assignor = Callable[[GroupSpec], dict[str, Partitions]]
"""The partitions of each member, by topic id. Members without partitions may be missing."""

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "uniform": uniform.assign,
    "range": range_assignor.assign,
}
