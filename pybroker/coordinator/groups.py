"""The group coordinator for handlers: one async method per API, with messages in and out.

It finds the shard of a group, and puts errors into the response where it has a field for them. Handlers translate topic
ids; here topics have names.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import OFFSETS_TOPIC, MetadataDelta, MetadataImage
from pybroker.config import BrokerConfig
from pybroker.coordinator.consumer_groups import ConsumerGroups
from pybroker.coordinator.group.join_responses import refusal
from pybroker.coordinator.group.joining import Caller
from pybroker.coordinator.group.keeping import Committed
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import GroupShard, Guard, OffsetsAsked
from pybroker.coordinator.group.state import DEAD
from pybroker.coordinator.partitioner import partition_for
from pybroker.coordinator.runtime import Decide, Replicas, Runtime
from pybroker.coordinator.shard import Producer
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import (
    ZERO_UUID,
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    SyncGroup,
    TxnOffsetCommit,
    errors,
)
from pyclient.protocol.errors import KafkaError

_FIRST_WITH_SEVERAL_LEAVING = 3
_FIRST_WITH_GROUP_ID_NOT_FOUND = 6
_FIRST_WITH_LOADING = 2
_FIRST_WITH_ABORTABLE = 4
_FIRST_THAT_ADDS = 5
MOST_ADMISSIONS = 3
"""How often a commit asks the transaction coordinator whether it belongs to an open transaction."""
_UNANSWERED = (errors.BrokerNotAvailable, errors.NetworkException)
"""Errors if another broker has the transactional id's coordinator and did not answer. Clients would not retry on them.
"""


class Transactions(Protocol):
    """The part of ``pybroker.coordinator.transactions.TransactionCoordinator`` that this module uses."""

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Awaitable[Mapping[TopicPartition, KafkaError | None]]: ...


class Metadata(Protocol):
    """The part of ``pybroker.cluster.metadata_cache.MetadataCache`` that this module uses."""

    image: MetadataImage


class GroupCoordinator:
    """The groups of the partitions of ``__consumer_offsets`` that this broker leads.

    Its owner must call ``runtime.on_leadership``, and create it on the broker's loop.
    """

    def __init__(
        self, config: BrokerConfig, replicas: Replicas, metadata: Metadata, clock: Clock
    ) -> None:
        self._settings = GroupSettings.from_config(config)
        self._metadata = metadata
        self.transactions: Transactions | None = None
        """Admits transactional commits. Set it before requests are served."""
        self.runtime: Runtime[GroupShard] = Runtime(
            OFFSETS_TOPIC,
            self._new_shard,
            replicas,
            clock,
            append_timeout_ms=config["offsets.commit.timeout.ms"],
            codec=config["offsets.topic.compression.codec"],
            perform=lambda partition, effect: self.consumers.perform(partition, effect),
        )
        self.consumers = ConsumerGroups(config, lambda: metadata.image, self.partition_of, self.runtime)
        """The groups of KIP-848."""

    def _new_shard(self, partition: int) -> GroupShard:
        return GroupShard(
            self._settings,
            lambda: str(uuid.uuid4()),
            lambda: self._metadata.image,
            self.consumers.facts,
        )

    def close(self) -> None:
        """Unloads all groups; waiting requests get NOT_COORDINATOR."""
        self.consumers.close()
        self.runtime.close()

    def partition_of(self, group_id: str) -> int:
        """Returns the partition of ``__consumer_offsets`` that contains the group. Raises NotCoordinator while that
        topic does not exist.
        """
        topic = self._metadata.image.topic(OFFSETS_TOPIC)
        if topic is None:
            raise errors.NotCoordinator(f"{OFFSETS_TOPIC} does not exist yet")
        return partition_for(group_id, len(topic.partitions))

    async def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Listens to the metadata cache: deletes the offsets of deleted topics.

        For interrupted deletions the key is the topic's id, because its name may be in use again.
        """
        gone = {
            topic.name: topic.id
            for key, topic in delta.deleted.items()
            if key == topic.name or image.topic(topic.name) is None
        }
        gone.pop(OFFSETS_TOPIC, None)
        if gone:
            self.runtime.tell_all(lambda shard, result: shard.forget_topics(gone, result))

    # Members

    async def join_group(self, request: JoinGroup.Request, caller: Caller) -> JoinGroup.Response:
        """Returns the response when the group has its next generation, or a refusal."""
        try:
            reply: JoinGroup.Response = await self._submit(
                _named(request.group_id),
                lambda shard, result: shard.join(request, caller, result),
            )
            return reply
        except KafkaError as error:
            return refusal(error, request.member_id)

    async def sync_group(self, request: SyncGroup.Request) -> SyncGroup.Response:
        """Returns the response when the member's assignment is known."""
        try:
            reply: SyncGroup.Response = await self._submit(
                _named(request.group_id),
                lambda shard, result: shard.sync(request, result),
            )
            return reply
        except KafkaError as error:
            return SyncGroup.Response(error_code=error.code)

    async def heartbeat(self, request: Heartbeat.Request) -> Heartbeat.Response:
        """Renews the member's session."""
        try:
            reply: Heartbeat.Response = await self._submit(
                _named(request.group_id),
                lambda shard, result: shard.heartbeat(request, result),
            )
            return reply
        except KafkaError as error:
            return Heartbeat.Response(error_code=error.code)

    async def leave_group(self, request: LeaveGroup.Request, version: int) -> LeaveGroup.Response:
        """Removes members; before v3 only one, whose error becomes the response's."""
        members = list(request.members)
        if version < _FIRST_WITH_SEVERAL_LEAVING:
            members = [LeaveGroup.Request.MemberIdentity(member_id=request.member_id)]
        try:
            outcomes = await self._submit(
                _named(request.group_id),
                lambda shard, result: shard.leave(request.group_id, members, result),
            )
        except errors.UnknownMemberId as error:
            outcomes = [_not_left(member, error) for member in members]
        except KafkaError as error:
            return LeaveGroup.Response(error_code=error.code)
        if version < _FIRST_WITH_SEVERAL_LEAVING:
            return LeaveGroup.Response(error_code=outcomes[0].error_code)
        return LeaveGroup.Response(members=outcomes)

    # Offsets

    async def offset_commit(
        self, request: OffsetCommit.Request, version: int
    ) -> OffsetCommit.Response:
        """Commits offsets."""
        try:
            reply: OffsetCommit.Response = await self._submit(
                request.group_id,
                lambda shard, result: shard.commit(request, version, result),
            )
            return reply
        except KafkaError as error:
            return _no_commit(request, error)

    async def txn_offset_commit(
        self, request: TxnOffsetCommit.Request, version: int
    ) -> TxnOffsetCommit.Response:
        """Commits offsets within a transaction."""
        try:
            return await self._commit_in_transaction(request, version)
        except errors.TransactionAbortable as error:
            told = error if version >= _FIRST_WITH_ABORTABLE else errors.InvalidTxnState()
            return _no_txn_commit(request, told)
        except errors.CoordinatorLoadInProgress as error:
            early = version < _FIRST_WITH_LOADING
            return _no_txn_commit(request, errors.CoordinatorNotAvailable() if early else error)
        except KafkaError as error:
            return _no_txn_commit(request, error)

    async def _commit_in_transaction(
        self, request: TxnOffsetCommit.Request, version: int
    ) -> TxnOffsetCommit.Response:
        """Commits the offsets. Checks the admission again if a marker came before the transaction coordinator answered.

        It may have been the marker of the previous transaction, written twice. Without the second check, the producer
        would fail for good.
        """
        for _ in range(MOST_ADMISSIONS):
            reply = await self._commit_if_admitted(request, version)
            if reply is not None:
                return reply
        raise errors.InvalidTxnState(
            f"producer {request.producer_id}: markers kept arriving while its offsets were committed"
        )

    async def _commit_if_admitted(
        self, request: TxnOffsetCommit.Request, version: int
    ) -> TxnOffsetCommit.Response | None:
        """Commits the offsets; returns None if a marker has made the transaction coordinator's answer out of date."""
        partition = self.partition_of(_named(request.group_id))
        producer = Producer(request.producer_id, request.producer_epoch)
        adds = version >= _FIRST_THAT_ADDS
        guard: Guard | None = await self.runtime.submit(
            partition,
            lambda shard, result: result.answer(shard.guard(producer, bumps_epochs=adds)),
        )
        try:
            if self.runtime.is_fenced(partition, producer):
                raise errors.InvalidProducerEpoch(f"another producer has replaced {producer}")
            if guard is not None:
                await self._admit(request, partition, add=adds)
                if not guard.holds:
                    return None
            reply: TxnOffsetCommit.Response = await self.runtime.submit(
                partition,
                lambda shard, result: shard.commit_in_transaction(
                    request, version, guard, self._topic_id, result
                ),
            )
            return reply
        finally:
            shard = self.runtime.loaded_shard(partition)
            if shard is not None and guard is not None:
                shard.drop_guard(producer, guard)

    async def _admit(
        self, request: TxnOffsetCommit.Request, partition: int, *, add: bool
    ) -> None:
        """Admits the group's partition to the producer's transaction. Raises the reason if it is refused."""
        if self.transactions is None:
            raise errors.CoordinatorNotAvailable("this broker has no transaction coordinator")
        name = TopicPartition(OFFSETS_TOPIC, partition)
        outcomes = await self.transactions.admit(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [name],
            add=add,
        )
        error = outcomes.get(name)
        if isinstance(error, errors.ProducerFenced):
            raise errors.InvalidProducerEpoch(str(error))
        if isinstance(error, _UNANSWERED):
            raise errors.CoordinatorLoadInProgress(str(error))
        if error is not None:
            raise error

    def _topic_id(self, name: str) -> bytes:
        topic = self._metadata.image.topic(name)
        return ZERO_UUID if topic is None else topic.id

    async def committed(self, asked: OffsetsAsked) -> Committed:
        """Returns the group's committed offsets (OffsetFetch), by topic and partition.

        A partition without an offset is ``offsets.NONE``. An offset that may change is ``offsets.UNSTABLE`` if that is
        requested. Raises NotCoordinator, CoordinatorLoadInProgress, UnknownMemberId, StaleMemberEpoch,
        IllegalGeneration.
        """
        found: Committed = await self._submit(
            asked.group_id, lambda shard, result: shard.fetch(asked, result)
        )
        return found

    async def offset_delete(self, request: OffsetDelete.Request) -> OffsetDelete.Response:
        """Deletes offsets of topics that the group does not read."""
        try:
            reply: OffsetDelete.Response = await self._submit(
                _named(request.group_id),
                lambda shard, result: shard.delete_offsets(request, result),
            )
            return reply
        except KafkaError as error:
            return OffsetDelete.Response(error_code=error.code)

    # Whole groups

    async def describe_group(
        self, group_id: str, version: int
    ) -> DescribeGroups.Response.DescribedGroup:
        """Describes one group. An unknown one is Dead, from v6 on with GROUP_ID_NOT_FOUND (KIP-1043)."""
        try:
            reply: DescribeGroups.Response.DescribedGroup = await self._submit(
                group_id, lambda shard, result: shard.describe(group_id, result)
            )
            return reply
        except errors.GroupIdNotFound as error:
            dead = DescribeGroups.Response.DescribedGroup(group_id=group_id, group_state=DEAD.value)
            if version >= _FIRST_WITH_GROUP_ID_NOT_FOUND:
                dead.error_code, dead.error_message = error.code, str(error)
            return dead
        except KafkaError as error:
            return DescribeGroups.Response.DescribedGroup(group_id=group_id, error_code=error.code)

    async def list_groups(self, request: ListGroups.Request) -> ListGroups.Response:
        """Lists the groups of this broker that have the requested states and types."""
        states = frozenset(name.strip().lower() for name in request.states_filter)
        types = frozenset(name.lower() for name in request.types_filter)
        try:
            found = await self.runtime.on_every_shard(
                lambda shard, result: shard.list_groups(states, types, result)
            )
        except KafkaError as error:
            return ListGroups.Response(error_code=error.code)
        return ListGroups.Response(groups=[group for groups in found for group in groups])

    async def delete_group(self, group_id: str) -> DeleteGroups.Response.DeletableGroupResult:
        """Deletes a group with its offsets, if it is empty."""
        outcome = DeleteGroups.Response.DeletableGroupResult(group_id=group_id)
        try:
            await self._submit(
                group_id, lambda shard, result: shard.delete_group(group_id, result)
            )
        except KafkaError as error:
            outcome.error_code = error.code
        return outcome

    async def _submit(self, group_id: str, decide: Decide[GroupShard]) -> Any:
        return await self.runtime.submit(self.partition_of(group_id), decide)


def _named(group_id: str) -> str:
    """Returns the id. Raises InvalidGroupId if it is empty, which is valid only for offsets."""
    if not group_id:
        raise errors.InvalidGroupId("a group with members needs a group.id")
    return group_id


def _not_left(
    member: LeaveGroup.Request.MemberIdentity, error: KafkaError
) -> LeaveGroup.Response.MemberResponse:
    return LeaveGroup.Response.MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=error.code,
    )


def _no_txn_commit(
    request: TxnOffsetCommit.Request, error: KafkaError
) -> TxnOffsetCommit.Response:
    """Returns a response with the same error for every partition."""
    return TxnOffsetCommit.Response(
        topics=[
            TxnOffsetCommit.Response.TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommit.Response.TxnOffsetCommitResponsePartition(
                        partition_index=asked.partition_index, error_code=error.code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _no_commit(request: OffsetCommit.Request, error: KafkaError) -> OffsetCommit.Response:
    """Returns a response with the same error for every partition."""
    return OffsetCommit.Response(
        topics=[
            OffsetCommit.Response.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommit.Response.OffsetCommitResponsePartition(
                        partition_index=asked.partition_index, error_code=error.code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
