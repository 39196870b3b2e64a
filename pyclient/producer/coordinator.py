"""The requests of a transactional producer to its transaction coordinator and to group coordinators, with retries.

Transactions have two versions. In version 1, partitions and groups are added by requests of their own. In version 2
(KIP-890), Produce and TxnOffsetCommit add them, and EndTxn returns the next epoch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyclient.core.deadline import MAX_BLOCK, Deadline
from pyclient.core.kinds import GROUP, TRANSACTION
from pyclient.core.kinds import Coordinator as Kind
from pyclient.core.reports.rights import PRODUCING, TOPIC, Needs
from pyclient.errors import COORDINATOR_MOVED, KafkaError, of_code
from pyclient.producer.in_flight import Identity
from pyclient.producer.settings import Settings
from pyclient.protocol import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    TxnOffsetCommit,
)
from pyclient.protocol.acls import AclOperation
from pyclient.protocol.errors import NONE, OperationNotAttempted, UnknownServerError, UnknownTopicOrPartition
from pyclient.topic_partition import TopicPartition, partition_of

if TYPE_CHECKING:
    from pyclient.core.client import Client
    from pyclient.protocol.apis import Api

NOT_AT_FAULT = frozenset((NONE, OperationNotAttempted.code))
"""A partition with one of these errors was added, or was not tried because another partition of the request failed."""
V1_END, V1_OFFSETS, V1_ADD = 4, 4, 3
"""The last versions of EndTxn and TxnOffsetCommit in version 1 of transactions, and of AddPartitionsToTxn for clients.
"""
OFFSETS: Final = {**PRODUCING, TOPIC: AclOperation.READ}
"""The rights that a commit of offsets needs."""
NAMES_VERSION: Final = 5
"""The last version of TxnOffsetCommit with topic names; later ones have ids. The offsets that applications commit
belong to names.
"""


class Coordinator:
    """Talks to the coordinator of one transactional id. Raises KafkaError, a retriable one only after max.block.ms."""

    def __init__(self, client: Client, settings: Settings) -> None:
        assert settings.transactional_id is not None
        self.client = client
        self.settings = settings
        self.id = settings.transactional_id
        self.is_version_1 = False
        """True if the cluster's transactions have version 1; known after ``init`` or ``find_version``."""

    async def init(self, known: Identity) -> Identity:
        """Returns a new producer id, or the next epoch of ``known``."""
        identity: Identity = await self._retrying(lambda: self._init(known))
        return identity

    async def find_version(self) -> None:
        """Finds out which version of transactions the cluster has finalized."""
        features = self.client.nodes.features(await self.client.coordinator(self.id, TRANSACTION))
        self.is_version_1 = features.get("transaction.version", 0) < 2

    async def add(self, identity: Identity, places: Iterable[tuple[str, int]]) -> None:
        """Adds these partitions to the transaction (version 1)."""
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        await self._retrying(lambda: self._add(identity, topics))

    async def send_offsets(
        self, identity: Identity, offsets: Mapping[TopicPartition, Any], member: Any
    ) -> None:
        """Commits offsets with the transaction. ``member`` comes from ``member_of``."""
        if self.is_version_1:
            await self._retrying(lambda: self._add_group(identity, member.group_id))
        await self._retrying(lambda: self._commit_offsets(identity, offsets, member))

    async def end(self, identity: Identity, commit: bool) -> Identity | None:
        """Ends the transaction. Returns the identity of the next one, None if it does not change."""
        response = await self._retrying(lambda: self._end(identity, commit))
        if response.producer_id < 0:
            return None
        return Identity(response.producer_id, response.producer_epoch)

    # -- requests ----------------------------------------------------------------------------------

    async def _retrying(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        deadline = Deadline(self.client.clock() + self.settings.max_block, MAX_BLOCK)
        return await self.client.retrying(attempt, deadline=deadline)

    async def _request(self, api: Api, request: Any, *, max_version: int | None = None) -> Any:
        """Sends one request to the coordinator of the transactional id."""
        node = await self.client.coordinator(self.id, TRANSACTION)
        try:
            return await self.client.send(node, api, request, max_version=max_version)
        except KafkaError as error:
            if error.retriable:
                self.client.coordinator_lost(self.id, TRANSACTION)
            raise

    def _check(self, code: int, **names: str) -> None:
        """Raises the error of a coordinator's response. ``names`` name the topic or group that it is about."""
        self._raise(of_code(code), self.id, TRANSACTION, None, **names)

    def _raise(self, error: KafkaError | None, key: str, kind: Kind, needs: Needs | None, **names: str) -> None:
        """Raises an error that the coordinator of ``key`` returned, and forgets a broker that is no longer the
        coordinator.
        """
        if error is None:
            return
        if error.name in COORDINATOR_MOVED:
            self.client.coordinator_lost(key, kind)
        raise self.client.rights.told(error, needs, transactional_id=self.id, **names)

    async def _init(self, known: Identity) -> Identity:
        request = InitProducerId.Request(
            transactional_id=self.id,
            transaction_timeout_ms=self.settings.transaction_timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
        )
        response = await self._request(InitProducerId, request)
        self._check(response.error_code)
        await self.find_version()
        return Identity(response.producer_id, response.producer_epoch)

    async def _add(self, identity: Identity, topics: Mapping[str, list[int]]) -> None:
        request = AddPartitionsToTxn.Request(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxn.Request.AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )
        response = await self._request(AddPartitionsToTxn, request, max_version=V1_ADD)
        rows = [
            (row.partition_error_code, topic.name)
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
        nothing = UnknownServerError.code, ""
        code, topic = max(rows, key=lambda row: row[0] not in NOT_AT_FAULT, default=nothing)
        self._check(code, topic=topic)

    async def _add_group(self, identity: Identity, group_id: str) -> None:
        request = AddOffsetsToTxn.Request(
            transactional_id=self.id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        self._check((await self._request(AddOffsetsToTxn, request)).error_code, group=group_id)

    async def _commit_offsets(
        self, identity: Identity, offsets: Mapping[TopicPartition, Any], group: Any
    ) -> None:
        node = await self.client.coordinator(group.group_id, GROUP)
        request = TxnOffsetCommit.Request(
            transactional_id=self.id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_offset_topics(offsets),
        )
        try:
            response = await self.client.send(
                node, TxnOffsetCommit, request, max_version=V1_OFFSETS if self.is_version_1 else NAMES_VERSION
            )
        except KafkaError:
            self.client.coordinator_lost(group.group_id, GROUP)
            raise
        for topic in response.topics:
            for row in topic.partitions:
                error = of_code(row.error_code)
                if isinstance(error, UnknownTopicOrPartition):
                    error = UnknownTopicOrPartition(f"{topic.name}-{row.partition_index}: {error}")
                self._raise(error, group.group_id, GROUP, OFFSETS, topic=topic.name, group=group.group_id)

    async def _end(self, identity: Identity, commit: bool) -> Any:
        request = EndTxn.Request(
            transactional_id=self.id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )
        response = await self._request(
            EndTxn, request, max_version=V1_END if self.is_version_1 else None
        )
        self._check(response.error_code)
        return response


MEMBERSHIP: Final = ("group_id", "generation_id", "member_id", "group_instance_id")
"""The attributes that describe a member of a group."""


class Member:
    """Takes the place of a member if only the name of its group is given."""

    generation_id = -1
    member_id = ""
    group_instance_id = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id


def member_of(group: Any) -> Any:
    """Returns the member for a consumer, its group metadata, or the name of a group. Raises TypeError."""
    if isinstance(group, str):
        return Member(group)
    metadata = getattr(group, "group_metadata", None)
    member = metadata() if callable(metadata) else group
    if not all(hasattr(member, name) for name in MEMBERSHIP):
        wanted = "what consumer.group_metadata() returns, a consumer, or the name of a group"
        raise TypeError(f"group: expected {wanted}, not {type(group).__name__}")
    return member


def check_offsets(offsets: Any) -> None:
    """Raises TypeError if ``offsets`` is not a mapping of TopicPartition to offsets, for example confluent-kafka's list
    of partitions.
    """
    if not isinstance(offsets, Mapping):
        wanted = "a mapping of TopicPartition to the next offset, such as consumer.positions()"
        raise TypeError(f"offsets: expected {wanted}, not {type(offsets).__name__}")
    for tp, position in offsets.items():
        known, offset = partition_of(tp), getattr(position, "offset", position)
        if not hasattr(offset, "__index__"):
            raise TypeError(f"offset {offset!r} of {known} is not an int")


def _offset_topics(
    offsets: Mapping[TopicPartition, Any],
) -> list[TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic]:
    """Groups offsets by topic. A value is a number, or has ``offset``, ``metadata`` and ``leader_epoch``."""
    topics: dict[str, list[Any]] = {}
    for (topic, partition), position in offsets.items():
        offset = getattr(position, "offset", position)
        topics.setdefault(topic, []).append(
            TxnOffsetCommit.Request.TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=_or(getattr(position, "leader_epoch", None), -1),
                committed_metadata=_or(getattr(position, "metadata", None), ""),
            )
        )
    return [
        TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic(name=name, partitions=rows)
        for name, rows in topics.items()
    ]


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
