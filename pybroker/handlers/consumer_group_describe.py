"""ConsumerGroupDescribe (69): describes groups of the new consumer protocol (KIP-848). Version 1 shows which protocol a
member speaks (KIP-1099)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.handlers.common.call import Call
from pybroker.handlers.common.pacing import one_by_one
from pybroker.handlers.common.security import authorized_operations
from pybroker.handlers.common.security.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC, check_all, may
from pyclient.protocol import ConsumerGroupDescribe, errors

if TYPE_CHECKING:
    Described = ConsumerGroupDescribe.Response.DescribedGroup


async def handle(
    request: ConsumerGroupDescribe.Request, call: Call
) -> ConsumerGroupDescribe.Response:
    """Answers with the groups, in the order of the request; GROUP_ID_NOT_FOUND for classic groups.

    A repeated group is answered once, because it may be long.
    """
    groups = dict.fromkeys(request.group_ids)
    described = await one_by_one(groups, lambda group_id: _describe(group_id, request, call), call)
    return ConsumerGroupDescribe.Response(groups=described)


async def _describe(
    group_id: str, request: ConsumerGroupDescribe.Request, call: Call
) -> Described:
    if not may(call, DESCRIBE_GROUP, group_id):
        return _refused(group_id, errors.GroupAuthorizationFailed())
    found: Described = await call.broker.groups.consumers.describe(group_id)
    try:
        if call.broker.authorizer is not None:
            await check_all(call, DESCRIBE_TOPIC, _topics(found))
    except errors.TopicAuthorizationFailed as error:
        return _refused(group_id, error)
    if request.include_authorized_operations and found.error_code == errors.NONE:
        found.authorized_operations = authorized_operations.of_group(call, group_id)
    return found


def _topics(group: Described) -> set[str]:
    """Returns the topics of the members' current and target assignments."""
    assignments = (each for member in group.members for each in (member.assignment, member.target_assignment))
    return {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}


def _refused(group_id: str, error: errors.KafkaError) -> Described:
    return ConsumerGroupDescribe.Response.DescribedGroup(
        group_id=group_id, error_code=error.code, error_message=str(error)
    )
