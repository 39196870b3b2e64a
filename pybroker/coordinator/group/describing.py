"""Groups in DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pybroker.coordinator.group.group import CLASSIC
from pybroker.coordinator.group.members import Members
from pybroker.coordinator.group.state import STABLE, GroupState
from pyclient.protocol import DescribeGroups, ListGroups

Listed = ListGroups.Response.ListedGroup


class DescribedGroup(Protocol):
    """The part of a group that a description needs."""

    id: str
    state: GroupState
    protocol_type: str | None
    protocol: str | None
    members: Members


def describe(group: DescribedGroup) -> DescribeGroups.Response.DescribedGroup:
    """Describes the group and its members. Their metadata is included only while the group is stable."""
    stable = group.state is STABLE
    return DescribeGroups.Response.DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribeGroups.Response.DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )


def listed(group: DescribedGroup) -> ListGroups.Response.ListedGroup:
    """Returns the group's row of ListGroups."""
    return ListGroups.Response.ListedGroup(
        group_id=group.id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )


def matcher(states: frozenset[str], types: frozenset[str]) -> Callable[[Listed], bool]:
    """Returns a filter for groups of these states and types, in lower case; empty sets match all."""
    return lambda group: (not types or group.group_type.lower() in types) and (
        not states or group.group_state.lower() in states
    )
