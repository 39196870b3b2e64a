"""Drives a shard without a runtime: the log is a list, the clock a number, and replies are kept.

``refuse`` lets the next writes fail, like a partition with too few replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pybroker.coordinator.group.joining import Caller
from pybroker.coordinator.group.offsets import UNSTABLE
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import GroupShard, Guard, OffsetsAsked
from pybroker.coordinator.shard import Event, Moment, Producer, Record, Result
from pybroker.coordinator.skipping import Skipped
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
from pyclient.protocol.errors import KafkaError
from pyclient.protocol.records import ConsumerProtocolSubscription

Offsets = dict[tuple[str, int], int]
"""The committed offsets by topic and partition."""
WALL = 1_700_000_000_000
QUICK = GroupSettings(initial_rebalance_delay_ms=0)


def subscription(*topics: str) -> bytes:
    """Returns a consumer's subscription to these topics."""
    return ConsumerProtocolSubscription.encode(1, ConsumerProtocolSubscription(topics=list(topics)))


RANGE = {"range": subscription("t")}


def _topics(topic: Any, partition: Any, offsets: Offsets, metadata: str | None) -> list[Any]:
    """Returns the rows of a commit. ``topic`` and ``partition`` are their classes."""
    return [
        topic(
            name=name,
            partitions=[partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)],
        )
        for (name, index), offset in offsets.items()
    ]


