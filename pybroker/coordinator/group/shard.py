"""The groups of one partition of ``__consumer_offsets``.

It has the groups of both protocols by id (``group.Group``), and their offsets. Requests of the classic protocol go to
``joining`` and ``syncing``, those about offsets to ``committing`` and ``keeping``. This module handles requests about
whole groups, ``replay``, and timers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator.group import committing, describing, joining, keeping, records, syncing
from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer import records as consumer_records
from pybroker.coordinator.group.consumer.context import ConsumerFacts
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.migration import classic_members
from pybroker.coordinator.group.consumer.protocol import ConsumerProtocol
from pybroker.coordinator.group.context import GroupContext
from pybroker.coordinator.group.group import Group
from pybroker.coordinator.group.join_responses import refusal
from pybroker.coordinator.group.joining import Caller, Join
from pybroker.coordinator.group.offset_store import OffsetStore
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.shard import Event, Producer, Record, Result
from pybroker.coordinator.timer_wheel import Timer, TimerWheel
from pyclient.protocol import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    SyncGroup,
    TxnOffsetCommit,
    errors,
)
from pyclient.protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
)

CLEAN_AT_ONCE = 1_000
"""How many offsets are deleted in one event; the others follow in the next events."""

_PAUSE_MS = 1_000


class OffsetsAsked(NamedTuple):
    """The part of an OffsetFetch for one group. If ``wanted`` is None, it is for all partitions."""

    group_id: str
    wanted: keeping.Wanted | None
    stable: bool = False
    """Leaves out offsets that an open transaction may still change (``require_stable``)."""
    member_id: str | None = None
    member_epoch: int = -1


class Guard:
    """Protects a transactional commit while its admission is being checked.

    The guard becomes invalid when a marker ends the transaction, so that a late answer does not admit the commit to the
    next transaction. With transactions v2 (``bumps_epochs``), a marker's epoch is one more than its transaction's. So
    a marker with the guard's own epoch ends the previous transaction, whose markers may still be in flight.
    """

    __slots__ = ("bumps_epochs", "epoch", "holds")

    def __init__(self, epoch: int, *, bumps_epochs: bool) -> None:
        self.epoch = epoch
        self.bumps_epochs = bumps_epochs
        self.holds = True

    def on_marker(self, epoch: int) -> None:
        """Handles a marker of the guard's producer."""
        if epoch > self.epoch or (epoch == self.epoch and not self.bumps_epochs):
            self.holds = False


