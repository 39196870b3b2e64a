"""Describes groups at a coordinator: those of KIP-848 by ConsumerGroupDescribe, the others by DescribeGroups.

DescribeGroups returns the members' assignments as bytes of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cy.wire.buffer import DecodeError
from pyclient.admin.types import GroupDescription, MemberDescription
from pyclient.core.client import Client
from pyclient.errors import KafkaError, UnsupportedByBroker, of_code
from pyclient.protocol import ConsumerGroupDescribe, DescribeGroups
from pyclient.protocol.errors import GroupIdNotFound
from pyclient.protocol.records import ConsumerProtocolAssignment
from pyclient.topic_partition import TopicPartition

Described = dict[str, GroupDescription | KafkaError]
_NOT_NEW = frozenset({"GROUP_ID_NOT_FOUND", "UNSUPPORTED_VERSION"})


async def describe_consumer(client: Client, node: int, groups: list[str]) -> Described:
    """Describes those groups that use the consumer protocol. Leaves out groups that do not, according to the broker."""
    message = ConsumerGroupDescribe.Request(group_ids=groups)
    try:
        response = await client.send(node, ConsumerGroupDescribe, message)
    except UnsupportedByBroker:
        return {}
    rows = {row.group_id: (row, of_code(row.error_code, row.error_message)) for row in response.groups}
    return {
        group: error or _consumer(row, node)
        for group, (row, error) in rows.items()
        if error is None or error.name not in _NOT_NEW
    }


async def describe_classic(client: Client, node: int, groups: list[str]) -> Described:
    """Describes classic groups. A group that does not exist gets GroupIdNotFound."""
    response = await client.send(node, DescribeGroups, DescribeGroups.Request(groups=groups))
    return {row.group_id: _outcome(row, node) for row in response.groups}


def _outcome(
    row: DescribeGroups.Response.DescribedGroup, node: int
) -> GroupDescription | KafkaError:
    error = of_code(row.error_code, row.error_message)
    if error is None and row.group_state == "Dead":  # before version 6
        return GroupIdNotFound(f"group {row.group_id} does not exist")
    return error or _classic(row, node)


def _classic(row: DescribeGroups.Response.DescribedGroup, node: int) -> GroupDescription:
    return GroupDescription(
        row.group_id,
        "Classic",
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        node,
        tuple(_classic_member(each, row.protocol_type) for each in row.members),
    )


def _classic_member(
    row: DescribeGroups.Response.DescribedGroupMember, protocol_type: str
) -> MemberDescription:
    readable = protocol_type == "consumer"
    return MemberDescription(
        row.member_id,
        row.group_instance_id,
        row.client_id,
        row.client_host,
        _assignment(bytes(row.member_assignment)) if readable else (),
    )


def _assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Returns the partitions in the bytes, none if the client wrote another format."""
    if not data:
        return ()
    try:
        decoded = ConsumerProtocolAssignment.decode(data)
    except DecodeError:
        return ()
    return _partitions((each.topic, each.partitions) for each in decoded.assigned_partitions)


def _consumer(row: ConsumerGroupDescribe.Response.DescribedGroup, node: int) -> GroupDescription:
    return GroupDescription(
        row.group_id,
        "Consumer",
        row.group_state,
        "consumer",
        row.assignor_name,
        node,
        tuple(map(_consumer_member, row.members)),
        row.group_epoch,
        row.assignment_epoch,
    )


def _consumer_member(row: ConsumerGroupDescribe.Response.Member) -> MemberDescription:
    return MemberDescription(
        row.member_id,
        row.instance_id,
        row.client_id,
        row.client_host,
        _assigned(row.assignment),
        _assigned(row.target_assignment),
        row.member_epoch,
        row.rack_id,
    )


def _assigned(assignment: Any) -> tuple[TopicPartition, ...]:
    return _partitions((each.topic_name, each.partitions) for each in assignment.topic_partitions)


def _partitions(rows: Iterable[tuple[str, list[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, numbers in rows for number in numbers)
