"""Responses to JoinGroup: refusals, and the list of members that the leader gets."""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.coordinator.group.members import Member
from pyclient.protocol import JoinGroup
from pyclient.protocol.errors import KafkaError

JoinedMember = JoinGroup.Response.JoinGroupResponseMember


def refusal(error: KafkaError | type[KafkaError], member_id: str) -> JoinGroup.Response:
    """Returns a JoinGroup response with an error."""
    return JoinGroup.Response(error_code=error.code, member_id=member_id, protocol_name=None)


def joined_members(members: Iterable[Member], protocol: str | None) -> list[JoinedMember]:
    """Returns the members of a generation with their metadata for this protocol, from which the leader assigns."""
    return [
        JoinGroup.Response.JoinGroupResponseMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(protocol),
        )
        for member in members
    ]