class GroupShard:
    """The state machine of one partition: see ``coordinator.shard`` for the rules."""

    unordered = frozenset({b"\0\0", b"\0\1"})

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        image: Callable[[], MetadataImage] = MetadataImage,
        facts: ConsumerFacts | None = None,
    ) -> None:
        self.settings = settings
        self.timers: TimerWheel[Event] = TimerWheel()
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self._records = 0
        """How many offset records were replayed."""
        self.context = GroupContext(settings, self.timers, new_id, image, self._forsaken, {})
        self.consumers = ConsumerProtocol(
            facts or ConsumerFacts.default(image),
            self.groups,
            self.timers,
            new_id,
            self.simple_group,
            self.forget,
        )
        self._gone: dict[str, bytes] = {}
        """The ids of deleted topics that may still have offsets, by name."""
        self._forgetting: Timer[Event] | None = None
        self._guards: dict[int, set[Guard]] = {}
        """The guards by producer id."""
        self._lives = False

    # # Replay

    def replay(self, record: Record, producer: Producer | None) -> None:
        """Replays the record of an offset or a group; ignores other types. Raises DecodeError."""
        kind = records.record_type(record.key)
        if kind in records.OFFSET_TYPES:
            self._replay_offset(record, producer)
        elif kind == records.GROUP_TYPE:
            self._replay_group(GroupMetadataKey.decode(record.key).group, record.value)
        elif kind in consumer_records.TYPES:
            self.consumers.replay(kind, record)

    def replay_marker(self, producer: Producer, committed: bool) -> None:
        """Commits or drops the producer's pending offsets."""
        self.offsets.end(producer.id, committed=committed)
        for guard in self._guards.get(producer.id, ()):
            guard.on_marker(producer.epoch)

    def _replay_offset(self, record: Record, producer: Producer | None) -> None:
        key = records.read_offset_key(record.key)
        value = record.value
        if value is None:
            self.offsets.remove(key)
            return
        committed = records.read_offset(value, self._records + 1)
        self._records += 1
        if producer is None:
            self.offsets.commit(key, committed)
        else:
            self.offsets.hold(key, committed, producer)
        if key[0] not in self.groups:
            self.groups[key[0]] = self.simple_group(key[0])

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        group = self.groups.get(group_id)
        downgraded = self.consumers.take_downgraded(group_id) if value is not None else None
        if value is None:
            if isinstance(group, ClassicGroup):
                self.forget(group)
        elif downgraded is not None:
            self.groups[group_id] = downgraded
        else:
            message = GroupMetadataValue.decode(value)
            if not isinstance(group, ClassicGroup):
                group = self.groups[group_id] = self.simple_group(group_id)
                group.restore(message)
            elif self._lives:
                group.accept(message)
            else:
                group.restore(message)

    def forget(self, group: Group) -> None:
        """Removes a deleted group; if it still has offsets, a simple group replaces it."""
        group.die()
        del self.groups[group.id]
        if self.offsets.holds(group.id):
            self.groups[group.id] = self.simple_group(group.id)

    def _forsaken(self, group_id: str) -> None:
        """Removes a group that exists only in memory, without members and offsets."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup) and group.is_empty and not self.offsets.holds(group_id):
            group.die()
            del self.groups[group_id]

    def simple_group(self, group_id: str) -> ClassicGroup:
        """Returns a new group without members."""
        return ClassicGroup(group_id, self.context)

    def loaded(self, result: Result) -> None:
        """Starts the sessions and the search for expired offsets."""
        self._lives = True
        for group in list(self.groups.values()):
            group.resume(result)
        self.consumers.loaded(result)
        self._clean_in(self.settings.offsets_check_interval_ms, result)

    # Members

    def join(self, request: JoinGroup.Request, caller: Caller, result: Result) -> None:
        """Handles a JoinGroup. Raises the errors of ``joining.join``, InvalidSessionTimeout, and InvalidRequest for
        texts that no record can hold.
        """
        low, high = self.settings.min_session_timeout_ms, self.settings.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise errors.InvalidSessionTimeout(
                f"session timeout {request.session_timeout_ms} is not within {low}…{high} ms"
            )
        joining.check_lengths(request, caller)
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            try:
                classic_members.join(group, Join(request, caller), result)
            except errors.KafkaError as error:
                result.records.clear()  # else a static member would be replaced by one that was refused
                result.answer(refusal(error, ""))
            return
        if isinstance(group, ClassicGroup):
            joining.join(group, Join(request, caller), result)
            return
        if group is not None:
            result.write(*group.tombstones())
        if request.member_id:
            result.answer(refusal(errors.UnknownMemberId, request.member_id))
        else:
            self._join_new(group, Join(request, caller), result)

    def _join_new(self, before: Group | None, join: Join, result: Result) -> None:
        """Joins a new group, which replaces an empty one of the other protocol."""
        group_id = join.request.group_id
        group = self.groups[group_id] = self.simple_group(group_id)
        group.since_ms = result.now.wall_ms
        result.on_failure = partial(self._not_joined, group, before)
        joining.join(group, join, result)

    def _not_joined(
        self, made: ClassicGroup, before: Group | None, result: Result, error: errors.KafkaError
    ) -> None:
        """Restores the earlier group, because the first member's join could not be written."""
        for member in made.members:
            result.reply(made.members.stop_waiting(member), error)
        made.die()
        if before is None:
            del self.groups[made.id]
        else:
            self.groups[made.id] = before

    def sync(self, request: SyncGroup.Request, result: Result) -> None:
        """Handles a SyncGroup. Raises the errors of ``syncing.sync``."""
        group = self._with_members(request.group_id)
        if isinstance(group, ConsumerGroup):
            classic_members.sync(group, request, result)
        else:
            syncing.sync(self._classic(group), request, result)

    def heartbeat(self, request: Heartbeat.Request, result: Result) -> None:
        """Handles a Heartbeat. Raises the errors of ``syncing.heartbeat``."""
        group = self._with_members(request.group_id)
        if isinstance(group, ConsumerGroup):
            classic_members.heartbeat(group, request, result)
        else:
            syncing.heartbeat(self._classic(group), request, result)
            result.answer(Heartbeat.Response())

    def leave(
        self,
        group_id: str,
        members: list[LeaveGroup.Request.MemberIdentity],
        result: Result,
    ) -> None:
        """Handles a LeaveGroup: an outcome for each member, or UnknownMemberId if the group does not exist."""
        group = self._with_members(group_id)
        if isinstance(group, ConsumerGroup):
            result.answer(classic_members.leave(group, members, result))
        else:
            result.answer(syncing.leave(self._classic(group), members, result))

    def _with_members(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise errors.UnknownMemberId(f"group {group_id} has no members")
        return group

    def _classic(self, group: Group) -> ClassicGroup:
        """Returns the group if it is a classic one. Raises InconsistentGroupProtocol."""
        if not isinstance(group, ClassicGroup):
            raise errors.InconsistentGroupProtocol(f"group {group.id} is not a classic group")
        return group

    # Offsets

    def commit(self, request: OffsetCommit.Request, version: int, result: Result) -> None:
        """Handles an OffsetCommit. Raises the errors of ``committing.commit``."""
        result.answer(committing.commit(self, request, version, result))
        result.atomic = False

    def guard(self, producer: Producer, *, bumps_epochs: bool) -> Guard | None:
        """Returns a guard for the admission of the producer's transaction, or None if it has pending offsets here
        already.
        """
        if self.offsets.has_transaction(producer):
            return None
        guard = Guard(producer.epoch, bumps_epochs=bumps_epochs)
        self._guards.setdefault(producer.id, set()).add(guard)
        return guard

    def drop_guard(self, producer: Producer, guard: Guard) -> None:
        """Releases the guard."""
        guards = self._guards.get(producer.id, set())
        guards.discard(guard)
        if not guards:
            self._guards.pop(producer.id, None)

    def commit_in_transaction(
        self,
        request: TxnOffsetCommit.Request,
        version: int,
        guard: Guard | None,
        topic_id: Callable[[str], bytes],
        result: Result,
    ) -> None:
        """Handles a TxnOffsetCommit.

        Raises InvalidTxnState if a marker has come since the transaction was admitted, and the errors of
        ``committing.commit_in_transaction``.
        """
        producer = Producer(request.producer_id, request.producer_epoch)
        admitted = self.offsets.has_transaction(producer)
        if not admitted and (guard is None or not guard.holds):
            raise errors.InvalidTxnState(
                f"the transaction of producer {request.producer_id} ended before its offsets were committed"
            )
        result.answer(committing.commit_in_transaction(self, request, version, topic_id, result))
        result.atomic = False

    def fetch(self, asked: OffsetsAsked, result: Result) -> None:
        """Handles an OffsetFetch, by ``keeping.fetch``.

        Raises the errors of ``Group.may_fetch``, except GroupIdNotFound: then there are no offsets.
        """
        group = self.groups.get(asked.group_id)
        result.reads = True
        try:
            if group is not None:
                group.may_fetch(asked.member_id, asked.member_epoch)
        except errors.GroupIdNotFound:
            pass
        result.answer(keeping.fetch(self, asked.group_id, asked.wanted, stable=asked.stable))

    def delete_offsets(self, request: OffsetDelete.Request, result: Result) -> None:
        """Handles an OffsetDelete. Raises GroupIdNotFound, NonEmptyGroup."""
        group = self._existing(request.group_id)
        group.check_offsets_deletable()
        result.answer(keeping.delete(self, group, request, result))
        result.atomic = False

    def forget_topics(self, gone: Mapping[str, bytes], result: Result) -> None:
        """Deletes the offsets of deleted topics (ids by name).

        Many offsets are removed in several events, so that other requests do not wait long. A failed write is repeated.
        """
        self._gone.update(gone)
        self._forget_some(result)
        result.answer(None)

    def _forget_some(self, result: Result) -> None:
        found = list(islice(keeping.forget_topics(self, self._gone), CLEAN_AT_ONCE))
        if not found:
            self._gone = {}
            return
        result.write(*found)
        result.atomic = False
        result.on_failure = lambda later, error: self._forget_in(_PAUSE_MS, later)
        self._forget_in(0, result)

    def _forget_in(self, delay_ms: int, result: Result) -> None:
        self.timers.cancel(self._forgetting)
        deadline_ms = result.now.monotonic_ms + delay_ms
        self._forgetting = self.timers.schedule(deadline_ms, self._forget_some)

    # Whole groups

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def describe(self, group_id: str, result: Result) -> None:
        """Handles a DescribeGroups of one group. Raises GroupIdNotFound."""
        result.answer(self._existing(group_id).described())

    def list_groups(self, states: frozenset[str], types: frozenset[str], result: Result) -> None:
        """Handles a ListGroups; states and types are in lower case, empty sets match all."""
        matches = describing.matcher(states, types)
        listed = [group.listed() for group in self.groups.values()]
        result.answer([group for group in listed if matches(group)])

    def delete_group(self, group_id: str, result: Result) -> None:
        """Handles a DeleteGroups of one group. Raises GroupIdNotFound, NonEmptyGroup."""
        group = self._existing(group_id)
        group.check_deletable()
        result.write(*keeping.delete_all(self, group_id), *group.tombstones())
        result.atomic = False
        result.answer(None)

    # # Timers

    def _clean_in(self, delay_ms: int, result: Result) -> None:
        self.timers.schedule(result.now.monotonic_ms + delay_ms, self._clean)

    def _clean(self, result: Result) -> None:
        """Deletes expired offsets, and empty groups without offsets."""
        result.atomic = False
        delay_ms = self.settings.offsets_check_interval_ms
        for group in self.groups.values():
            result.write(*keeping.outlived(self, group, result.now.wall_ms))
            if len(result.records) >= CLEAN_AT_ONCE:
                delay_ms = min(delay_ms, _PAUSE_MS)
                break
        self._clean_in(delay_ms, result)
