"""Transactions (KIP-98, KIP-360, KIP-447), of version 2 (KIP-890) where the cluster has finalized it.

Version 1: each partition is added by AddPartitionsToTxn before the first batch goes to it, and the
epoch stays unless something failed. Version 2: Produce and TxnOffsetCommit add by themselves, and
EndTxn answers with the next epoch, so nothing of an old transaction can reach a later one.

    UNINITIALIZED -init-> READY -begin-> OPEN -commit, abort-> READY
    OPEN -a batch or a call fails-> FAILED -abort-> READY
    OPEN -commit-> ENDING -no answer in max.block.ms-> ENDING -commit again, abort-> READY
    any -fenced, not authorized-> FATAL

When a commit was asked for and not answered, the transaction may be committed, or be so any time
from now. An abort would be refused, or worse, meet the next transaction. InitProducerId with the
epoch that one has ends the matter: the coordinator completes a commit that it has begun, aborts what
is open, and answers with a new epoch, under which nothing of the old one counts (KIP-360).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from cy.producer_batch import ProducerBatch
from pyclient.core.client import GROUP, TRANSACTION
from pyclient.errors import KafkaError, of_code
from pyclient.producer.errors import TransactionAborted, TransactionError
from pyclient.producer.identity import Identities
from pyclient.producer.lane import Identity, Lane
from pyclient.producer.settings import Settings
from pyclient.protocol import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    TxnOffsetCommit,
)
from pyclient.protocol.errors import InvalidTxnState
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.client import Client
    from pyclient.protocol.apis import Api

log = logging.getLogger("pyclient.producer")
FATAL = frozenset((47, 49, 50, 53, 90))
"""INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, INVALID_TRANSACTION_TIMEOUT,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, PRODUCER_FENCED.
"""
COORDINATOR = frozenset((14, 15, 16))
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
V1_END, V1_OFFSETS, V1_ADD = 4, 4, 3
"""The last versions of EndTxn, TxnOffsetCommit that are of transactions version 1; of
AddPartitionsToTxn that are the clients'.
"""


class State(Enum):
    """Of the producer's transaction."""

    UNINITIALIZED = "init_transactions() has not been called"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    ENDING = "the transaction is being ended"
    FAILED = "the transaction has failed and can only be aborted"
    FATAL = "the producer can do nothing more"


