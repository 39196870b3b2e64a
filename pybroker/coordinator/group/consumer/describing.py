"""Consumer groups in ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import NO_TARGET, ConsumerMember
from pyclient.protocol import ConsumerGroupDescribe

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup) -> ConsumerGroupDescribe.Response.DescribedGroup:
    """Describes the group, its epochs and its members."""
    image = group.context.topics.image
    return ConsumerGroupDescribe.Response.DescribedGroup(
        group_id=group.id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(),
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(
    group: ConsumerGroup, member: ConsumerMember, image: MetadataImage
) -> ConsumerGroupDescribe.Response.Member:
    has: dict[bytes, set[int]] = {}
    for owned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in owned.items():
            has.setdefault(topic_id, set()).update(partitions)
    return ConsumerGroupDescribe.Response.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(has, image),
        target_assignment=_assignment(group.targets.get(member.id, NO_TARGET), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], image: MetadataImage
) -> ConsumerGroupDescribe.Response.Assignment:
    """Returns the partitions with topic names, without deleted topics."""
    part = ConsumerGroupDescribe.Response.TopicPartitions
    return ConsumerGroupDescribe.Response.Assignment(
        topic_partitions=[
            part(topic_id=topic_id, topic_name=topic.name, partitions=sorted(each))
            for topic_id, each in partitions.items()
            if (topic := image.topic_by_id(topic_id)) is not None
        ]
    )