class Ticket:
    """A waiting request. A second answer is an error of the shard."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        """Returns the response, or raises its error."""
        [answer] = self.answers
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    @property
    def code(self) -> int:
        """The error code of the answer, 0 for a response without one."""
        [answer] = self.answers
        return answer.code if isinstance(answer, KafkaError) else getattr(answer, "error_code", 0)


class Held(NamedTuple):
    """A record that is written in a transaction."""

    record: Record
    producer: Producer


class Marker(NamedTuple):
    """The end of a transaction."""

    producer: Producer
    committed: bool


class Driver:
    """One shard, loaded from ``log``: records, and in transactions Held and Marker."""

    def __init__(self, settings: GroupSettings = QUICK, log: list[Any] | None = None) -> None:
        self.log: list[Any] = log if log is not None else []
        self.monotonic_ms = 0
        self.wall_shift_ms = 0
        self.refuse: type[KafkaError] | None = None
        self.writes_refused = 0
        self.ids = 0
        self.shard = self._make(settings)
        skipped = Skipped("the log")
        for entry in self.log:
            if isinstance(entry, Record):
                skipped.replay(self.shard, entry, None)
            else:
                self._replay(entry)
        self.perform(self.shard.loaded)

    def _replay(self, entry: Any) -> None:
        if isinstance(entry, Marker):
            self.shard.replay_marker(*entry)
        elif isinstance(entry, Held):
            self.shard.replay(*entry)
        else:
            self.shard.replay(entry, None)

    def _make(self, settings: GroupSettings) -> GroupShard:
        return GroupShard(settings, self._new_id)

    def _new_id(self) -> str:
        self.ids += 1
        return f"{len(self.log)}-{self.ids}"

    def group(self, group_id: str = "g") -> Any:
        return self.shard.groups[group_id]

    # The work of a runtime

    def perform(self, event: Event, ticket: Ticket | None = None) -> Result:
        """Applies one event and its effects."""
        result = Result(Moment(WALL + self.wall_shift_ms + self.monotonic_ms, self.monotonic_ms), ticket)
        try:
            event(result)
        except KafkaError as error:
            assert ticket is not None
            ticket.answers.append(error)
            assert not result.replies, "an event that raises answers nobody else"
            undo, told = result.on_failure, error
            if undo is not None:
                self.perform(lambda next: undo(next, told))
            assert len(ticket.answers) == 1, "answered twice"
            return result
        refused = self.refuse if result.records else None
        self.writes_refused += refused is not None
        producer = result.producer
        for record in () if refused else result.records:
            self.log.append(record if producer is None else Held(record, producer))
            self._replay(self.log[-1])
        for token, response in result.replies:
            assert isinstance(token, Ticket)
            token.answers.append(refused() if refused else response)
            assert len(token.answers) == 1, "answered twice"
        failed = result.on_failure
        if refused and failed is not None:
            self.perform(lambda next: failed(next, refused()))
        return result

    def send(self, event: Event) -> Ticket:
        """Sends a request."""
        ticket = Ticket()
        self.perform(event, ticket)
        return ticket

    def pass_ms(self, milliseconds: int) -> None:
        """Advances the clock. Every timer fires at its time."""
        end = self.monotonic_ms + milliseconds
        timers = self.shard.timers
        while (deadline := timers.next_deadline_ms) is not None and deadline <= end:
            self.monotonic_ms = max(self.monotonic_ms, deadline)
            timer = timers.pop(self.monotonic_ms)
            assert timer is not None
            self.perform(timer.action)
        self.monotonic_ms = end

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client: str = "c",
    ) -> Ticket:
        protocol = JoinGroup.Request.JoinGroupRequestProtocol
        offered = RANGE if protocols is None else protocols
        request = JoinGroup.Request(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[protocol(name=name, metadata=data) for name, data in offered.items()],
        )
        caller = Caller(version, client, "/127.0.0.1")
        return self.send(lambda result: self.shard.join(request, caller, result))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        **fields: Any,
    ) -> Ticket:
        assignment = SyncGroup.Request.SyncGroupRequestAssignment
        request = SyncGroup.Request(
            group_id=group,
            member_id=member_id,
            generation_id=generation,
            assignments=[
                assignment(member_id=id, assignment=data)
                for id, data in (assignments or {}).items()
            ],
            **fields,
        )
        return self.send(lambda result: self.shard.sync(request, result))

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> Ticket:
        request = Heartbeat.Request(
            group_id=group,
            member_id=member_id,
            generation_id=generation,
            group_instance_id=instance,
        )
        return self.send(lambda result: self.shard.heartbeat(request, result))

    def leave(self, *members: tuple[str, str | None], group: str = "g") -> Ticket:
        """Members are (member id, instance id)."""
        leaving = [
            LeaveGroup.Request.MemberIdentity(member_id=id, group_instance_id=instance)
            for id, instance in members
        ]
        return self.send(lambda result: self.shard.leave(group, leaving, result))

    def commit(
        self,
        offsets: Offsets,
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        metadata: str | None = "",
        version: int = 8,
        instance: str | None = None,
        retention_ms: int = -1,
    ) -> Ticket:
        kind = OffsetCommit.Request
        topic, partition = kind.OffsetCommitRequestTopic, kind.OffsetCommitRequestPartition
        request = kind(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=_topics(topic, partition, offsets, metadata),
        )
        return self.send(lambda result: self.shard.commit(request, version, result))

    def commit_in_transaction(
        self,
        offsets: Offsets,
        producer: Producer,
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 3,
        guard: Guard | None = None,
    ) -> Ticket:
        """Sends a TxnOffsetCommit. By default the transaction is admitted; otherwise ``guard`` decides."""
        kind = TxnOffsetCommit.Request
        topic, partition = kind.TxnOffsetCommitRequestTopic, kind.TxnOffsetCommitRequestPartition
        request = kind(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            topics=_topics(topic, partition, offsets, metadata),
        )
        admitted = guard or self.shard.guard(producer, bumps_epochs=version >= 5)
        return self.send(
            lambda result: self.shard.commit_in_transaction(
                request, version, admitted, lambda name: bytes(16), result
            )
        )

    def end(self, producer: Producer, *, committed: bool) -> None:
        """Writes a marker."""
        self.log.append(Marker(producer, committed))
        self._replay(self.log[-1])

    def committed(
        self, *, group: str = "g", stable: bool = False
    ) -> dict[tuple[str, int], int | str]:
        """Returns all offsets of the group; with ``stable``, "?" for offsets that are pending in a transaction."""
        asked = OffsetsAsked(group, None, stable)
        ticket = self.send(lambda result: self.shard.fetch(asked, result))
        return {
            (topic, index): "?" if each is UNSTABLE else each.offset
            for topic, offsets in ticket.answer
            for index, each in offsets.items()
        }

    def delete_offsets(self, *names: str, group: str = "g") -> Ticket:
        topic, partition = (
            OffsetDelete.Request.OffsetDeleteRequestTopic,
            OffsetDelete.Request.OffsetDeleteRequestPartition,
        )
        request = OffsetDelete.Request(
            group_id=group,
            topics=[topic(name=name, partitions=[partition(partition_index=0)]) for name in names],
        )
        return self.send(lambda result: self.shard.delete_offsets(request, result))

    def delete(self, group: str = "g") -> Ticket:
        return self.send(lambda result: self.shard.delete_group(group, result))

    # Whole scenes

    def member(self, **options: Any) -> tuple[str, Ticket]:
        """Joins as a new member. Returns its id, and the ticket of its JoinGroup, which waits."""
        first = self.join(**options)
        if not first.waits and first.code == errors.MemberIdRequired.code:
            member_id = first.answer.member_id
            return member_id, self.join(member_id, **options)
        known = {member.id for member in self.group(options.get("group", "g")).members}
        return (known - self._seen(options)).pop(), first

    def _seen(self, options: dict[str, Any]) -> set[str]:
        """Returns the ids of all members but the last."""
        members = list(self.group(options.get("group", "g")).members)
        return {member.id for member in members[:-1]}

    def stable(self, count: int, **options: Any) -> list[str]:
        """Makes a stable group of ``count`` new members, each with its own id as its assignment. Returns the ids."""
        joined = [self.member(**options) for _ in range(count)]
        self.pass_ms(10)
        return self.settle([id for id, _ in joined], options.get("group", "g"))

    def settle(self, ids: list[str], group: str = "g") -> list[str]:
        """Lets all members sync."""
        generation = self.group(group).generation
        leader = self.group(group).members.leader_id
        for id in [each for each in ids if each != leader]:
            self.sync(id, generation, group=group)
        self.sync(leader, generation, {id: id.encode() for id in ids}, group=group)
        assert self.group(group).state == "Stable"
        return ids


Scenario = Callable[[Driver], None]