class Transactions(Identities):
    """The transactions of one producer; one at a time."""

    def __init__(self, client: Client, settings: Settings) -> None:
        super().__init__(client, settings)
        assert settings.transactional_id is not None
        self.id = settings.transactional_id
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        """Why it is FAILED or FATAL."""
        self.is_version_1 = False
        self._touched = False
        """The coordinator knows, or may know, of the open transaction."""
        self._gap = False
        """Sequences were given to batches that may never have been written."""
        self._asked = False
        """A commit was asked for; nobody knows yet whether it happened."""
        self.is_left = False
        """A ``transaction()`` block is over, and its transaction could not be ended."""
        self._lanes: dict[Lane, None] = {}
        self._wanted: dict[Lane, None] = {}

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """Nothing is sent again in this transaction."""
        return self.state in (State.FAILED, State.FATAL)

    # -- what the sender asks ----------------------------------------------------------------------

    def admits(self, lane: Lane, batch: ProducerBatch) -> bool:
        """Batches go while the transaction is open; in version 1 once their partition was added."""
        if self.current is None or self.state not in (State.OPEN, State.ENDING):
            return False
        if self.is_version_1 and not lane.added:
            self._add(lane)
            return False
        self._touched = True
        self._lanes[lane] = None
        return self._adopt(lane, self.current)

    def renew(self, lane: Lane) -> None:
        """There is a gap in the sequences: only an abort cures it, by the identity that it gives."""
        if self.current is not None and lane.identity != self.current:
            lane.reset(self.current)

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """The transaction cannot be committed."""
        self._gap = self._gap or batch.order > 0
        if isinstance(error, TransactionAborted):
            return
        if error.code == 90 or error.code in (31, 53):
            self._fail(error, State.FATAL)
        elif self.state in (State.OPEN, State.ENDING):
            self._fail(error, State.FAILED)

    def _fail(self, error: KafkaError, state: State) -> None:
        """What still waits to be sent will never be, so whoever waits for it is told now."""
        if self.state is not State.FATAL:
            self.state, self.error = state, error
        self.give_up(self.refusal())

    def refusal(self) -> KafkaError:
        if self.state is State.FATAL and self.error is not None:
            return self.error
        aborted = TransactionAborted()
        aborted.__cause__ = self.error
        return aborted

    @property
    def can_abort(self) -> bool:
        """There is a transaction, and it may be aborted."""
        return self.state in (State.OPEN, State.ENDING, State.FAILED)

    def check_open(self) -> None:
        """Raises what ``send`` raises outside of a transaction."""
        self._require(State.OPEN)

    def _require(self, *states: State) -> None:
        if self.state in states:
            return
        if self.error is not None and self.is_over:
            raise TransactionError(f"{self.state.value}: {self.error}") from self.error
        raise TransactionError(self.state.value)

    # -- partitions of version 1 -------------------------------------------------------------------

    def _add(self, lane: Lane) -> None:
        self._wanted[lane] = None
        if self._task is None:
            self._task = self.client.loop.create_task(self._add_wanted())

    async def _add_wanted(self) -> None:
        try:
            await asyncio.sleep(0)
            lanes, self._wanted = list(self._wanted), {}
            self._touched = True
            await self._retrying(lambda: self._ask_to_add(lanes))
            for lane in lanes:
                lane.added = True
                self._lanes[lane] = None
        except KafkaError as error:
            self._failed(error)
        finally:
            self._task = None
        self.resume()

    async def _ask_to_add(self, lanes: list[Lane]) -> None:
        topics: dict[str, list[int]] = {}
        for lane in lanes:
            topics.setdefault(lane.queue.topic, []).append(lane.queue.partition)
        request = AddPartitionsToTxn.Request(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxn.Request.AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )
        response = await self._request(AddPartitionsToTxn, request, max_version=V1_ADD)
        codes = [
            row.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
        self._check(max(codes, key=lambda code: code not in (0, 55)))

    # -- requests ----------------------------------------------------------------------------------

    @property
    def _identity(self) -> Identity:
        if self.current is None:
            raise TransactionError(State.UNINITIALIZED.value)
        return self.current

    async def _request(self, api: Api, request: Any, *, max_version: int | None = None) -> Any:
        """One request to the coordinator of the transactional id."""
        node = await self.client.coordinator(self.id, TRANSACTION)
        try:
            return await self.client.send(node, api, request, max_version=max_version)
        except KafkaError as error:
            if error.retriable:
                self.client.coordinator_lost(self.id, TRANSACTION)
            raise

    def _check(self, code: int) -> None:
        """Raises the error of a response of the coordinator."""
        if code in COORDINATOR:
            self.client.coordinator_lost(self.id, TRANSACTION)
        error = of_code(code)
        if error is not None:
            raise error

    async def _retrying(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        deadline = self.client.clock() + self.settings.max_block
        return await self.client.retrying(attempt, deadline=deadline)

    def _failed(self, error: KafkaError) -> None:
        """A call of the open transaction has failed."""
        self._fail(error, State.FATAL if error.code in FATAL else State.FAILED)

    # -- what applications call --------------------------------------------------------------------

    async def init(self) -> None:
        """Gets the producer id, after ending what an earlier producer of this id left open; that
        one is fenced. Raises KafkaError.
        """
        self._require(State.UNINITIALIZED, State.READY)
        try:
            await self._retrying(lambda: self._init(Identity(-1, -1)))
        except KafkaError as error:
            if not error.retriable:
                self._fail(error, State.FATAL)
            raise
        self.state = State.READY

    async def _init(self, known: Identity) -> None:
        request = InitProducerId.Request(
            transactional_id=self.id,
            transaction_timeout_ms=self.settings.transaction_timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
        )
        response = await self._request(InitProducerId, request)
        self._check(response.error_code)
        await self._find_version()
        self.current = Identity(response.producer_id, response.producer_epoch)

    async def _find_version(self) -> None:
        """The version of transactions that the cluster has finalized."""
        versions = self.client.versions(await self.client.coordinator(self.id, TRANSACTION))
        features = {} if versions is None else versions.features
        self.is_version_1 = features.get("transaction.version", 0) < 2

    def begin(self) -> None:
        """Opens a transaction; brokers learn of it by what it does."""
        self._require(State.READY)
        self.state = State.OPEN
        self._touched = False

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits consumer offsets with the transaction (KIP-447)."""
        self._require(State.OPEN)
        if not offsets:
            return
        self._touched = True
        try:
            if self.is_version_1:
                await self._retrying(lambda: self._add_offsets(_group(group).group_id))
            await self._retrying(lambda: self._commit_offsets(offsets, _group(group)))
        except KafkaError as error:
            self._failed(error)
            raise

    async def _add_offsets(self, group_id: str) -> None:
        request = AddOffsetsToTxn.Request(
            transactional_id=self.id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=group_id,
        )
        self._check((await self._request(AddOffsetsToTxn, request)).error_code)

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        node = await self.client.coordinator(group.group_id, GROUP)
        request = TxnOffsetCommit.Request(
            transactional_id=self.id,
            group_id=group.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_offset_topics(offsets),
        )
        try:
            response = await self.client.send(
                node, TxnOffsetCommit, request, max_version=V1_OFFSETS if self.is_version_1 else None
            )
        except KafkaError:
            self.client.coordinator_lost(group.group_id, GROUP)
            raise
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code in COORDINATOR:
                    self.client.coordinator_lost(group.group_id, GROUP)
                error = of_code(row.error_code)
                if error is not None:
                    raise error

    async def commit(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Sends everything, then commits. Raises TransactionError if the transaction has failed:
        abort it. If the error is retriable, the outcome is unknown: call again, or abort.
        """
        self._require(State.OPEN, State.ENDING)
        self.state = State.ENDING
        await flush()
        self._require(State.ENDING)
        await self._end(self._commit)

    async def _commit(self) -> None:
        self._asked = True
        try:
            await self._retrying(lambda: self._ask_to_end(True))
        except KafkaError as error:
            self._asked = error.retriable
            raise
        self._asked = False

    async def abort(self, drain: Callable[[], Awaitable[None]]) -> None:
        """Drops what was not sent, waits for what was, and aborts. After a commit of unknown
        outcome the transaction may turn out to be committed, which is logged.
        """
        self._require(State.OPEN, State.ENDING, State.FAILED)
        self.state, self.error = State.FAILED, self.error or TransactionAborted()
        await drain()
        self._require(State.FAILED)
        await self._end(self._abort)

    async def _abort(self) -> None:
        needs_epoch = self.is_version_1 and (self._gap or self._asked)
        try:
            await self._retrying(lambda: self._ask_to_end(False))
        except InvalidTxnState:
            if not self._asked:
                raise
            log.warning("%s: the commit that was not answered has happened", self.id)
            needs_epoch = True
        if needs_epoch:
            await self._retrying(lambda: self._init(self._identity))
        self._gap = self._asked = False

    async def _end(self, how: Callable[[], Awaitable[None]]) -> None:
        if self._touched:
            try:
                await how()
            except KafkaError as error:
                if not error.retriable:
                    self._failed(error)
                raise
        for lane in self._lanes:
            lane.added = False
        self._lanes = {}
        self.state, self.error, self.is_left = State.READY, None, False

    async def _ask_to_end(self, commit: bool) -> None:
        response = await self._end_of(self._identity, commit)
        if response.producer_id >= 0:
            self.current = Identity(response.producer_id, response.producer_epoch)

    async def _end_of(self, identity: Identity, commit: bool) -> Any:
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

    async def end_of(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends the transaction that this producer id and epoch, perhaps another process's, has open
        under this transactional id. Needs no ``init``, which would abort it.
        """
        await self.client.coordinator(self.id, TRANSACTION)
        if self.state is State.UNINITIALIZED:
            await self._find_version()
        await self._retrying(lambda: self._end_of(Identity(producer_id, epoch), commit))


class _Group:
    """A group by its name alone."""

    generation_id = -1
    member_id = ""
    group_instance_id = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id


def _group(group: Any) -> Any:
    """The metadata of a group: the consumer's, or what stands for its name."""
    return _Group(group) if isinstance(group, str) else group


def _offset_topics(
    offsets: Mapping[TopicPartition, Any],
) -> list[TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic]:
    """``offsets``: to a number, or to what has ``offset``, ``metadata`` and ``leader_epoch``."""
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
