"""The groups of one partition of ``__consumer_offsets``.

Requests that change a group go to ``joining`` and ``syncing``; here are those about offsets and
about whole groups, what time does to them, and ``replay``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pybroker.coordinator.group import describing, joining, records, syncing
from pybroker.coordinator.group.classic import NO_TIMESTAMP, ClassicGroup, GroupContext
from pybroker.coordinator.group.joining import Caller, Join
from pybroker.coordinator.group.offsets import NEVER_MS, CommittedOffset, Offsets
from pybroker.coordinator.group.records import no_group_record, no_offset_record
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.state import DEAD, EMPTY, PREPARING, STABLE
from pybroker.coordinator.shard import Event, Producer, Record, Result
from pybroker.coordinator.timer_wheel import TimerWheel
from pyclient.protocol import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    SyncGroup,
    errors,
)
from pyclient.protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)

CLEAN_AT_ONCE = 1_000
"""Offsets that are forgotten in one event; the rest follow in the next ones."""

_PAUSE_MS = 1_000
_FIRST_WITH_GROUP_ID_NOT_FOUND = 9


class GroupShard:
    """State machine of one partition: see ``coordinator.shard`` for the rules."""

    unordered = frozenset({b"\0\0", b"\0\1"})

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self.timers: TimerWheel[Event] = TimerWheel()
        self.groups: dict[str, ClassicGroup] = {}
        self._context = GroupContext(settings, self.timers, new_id)
        self._lives = False

    # The log

    def replay_marker(self, producer: Producer, committed: bool) -> None:
        """Pending offsets of the producer are committed, or forgotten."""

    def replay(self, record: Record, producer: Producer | None) -> None:
        """Takes over an offset's or a group's record; other types are not ours to read."""
        kind = records.record_type(record.key)
        if kind in records.OFFSET_TYPES:
            self._replay_offset(OffsetCommitKey.decode(record.key), record.value)
        elif kind == records.GROUP_TYPE:
            self._replay_group(GroupMetadataKey.decode(record.key).group, record.value)

    def _replay_offset(self, key: OffsetCommitKey, value: bytes | None) -> None:
        if value is not None:
            offsets = self._group_or_new(key.group).offsets
            offsets.set(key.topic, key.partition, records.read_offset(value))
        elif key.group in self.groups:
            self.groups[key.group].offsets.remove(key.topic, key.partition)

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        if value is not None:
            message = GroupMetadataValue.decode(value)
            group = self._group_or_new(group_id)
            if self._lives:
                group.accept(message)
            else:
                group.restore(message)
        elif group_id in self.groups:
            self._forget(self.groups.pop(group_id))

    def _forget(self, group: ClassicGroup) -> None:
        """The group has been deleted; offsets that have outlived it make a simple one."""
        group.die()
        if group.offsets:
            self._group_or_new(group.id).offsets = group.offsets

    def _group_or_new(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self._context)
        return group

    def loaded(self, result: Result) -> None:
        """Sessions begin, and the looking for expired offsets."""
        self._lives = True
        for group in list(self.groups.values()):
            group.resume(result)
        self._clean_in(self.settings.offsets_check_interval_ms, result)

    # Members

    def join(self, request: JoinGroup.Request, caller: Caller, result: Result) -> None:
        """JoinGroup: a ``JoinGroup.Response``, or what ``joining.join`` raises."""
        low, high = self.settings.min_session_timeout_ms, self.settings.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise errors.InvalidSessionTimeout(
                f"session timeout {request.session_timeout_ms} is not within {low}…{high} ms"
            )
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise errors.UnknownMemberId(f"group {request.group_id} has no members")
            group = self._group_or_new(request.group_id)
            group.since_ms = result.now.wall_ms
        joining.join(group, Join(request, caller), result)

    def sync(self, request: SyncGroup.Request, result: Result) -> None:
        """SyncGroup: a ``SyncGroup.Response``, or what ``syncing.sync`` raises."""
        syncing.sync(self._with_members(request.group_id), request, result)

    def heartbeat(self, request: Heartbeat.Request, result: Result) -> None:
        """Heartbeat: a ``Heartbeat.Response``, or what ``syncing.heartbeat`` raises."""
        syncing.heartbeat(self._with_members(request.group_id), request, result)
        result.answer(Heartbeat.Response())

    def leave(
        self,
        group_id: str,
        members: list[LeaveGroup.Request.MemberIdentity],
        result: Result,
    ) -> None:
        """LeaveGroup: an outcome for each member, or UnknownMemberId where there is no group."""
        group = self._with_members(group_id)
        result.answer(syncing.leave(group, members, result))

    def _with_members(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise errors.UnknownMemberId(f"group {group_id} has no members")
        return group

    # Offsets

    def commit(self, request: OffsetCommit.Request, version: int, result: Result) -> None:
        """OffsetCommit: an ``OffsetCommit.Response`` with the outcome of each partition.

        Raises IllegalGeneration, GroupIdNotFound, UnknownMemberId, FencedInstanceId,
        RebalanceInProgress.
        """
        group = self._may_commit(request, version)
        member = group.members.get(request.member_id)
        if member is not None and group.state in (STABLE, PREPARING):
            group.touch(member, result)
        topics = [self._commit_topic(group, topic, request, result) for topic in request.topics]
        result.atomic = False
        result.answer(OffsetCommit.Response(topics=topics))

    def _may_commit(self, request: OffsetCommit.Request, version: int) -> ClassicGroup:
        """The group; a new simple one for whoever commits without being a member."""
        generation = request.generation_id_or_member_epoch
        group = self.groups.get(request.group_id)
        if group is None:
            if generation < 0:
                return ClassicGroup(request.group_id, self._context)
            if version >= _FIRST_WITH_GROUP_ID_NOT_FOUND:
                raise errors.GroupIdNotFound(f"no group {request.group_id}")
            raise errors.IllegalGeneration(f"no group {request.group_id}")
        group.check_alive()
        if generation < 0 and group.state is EMPTY:
            return group
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            raise errors.UnknownMemberId(f"group {group.id} has members: only they may commit")
        group.members.known(request.member_id, request.group_instance_id)
        group.check_generation(generation)
        if group.state not in (STABLE, PREPARING, EMPTY):
            raise errors.RebalanceInProgress
        return group

    def _commit_topic(
        self,
        group: ClassicGroup,
        topic: OffsetCommit.Request.OffsetCommitRequestTopic,
        request: OffsetCommit.Request,
        result: Result,
    ) -> OffsetCommit.Response.OffsetCommitResponseTopic:
        outcome = OffsetCommit.Response.OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id
        )
        now_ms = result.now.wall_ms
        kept_ms = request.retention_time_ms
        expires_ms = NEVER_MS if kept_ms < 0 else now_ms + kept_ms
        for asked in topic.partitions:
            code = errors.NONE
            metadata = asked.committed_metadata or ""
            if _java_length(metadata) > self.settings.max_offset_metadata:
                code = errors.OffsetMetadataTooLarge.code
            else:
                committed = CommittedOffset(
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    metadata,
                    now_ms,
                    expires_ms,
                    topic.topic_id,
                )
                index = asked.partition_index
                result.write(records.offset_record(group.id, topic.name, index, committed))
            outcome.partitions.append(
                OffsetCommit.Response.OffsetCommitResponsePartition(
                    partition_index=asked.partition_index, error_code=code
                )
            )
        return outcome

    def committed(
        self,
        group_id: str,
        wanted: Iterable[tuple[str, list[int]]] | None,
        result: Result,
    ) -> None:
        """OffsetFetch: the offsets by topic and partition, those that are not committed as NONE.

        ``wanted`` None: all that there are.
        """
        group = self.groups.get(group_id)
        result.reads = True
        if wanted is None:
            topics = {} if group is None else group.offsets.topics()
            result.answer([(topic, dict(found)) for topic, found in topics.items()])
            return
        offsets = Offsets() if group is None else group.offsets
        found = [
            (topic, {index: offsets.get(topic, index) for index in partitions})
            for topic, partitions in wanted
        ]
        result.answer(found)

    def delete_offsets(self, request: OffsetDelete.Request, result: Result) -> None:
        """OffsetDelete: an ``OffsetDelete.Response``. Raises GroupIdNotFound, NonEmptyGroup."""
        group = self._existing(request.group_id)
        if group.state is not EMPTY and not group.has_consumers:
            raise errors.NonEmptyGroup(f"group {group.id} has members")
        response = OffsetDelete.Response()
        for topic in request.topics:
            subscribed = group.is_subscribed(topic.name)
            code = errors.GroupSubscribedToTopic.code if subscribed else errors.NONE
            outcome = OffsetDelete.Response.OffsetDeleteResponseTopic(name=topic.name)
            for asked in topic.partitions:
                index = asked.partition_index
                outcome.partitions.append(
                    OffsetDelete.Response.OffsetDeleteResponsePartition(
                        partition_index=index, error_code=code
                    )
                )
                if not subscribed and index in group.offsets.topics().get(topic.name, {}):
                    result.write(no_offset_record(group.id, topic.name, index))
            response.topics.append(outcome)
        result.atomic = False
        result.answer(response)

    def forget_topics(self, names: Iterable[str], result: Result) -> None:
        """The topics have been deleted: nothing is committed for them any more."""
        for group in self.groups.values():
            for name in names:
                for index in group.offsets.topics().get(name, ()):
                    result.write(no_offset_record(group.id, name, index))
        result.atomic = False
        result.answer(None)

    # Whole groups

    def _existing(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None or group.state is DEAD:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def describe(self, group_id: str, result: Result) -> None:
        """DescribeGroups: a ``DescribedGroup``. Raises GroupIdNotFound."""
        result.answer(describing.describe(self._existing(group_id)))

    def list_groups(self, states: frozenset[str], types: frozenset[str], result: Result) -> None:
        """ListGroups: a list of ``ListedGroup``; states and types in lower case, none for all."""
        matches = describing.matcher(states, types)
        result.answer([describing.listed(g) for g in self.groups.values() if matches(g)])

    def delete_group(self, group_id: str, result: Result) -> None:
        """DeleteGroups, one of them: None. Raises GroupIdNotFound, NonEmptyGroup."""
        group = self._existing(group_id)
        if group.state is not EMPTY:
            raise errors.NonEmptyGroup(f"group {group_id} has members")
        for topic, partition, _ in group.offsets:
            result.write(no_offset_record(group_id, topic, partition))
        result.write(no_group_record(group_id))
        result.atomic = False
        result.answer(None)

    # Time

    def _clean_in(self, delay_ms: int, result: Result) -> None:
        self.timers.schedule(result.now.monotonic_ms + delay_ms, self._clean)

    def _clean(self, result: Result) -> None:
        """Forgets offsets that have been kept long enough, and empty groups without offsets."""
        result.atomic = False
        delay_ms = self.settings.offsets_check_interval_ms
        for group in self.groups.values():
            result.write(*self._outlived(group, result.now.wall_ms))
            if len(result.records) >= CLEAN_AT_ONCE:
                delay_ms = min(delay_ms, _PAUSE_MS)
                break
        self._clean_in(delay_ms, result)

    def _outlived(self, group: ClassicGroup, now_ms: int) -> Iterator[Record]:
        since_ms = _retention_start(group)
        count = 0
        if since_ms is not None:
            retention_ms = self.settings.offsets_retention_ms
            for topic, partition in group.offsets.expired(
                now_ms, retention_ms, since_ms, group.is_subscribed
            ):
                count += 1
                yield no_offset_record(group.id, topic, partition)
        if group.state is EMPTY and not group.pending and count == group.offsets.count:
            yield no_group_record(group.id)


def _retention_start(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """From when the retention of the group's offsets counts; None where they are all in use.

    A group with members keeps the offsets of topics that they read, an empty one all of them from
    the moment it became empty (KIP-211). Offsets without a group count from their commit.
    """
    since_ms = group.since_ms
    if not group.is_simple and group.state is EMPTY and since_ms != NO_TIMESTAMP:
        return lambda committed: since_ms
    if group.state is EMPTY or (group.state is STABLE and group.subscribed is not None):
        return lambda committed: committed.committed_ms
    return None


def _java_length(text: str) -> int:
    """Length in UTF-16 code units, by which Kafka measures metadata."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
