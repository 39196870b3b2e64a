"""Consumer groups of a shard: requests of the new protocol, and their records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from cy.wire.buffer import DecodeError
from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer import describing, heartbeating, leaving, records
from pybroker.coordinator.group.consumer.context import ConsumerContext, ConsumerFacts
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import JOIN, LEAVE, LEAVE_STATIC
from pybroker.coordinator.group.consumer.migration import upgrading
from pybroker.coordinator.group.consumer.subscriptions import regexes
from pybroker.coordinator.group.consumer.subscriptions.resolved import Resolved
from pybroker.coordinator.group.group import Group
from pybroker.coordinator.group.joining import Caller
from pybroker.coordinator.shard import Event, Record, Result
from pybroker.coordinator.timer_wheel import TimerWheel
from pyclient.protocol import ConsumerGroupHeartbeat, errors
from pyclient.protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

logger = logging.getLogger(__name__)


class ConsumerProtocol:
    """The consumer groups of a shard.

    ``groups`` are the shard's groups of both kinds; ``forget`` removes a deleted one from them. ``ConsumerContext``
    describes the other arguments.
    """

    def __init__(
        self,
        facts: ConsumerFacts,
        groups: dict[str, Group],
        timers: TimerWheel[Event],
        new_id: Callable[[], str],
        new_classic: Callable[[str], ClassicGroup],
        forget: Callable[[Group], None],
    ) -> None:
        self.context = ConsumerContext(facts, groups, timers, new_id, new_classic, self._put_out)
        self._groups = groups
        self._doubtful: set[str] = set()
        self._forget = forget

    # Requests

    def heartbeat(
        self, request: ConsumerGroupHeartbeat.Request, caller: Caller, result: Result
    ) -> None:
        """Handles a ConsumerGroupHeartbeat that has passed ``heartbeating.check``.

        Raises GroupIdNotFound, and the errors of ``heartbeating.beat`` and ``leaving.leave``.
        """
        group = self._groups.get(request.group_id)
        if request.member_epoch in (LEAVE, LEAVE_STATIC):
            leaving.leave(self.existing(request.group_id), request, result)
            return
        if isinstance(group, ConsumerGroup):
            heartbeating.beat(group, request, caller, result)
            return
        joins = request.member_epoch == JOIN
        upgraded = upgrading.consumer_group(self.context, request.group_id, joins, result)
        heartbeating.beat(upgraded, request, caller, result)
        if isinstance(group, ClassicGroup):
            upgrading.take_over(group, upgraded, request.instance_id, result)

    def existing(self, group_id: str) -> ConsumerGroup:
        """Returns the consumer group. Raises GroupIdNotFound."""
        group = self._groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return group

    def describe(self, group_id: str, result: Result) -> None:
        """Describes one group for ConsumerGroupDescribe. Raises GroupIdNotFound."""
        result.reads = True
        result.answer(describing.describe(self.existing(group_id)))

    def resolved(
        self, group_id: str, found: Mapping[str, Resolved] | None, result: Result
    ) -> None:
        """Handles the result of a ``regexes.Resolve``; ``found`` is None if the lookup has failed."""
        self.context.resolving.discard(group_id)
        group = self._groups.get(group_id)
        if found is not None and isinstance(group, ConsumerGroup):
            regexes.resolved(group, found, result)

    def _put_out(
        self, group_id: str, member_id: str, epoch: int | None, why: str, result: Result
    ) -> None:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        member = group.members.get(member_id)
        if member is not None and epoch in (None, member.epoch):
            logger.info("group %s: member %s is evicted: %s", group_id, member_id, why)
            leaving.fence(group, [member], result)

    # The log

    def replay(self, kind: int, record: Record) -> None:
        """Replays a record of one of ``records.TYPES``. Raises DecodeError."""
        try:
            _REPLAY[kind](self, record.key, record.value)
        except DecodeError:
            self._doubtful.add(_KEYS[kind].decode(record.key).group_id)
            raise

    def loaded(self, result: Result) -> None:
        """Evicts the members of groups with unreadable records, so that they join again and report their subscriptions.
        """
        doubtful, self._doubtful = self._doubtful, set()
        for group_id in doubtful:
            group = self._groups.get(group_id)
            if isinstance(group, ConsumerGroup) and group.members:
                logger.error("group %s: a record cannot be read, so its members must join again", group_id)
                leaving.fence(group, list(group.members.values()), result)

    def _of(self, group_id: str, value: bytes | None) -> ConsumerGroup | None:
        """Returns the group of a record; makes it if the record has a value."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if value is None:
            return None
        if group is not None:
            group.die()
        made = self._groups[group_id] = ConsumerGroup(group_id, self.context)
        return made

    def _group(self, key: bytes, value: bytes | None) -> None:
        group_id = ConsumerGroupMetadataKey.decode(key).group_id
        message = None if value is None else ConsumerGroupMetadataValue.decode(value)
        group = self._of(group_id, value)
        if message is None:
            self.context.resolved_at.pop(group_id, None)
        if group is None:
            return
        if message is None:
            self._forget(group)
        else:
            group.replay_group(message.epoch, message.metadata_hash)

    def _partition_metadata(self, key: bytes, value: bytes | None) -> None:
        group = self._of(ConsumerGroupPartitionMetadataKey.decode(key).group_id, value)
        if group is not None:
            group.has_partition_metadata = value is not None

    def _member(self, key: bytes, value: bytes | None) -> None:
        names = ConsumerGroupMemberMetadataKey.decode(key)
        message = None if value is None else ConsumerGroupMemberMetadataValue.decode(value)
        group = self._of(names.group_id, value)
        if group is None:
            return
        if message is None:
            group.remove(names.member_id)
        else:
            group.replay_member(names.member_id, message)

    def _target_epoch(self, key: bytes, value: bytes | None) -> None:
        group_id = ConsumerGroupTargetAssignmentMetadataKey.decode(key).group_id
        message = None if value is None else ConsumerGroupTargetAssignmentMetadataValue.decode(value)
        group = self._of(group_id, value)
        if group is None:
            return
        if message is None:
            group.replay_target_epoch(-1, 0)
        else:
            group.replay_target_epoch(message.assignment_epoch, message.assignment_timestamp)

    def _target(self, key: bytes, value: bytes | None) -> None:
        names = ConsumerGroupTargetAssignmentMemberKey.decode(key)
        target = None if value is None else records.read_target(value)
        group = self._of(names.group_id, value)
        if group is not None:
            group.replay_target(names.member_id, target)

    def _current(self, key: bytes, value: bytes | None) -> None:
        names = ConsumerGroupCurrentMemberAssignmentKey.decode(key)
        message = None if value is None else ConsumerGroupCurrentMemberAssignmentValue.decode(value)
        group = self._of(names.group_id, value)
        if group is not None:
            group.replay_current(names.member_id, message)

    def _regex(self, key: bytes, value: bytes | None) -> None:
        names = ConsumerGroupRegularExpressionKey.decode(key)
        found = None
        if value is not None:
            message = ConsumerGroupRegularExpressionValue.decode(value)
            found = Resolved(frozenset(message.topics), message.version, message.timestamp)
        group = self._of(names.group_id, value)
        if group is None:
            return
        group.replay_regex(names.regular_expression, found)

    # Change of protocol

    def take_downgraded(self, group_id: str) -> ClassicGroup | None:
        """Returns the classic group prepared for the record that is being replayed, if any."""
        return self.context.downgraded.pop(group_id, None)


_KEYS: dict[int, Any] = {
    records.GROUP: ConsumerGroupMetadataKey,
    records.PARTITION_METADATA: ConsumerGroupPartitionMetadataKey,
    records.MEMBER: ConsumerGroupMemberMetadataKey,
    records.TARGET_EPOCH: ConsumerGroupTargetAssignmentMetadataKey,
    records.TARGET: ConsumerGroupTargetAssignmentMemberKey,
    records.CURRENT: ConsumerGroupCurrentMemberAssignmentKey,
    records.REGEX: ConsumerGroupRegularExpressionKey,
}
_REPLAY = {
    records.GROUP: ConsumerProtocol._group,
    records.PARTITION_METADATA: ConsumerProtocol._partition_metadata,
    records.MEMBER: ConsumerProtocol._member,
    records.TARGET_EPOCH: ConsumerProtocol._target_epoch,
    records.TARGET: ConsumerProtocol._target,
    records.CURRENT: ConsumerProtocol._current,
    records.REGEX: ConsumerProtocol._regex,
}
