"""Members of consumer groups: they join, commit offsets, leave or die without a word, and come again.

``ClassicMember`` speaks JoinGroup, SyncGroup and Heartbeat, ``ModernMember`` the protocol of KIP-848. An ``Intruder``
tries to upgrade a classic group with a member whose regular expression is invalid.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from proofs.simulator.clients.client import Client
from proofs.simulator.clients.writers import error_of
from proofs.simulator.oracle.group_oracle import NONE, Commit, GroupOracle
from proofs.simulator.settings import SESSION_MS
from pybroker.cluster.metadata.image import OFFSETS_TOPIC
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import (
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    SyncGroup,
    errors,
)
from pyclient.protocol.records import ConsumerProtocolAssignment, ConsumerProtocolSubscription

REBALANCE_MS: Final = 800
HEARTBEAT_S: Final = 0.05
PAUSE_S: Final = 0.03
PATIENCE_S: Final = 6.0
"""Longer than any join or sync may take."""
LIFE_S: Final = 30.0
"""A client gives up if its work takes longer."""
JOIN, LEAVE = 0, -1
Owned = Mapping[bytes, list[int]]


class GivenUp(Exception):
    """Raised if the client has used up its time."""


class Asker:
    """Sends requests to the coordinator of a group."""

    def __init__(self, client: Client, group: str, oracle: GroupOracle, is_calm: Callable[[], bool]) -> None:
        """``is_calm()``: whether all faults have ended."""
        self.client = client
        self.group = group
        self.oracle = oracle
        self.ends_at = client.loop.time() + LIFE_S
        self._is_calm = is_calm

    def _coordinator(self) -> tuple[int, object]:
        """Finds the coordinator. Returns the broker, and a mark that changes if its process or its epoch does."""
        broker = self.client.leader(OFFSETS_TOPIC, 0)
        process = self.client.cluster.serving(broker)
        image = None if process is None else process.broker.metadata.image.partition(OFFSETS_TOPIC, 0)
        return broker, (process, image and image.leader_epoch)

    async def ask(self, request: Any, version: int, timeout_s: float, *, accepts: int = 0) -> Any:
        """Returns the answer. Raises KafkaError, except for the code that the caller ``accepts``."""
        broker, before = self._coordinator()
        is_calm = self._is_calm()
        try:
            response = await self.client.request(broker, request, version, timeout_s)
        except errors.RequestTimedOut:
            if is_calm and timeout_s >= PATIENCE_S and before == self._coordinator()[1]:
                self.oracle.unanswered(f"group {self.group}: {type(request).__qualname__}")
            raise
        code = getattr(response, "error_code", 0)
        if code not in (0, accepts):
            raise error_of(code)
        return response

    async def pause(self) -> None:
        """Waits for a moment. Raises GivenUp."""
        if self.client.loop.time() > self.ends_at:
            raise GivenUp
        await asyncio.sleep(PAUSE_S * (0.5 + self.client.rng.random()))


class Member(Asker):
    """What both kinds of members do: they live several times, and commit offsets in each life."""

    def __init__(
        self, client: Client, group: str, oracle: GroupOracle, is_calm: Callable[[], bool], topics: list[str]
    ) -> None:
        super().__init__(client, group, oracle, is_calm)
        self.topics = topics
        self.member_id = ""
        self.epoch = -1
        self.owned: Owned = {}

    async def run(self, lives: int) -> None:
        """Joins and leaves that many times."""
        try:
            for _ in range(lives):
                await self._live(self.client.rng.randint(2, 8))
                if self.client.rng.random() < 0.5:
                    await self._leave()
                self.member_id, self.epoch, self.owned = "", -1, {}
                await self.pause()
        except GivenUp:
            return

    async def _live(self, beats: int) -> None:
        while beats > 0:
            try:
                if self.epoch < 0:
                    await self._join()
                await self._beat()
                if self.client.rng.random() < 0.6:
                    await self._commit()
                beats -= 1
                await asyncio.sleep(HEARTBEAT_S)
            except (errors.UnknownMemberId, errors.FencedMemberEpoch):
                self.member_id, self.epoch, self.owned = "", -1, {}
            except errors.KafkaError as error:
                if isinstance(error, errors.RebalanceInProgress | errors.IllegalGeneration):
                    self.epoch = -1
            await self.pause()

    async def _join(self) -> None:
        raise NotImplementedError

    async def _beat(self) -> None:
        raise NotImplementedError

    async def _leave(self) -> None:
        raise NotImplementedError

    def _ids(self) -> dict[str, tuple[bytes, int]]:
        """Maps the name of each existing topic to its id and its number of partitions."""
        image = self.client.image()
        topics = [] if image is None else [image.topic(name) for name in self.topics]
        return {topic.name: (topic.id, len(topic.partitions)) for topic in topics if topic is not None}

    def _take(self, owned: Owned) -> None:
        self.owned = owned
        for topic_id, partitions in owned.items():
            for partition in partitions:
                self.oracle.owns(self.group, self.epoch, self.member_id, topic_id, partition)

    async def _commit(self) -> None:
        names = {id: name for name, (id, _) in self._ids().items()}
        places = [(id, part) for id, parts in self.owned.items() if id in names for part in parts]
        if not places:
            return
        topic_id, part = self.client.rng.choice(places)
        tp = TopicPartition(names[topic_id], part)
        commit = self.oracle.commits(self.group, tp, topic_id)
        message = OffsetCommit.Request
        partition = message.OffsetCommitRequestPartition(
            partition_index=part, committed_offset=1, committed_metadata=commit.name
        )
        request = message(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[message.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])],
        )
        response = await self.ask(request, 10, 1.0)
        self._note(commit, int(response.topics[0].partitions[0].error_code))

    def _note(self, commit: Commit, code: int) -> None:
        if not code:
            self.oracle.has_committed(commit)
            return
        error = error_of(code)
        commit.is_refused = not isinstance(error, errors.CoordinatorNotAvailable | errors.NotCoordinator)
        raise error


class ClassicMember(Member):
    """A member of the classic protocol. The leader of the group assigns the partitions to the members in turn."""

    async def _join(self) -> None:
        metadata = ConsumerProtocolSubscription.encode(1, ConsumerProtocolSubscription(topics=self.topics))
        message = JoinGroup.Request
        request = message(
            group_id=self.group,
            member_id=self.member_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[message.JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = await self.ask(request, 5, PATIENCE_S, accepts=errors.MemberIdRequired.code)
        if joined.error_code:
            request.member_id = joined.member_id
            joined = await self.ask(request, 5, PATIENCE_S)
        self.member_id = joined.member_id
        sync = SyncGroup.Request(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=self._assigned(joined) if joined.leader == joined.member_id else [],
        )
        synced = await self.ask(sync, 3, PATIENCE_S)
        self.epoch = joined.generation_id
        ids = self._ids()
        given = ConsumerProtocolAssignment.decode(synced.assignment) if synced.assignment else None
        parts = [] if given is None else given.assigned_partitions
        self._take({ids[each.topic][0]: list(each.partitions) for each in parts if each.topic in ids})

    def _assigned(self, joined: JoinGroup.Response) -> list[SyncGroup.Request.SyncGroupRequestAssignment]:
        members = sorted(each.member_id for each in joined.members)
        given: dict[str, dict[str, list[int]]] = {member: {} for member in members}
        places = [(name, part) for name, (_, count) in sorted(self._ids().items()) for part in range(count)]
        for number, (name, part) in enumerate(places):
            given[members[number % len(members)]].setdefault(name, []).append(part)
        topic = ConsumerProtocolAssignment.TopicPartition
        assignment = SyncGroup.Request.SyncGroupRequestAssignment
        return [
            assignment(
                member_id=member,
                assignment=ConsumerProtocolAssignment.encode(
                    1,
                    ConsumerProtocolAssignment(
                        assigned_partitions=[topic(topic=name, partitions=parts) for name, parts in topics.items()]
                    ),
                ),
            )
            for member, topics in given.items()
        ]

    async def _beat(self) -> None:
        request = Heartbeat.Request(group_id=self.group, generation_id=self.epoch, member_id=self.member_id)
        await self.ask(request, 3, 1.0)

    async def _leave(self) -> None:
        identity = LeaveGroup.Request.MemberIdentity(member_id=self.member_id)
        with contextlib.suppress(errors.KafkaError):
            await self.ask(LeaveGroup.Request(group_id=self.group, members=[identity]), 3, 1.0)


class ModernMember(Member):
    """A member of the new protocol. It releases revoked partitions at once."""

    async def _join(self) -> None:
        self.member_id = self.member_id or f"m{self.client.rng.getrandbits(64):x}"
        self.epoch, self.owned = JOIN, {}
        try:
            await self._say(self._request(subscribed_topic_names=self.topics, rebalance_timeout_ms=REBALANCE_MS))
        except errors.KafkaError:
            self.epoch = -1
            raise

    async def _beat(self) -> None:
        await self._say(self._request())

    def _request(self, **fields: Any) -> ConsumerGroupHeartbeat.Request:
        message = ConsumerGroupHeartbeat.Request
        owned = [message.TopicPartitions(topic_id=id, partitions=parts) for id, parts in self.owned.items() if parts]
        return message(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, topic_partitions=owned, **fields
        )

    async def _say(self, request: ConsumerGroupHeartbeat.Request) -> None:
        response = await self.ask(request, 1, 1.0)
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._take({each.topic_id: list(each.partitions) for each in response.assignment.topic_partitions})

    async def _leave(self) -> None:
        self.epoch = LEAVE
        with contextlib.suppress(errors.KafkaError):
            await self.ask(self._request(), 1, 1.0)


class Intruder(Asker):
    """Requests an upgrade that the coordinator must always refuse."""

    async def run(self, times: int) -> None:
        """Sends the heartbeat that many times."""
        request = ConsumerGroupHeartbeat.Request(
            group_id=self.group,
            member_id="intruder",
            member_epoch=JOIN,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_regex="(",
            topic_partitions=[],
        )
        for _ in range(times):
            with contextlib.suppress(errors.KafkaError):
                await self.ask(request, 1, 1.0)
            await asyncio.sleep(PAUSE_S)


class Auditor(Asker):
    """Reads the committed offsets at the end, by the names of topics, as most clients do."""

    async def run(self) -> None:
        """Repeats the client's requests until every place is answered."""
        for group, tp in self.oracle.places:
            if group == self.group:
                found = await self._committed(tp)
                image = self.client.image()
                topic = None if image is None else image.topic(tp.topic)
                self.oracle.check((group, tp), found, None if topic is None else topic.id)

    async def _committed(self, tp: TopicPartition) -> str:
        message = OffsetFetch.Request
        topic = message.OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition])
        request = message(groups=[message.OffsetFetchRequestGroup(group_id=self.group, topics=[topic])])
        while True:
            try:
                [group] = (await self.ask(request, 9, 1.0)).groups
                if not group.error_code:
                    return group.topics[0].partitions[0].metadata or NONE
            except errors.KafkaError:
                pass
            await self.pause()
