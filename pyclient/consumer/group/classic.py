"""Membership by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

In a rebalance, the member gives up partitions (eager: all; cooperative: those that it may not keep) and joins. The
group's leader assigns, and all members sync. Heartbeats continue until the application polls. They end when JoinGroup
is sent, because the coordinator answers it after all members have joined. It supports KIP-394 (member ids), KIP-345
(static members) and KIP-429 (cooperative).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine
from typing import Any, Final

from pyclient.consumer.appointments import SETTLE
from pyclient.consumer.assignors import ASSIGNORS
from pyclient.consumer.assignors.spec import Assignor, Member
from pyclient.consumer.group.membership import GOODBYE_S, Membership
from pyclient.consumer.offsets.committed import at_coordinator
from pyclient.core.tasks import ended
from pyclient.errors import NOT_MEMBER, ConfigError, KafkaError, check
from pyclient.protocol import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from pyclient.protocol.errors import FencedInstanceId, MemberIdRequired, RebalanceInProgress, UnknownMemberId
from pyclient.protocol.records import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pyclient.topic_partition import TopicPartition

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "consumer"
SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 3
JOIN_GRACE_S: Final = 5.0
"""Seconds to wait for the answer to JoinGroup beyond the rebalance timeout, by which the coordinator should answer."""


class _Late(KafkaError):
    """The application has not polled for max.poll.interval.ms."""

    text = "no poll for max.poll.interval.ms"


class _Unwanted(KafkaError):
    """The assignment is for another subscription: this member's has changed, or a static member is back with another.
    """

    text = "the assignment does not match the subscription"
    retriable = True


class ClassicMembership(Membership):
    """A member of a group in which one of the members, the leader, assigns the partitions."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._assignors = chosen(self._config.partition_assignment_strategy)
        self._is_cooperative = all(assignor.cooperative for assignor in self._assignors)
        self._protocol: str | None = None
        self._last: tuple[list[TopicPartition], int] | None = None
        """The last assignment, even if it was given up since, and its generation."""
        self._heartbeats: asyncio.Task[None] | None = None
        self._is_joining = False
        self._seen: dict[str, list[frozenset[str]]] | None = None
        """The assigned partitions by topic, as the leader last saw them, with their racks if the leader has a rack."""

    def subscription_changed(self) -> None:
        self._wake.set()

    def topics_changed(self, topics: frozenset[str]) -> None:
        """Called when the metadata of these topics has changed. The leader checks for more partitions, or other racks
        (KIP-881).
        """
        seen = self._seen or {}
        if any(self._sight(topic) != seen[topic] for topic in topics & seen.keys()):
            self._wake.set()

    def watched_topics(self) -> Collection[str]:
        """Returns the topics of the whole group if this member leads the group."""
        return self._seen or ()

    @property
    def is_joining(self) -> bool:
        return self._is_joining

    def _sight(self, topic: str) -> list[frozenset[str]]:
        racks = self._client.cluster.racks(topic)
        return racks if self._config.client_rack else [frozenset()] * len(racks)

    # -- rounds --------------------------------------------------------------------------------------

    async def run(self) -> None:
        backoff = self._client.backoff()
        while True:
            try:
                await self._while_member(self._prepare())
                await self._round()
                backoff.reset()
                await self._while_member(self._wake.wait())
            except KafkaError as error:
                await self._on_error(error, backoff.next())

    async def _on_error(self, error: KafkaError, wait: float) -> None:
        log.info("group %s, member %r: %s", self.group_id, self.member_id, error)
        if isinstance(error, FencedInstanceId):
            raise error
        if isinstance(error, MemberIdRequired):
            return
        if isinstance(error, _Late):
            await self._leave_late()
        elif error.name in NOT_MEMBER:
            await self._expel(error)
        elif not isinstance(error, RebalanceInProgress):
            if not error.retriable:
                self._owner.on_error(self._client.rights.told(error, group=self.group_id))
                await self._appointments.at_poll(SETTLE)
            await asyncio.sleep(wait)

    async def _expel(self, error: KafkaError) -> None:
        """Handles an eviction: the coordinator does not know this member, or not with this generation."""
        if isinstance(error, UnknownMemberId):
            self.member_id = ""
        self.epoch = -1
        self._put_out()
        await self.lose(self.owned())

    async def _while_member(self, work: Coroutine[Any, Any, object]) -> None:
        """Does the work while heartbeats continue. If they end first, raises their error."""
        task = self._client.loop.create_task(work)
        try:
            beats = self._heartbeats
            await asyncio.wait((task,) if beats is None else (task, beats), return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and beats is not None:
                self._heartbeats = None
                await beats
            await task
        finally:
            await ended(task)

    async def _prepare(self) -> None:
        """Gives up the partitions that cannot be kept through a rebalance."""
        if self._is_cooperative:
            topics = self._subscription.topics
            await self.revoke([tp for tp in self.owned() if tp.topic not in topics])
        elif owned := self.owned():
            with self._lock:
                self._subscription.keep_pauses(self._subscription.paused())
            await self.revoke(owned)

    async def _round(self) -> None:
        await self._end_heartbeats()
        self._wake.clear()
        self._seen = None
        self._is_joining = True
        try:
            assigned = await self._join_and_sync()
        finally:
            self._is_joining = False
        self.show()
        self._heartbeats = self._client.loop.create_task(self._keep_beating())
        await self._while_member(self._adopt(assigned))

    async def _join_and_sync(self) -> set[TopicPartition]:
        joined = await self._join()
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        self._protocol = joined.protocol_name
        assignments = {}
        if joined.leader == joined.member_id:
            assignments = await self._lead(joined)
        return await self._sync(assignments)

    async def _adopt(self, assigned: set[TopicPartition]) -> None:
        """Adopts the assigned partitions after giving up the removed ones. If the consumer is not subscribed to some of
        them, it takes none and joins the group again with its subscription (as Java's client does).
        """
        with self._lock:
            unwanted = sorted(tp for tp in assigned if not self._subscription.wants(tp.topic))
        if unwanted:
            raise _Unwanted(f"assigned, but not subscribed to: {unwanted}")
        if self._is_cooperative:
            given_up = self.owned() - assigned
            await self.revoke(given_up)
            if given_up:
                self._wake.set()
        self._last = sorted(assigned), self.epoch
        await self.take_over(assigned, always=not self._is_cooperative)
        with self._lock:
            self._subscription.keep_pauses(())

    async def _join(self) -> JoinGroup.Response:
        config = self._config
        rebalance_timeout_ms: int = config.max_poll_interval_ms
        request = JoinGroup.Request(
            group_id=self.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._protocols(),
        )
        timeout = max(config.request_timeout_ms / 1000, rebalance_timeout_ms / 1000 + JOIN_GRACE_S)

        async def send(node: int) -> JoinGroup.Response:
            response: JoinGroup.Response = await self._client.send(node, JoinGroup, request, timeout=timeout)
            if response.error_code and response.member_id and not self.member_id:
                self.member_id = response.member_id
            check(response.error_code)
            return response

        return await at_coordinator(self._client, self.group_id, send)

    def _protocols(self) -> list[JoinGroup.Request.JoinGroupRequestProtocol]:
        owned = sorted(self.owned())
        topics = sorted(self._subscription.topics)
        return [
            JoinGroup.Request.JoinGroupRequestProtocol(
                name=assignor.name, metadata=self._subscription_of(assignor, topics, owned)
            )
            for assignor in self._assignors
        ]

    def _subscription_of(self, assignor: Assignor, topics: list[str], owned: list[TopicPartition]) -> bytes:
        data = assignor.user_data(*self._last) if assignor.user_data and self._last else None
        subscription = ConsumerProtocolSubscription(
            topics=topics,
            user_data=data,
            owned_partitions=grouped(owned, ConsumerProtocolSubscription.TopicPartition),
            generation_id=self.epoch,
            rack_id=self._config.client_rack or None,
        )
        return ConsumerProtocolSubscription.encode(SUBSCRIPTION_VERSION, subscription)

    async def _lead(self, joined: JoinGroup.Response) -> dict[str, list[TopicPartition]]:
        """Assigns as the group's leader. Returns nothing if the coordinator has the assignment (KIP-814)."""
        members = [member_of(row) for row in joined.members]
        wanted = {topic for member in members for topic in member.topics}
        cluster = self._client.cluster
        if any(cluster.partitions(topic) is None for topic in wanted):
            with contextlib.suppress(KafkaError):
                await self._client.metadata(wanted, timeout=1.0)
        racks = {topic: cluster.racks(topic) for topic in wanted}
        self._seen = {topic: self._sight(topic) for topic in wanted}
        if joined.skip_assignment:
            return {}
        assignor = next(each for each in self._assignors if each.name == joined.protocol_name)
        counts = {topic: len(rows) for topic, rows in racks.items() if rows}
        places = {TopicPartition(topic, n): found for topic, rows in racks.items() for n, found in enumerate(rows)}
        return assignor.assign(counts, members, places)

    async def _sync(self, assignments: dict[str, list[TopicPartition]]) -> set[TopicPartition]:
        rows = [
            SyncGroup.Request.SyncGroupRequestAssignment(member_id=member_id, assignment=encoded(partitions))
            for member_id, partitions in assignments.items()
        ]
        request = SyncGroup.Request(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=rows,
        )
        timeout = self._config.max_poll_interval_ms / 1000 + JOIN_GRACE_S

        async def send(node: int) -> SyncGroup.Response:
            response: SyncGroup.Response = await self._client.send(node, SyncGroup, request, timeout=timeout)
            check(response.error_code)
            return response

        response = await at_coordinator(self._client, self.group_id, send)
        return decoded(response.assignment)

    # -- heartbeats ------------------------------------------------------------------------------------

    async def _keep_beating(self) -> None:
        """Sends heartbeats. Raises when they are useless: ``_Late``, or the coordinator's error."""
        interval = self._config.heartbeat_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            if self._owner.poll_is_late():
                raise _Late
            try:
                await at_coordinator(self._client, self.group_id, self._beat)
                interval = self._config.heartbeat_interval_ms / 1000
            except KafkaError as error:
                if isinstance(error, RebalanceInProgress):
                    self._wake.set()
                elif error.retriable:
                    interval = self._config.retry_backoff_ms / 1000
                else:
                    raise

    async def _beat(self, node: int) -> None:
        request = Heartbeat.Request(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        response = await self._client.send(node, Heartbeat, request)
        check(response.error_code)

    async def _leave_late(self) -> None:
        log.warning("group %s: no poll for max.poll.interval.ms, the member leaves", self.group_id)
        self._put_out()
        self._hold_back(self.owned())
        with contextlib.suppress(KafkaError):
            await self.leave("consumer poll timeout has expired")
        self.member_id = "" if self.instance_id is None else self.member_id
        self.epoch = -1
        await self._appointments.at_poll(SETTLE)
        await self.lose(self.owned())

    async def _end_heartbeats(self) -> None:
        """Ends the heartbeats. An error that ended them comes again in the next round."""
        task, self._heartbeats = self._heartbeats, None
        if task is not None:
            await ended(task)

    # -- the end -----------------------------------------------------------------------------------------

    async def stop(self) -> None:
        try:
            await super().stop()
        finally:
            await self._end_heartbeats()

    async def leave(self, reason: str, timeout: float = GOODBYE_S) -> None:
        """Leaves the group. A static member does not: it keeps its partitions until its session expires."""
        if not self.member_id or self.instance_id is not None:
            return
        member_id = self.member_id

        def request(version: int) -> LeaveGroup.Request:
            if version < 3:
                return LeaveGroup.Request(group_id=self.group_id, member_id=member_id)
            member = LeaveGroup.Request.MemberIdentity(member_id=member_id, reason=reason)
            return LeaveGroup.Request(group_id=self.group_id, members=[member])

        self.member_id, self.epoch = "", -1
        await self._say_goodbye(LeaveGroup, request, timeout)


def chosen(names: tuple[str, ...]) -> list[Assignor]:
    """Returns the assignors of partition.assignment.strategy. Raises ConfigError."""
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown or not names:
        raise ConfigError(
            f"partition.assignment.strategy={', '.join(unknown)!r} is not one of {', '.join(ASSIGNORS)}"
        )
    return [ASSIGNORS[name] for name in names]


def grouped(partitions: list[TopicPartition], row: Any) -> list[Any]:
    """Returns ``row(topic=…, partitions=[…])`` for each topic."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return [row(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def member_of(row: JoinGroup.Response.JoinGroupResponseMember) -> Member:
    """Returns a member as the leader sees it."""
    told = ConsumerProtocolSubscription.decode(row.metadata)
    owned = tuple(TopicPartition(each.topic, n) for each in told.owned_partitions for n in each.partitions)
    return Member(
        row.member_id,
        tuple(told.topics),
        row.group_instance_id,
        owned,
        told.generation_id,
        bytes(told.user_data or b""),
        told.rack_id,
    )


def encoded(partitions: list[TopicPartition]) -> bytes:
    """Encodes an assignment for SyncGroup."""
    rows = grouped(partitions, ConsumerProtocolAssignment.TopicPartition)
    return ConsumerProtocolAssignment.encode(ASSIGNMENT_VERSION, ConsumerProtocolAssignment(assigned_partitions=rows))


def decoded(data: bytes | bytearray | memoryview) -> set[TopicPartition]:
    """Returns the partitions of an assignment."""
    if not len(data):
        return set()
    told = ConsumerProtocolAssignment.decode(data)
    return {TopicPartition(row.topic, number) for row in told.assigned_partitions for number in row.partitions}
