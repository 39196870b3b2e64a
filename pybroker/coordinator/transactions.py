"""The transaction coordinator for handlers: one async method per API.

It finds the shard of a transactional id, and performs the shards' effects: markers, and new producer ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from pybroker.clock import Clock
from pybroker.cluster.metadata.image import NO_LEADER, TRANSACTIONS_TOPIC, MetadataImage
from pybroker.config import BrokerConfig
from pybroker.coordinator.partitioner import partition_for
from pybroker.coordinator.runtime import Decide, Replicas, Runtime
from pybroker.coordinator.shard import Producer, Result
from pybroker.coordinator.txn.adding import Admission
from pybroker.coordinator.txn.describing import Filter
from pybroker.coordinator.txn.gate import Coordinator, Gate
from pybroker.coordinator.txn.marker_sender import MarkerSender, Writer
from pybroker.coordinator.txn.marker_writer import MarkerWriter, Offsets
from pybroker.coordinator.txn.producer_ids import OutOfIds, SpareIds
from pybroker.coordinator.txn.remote import Peers, RemoteCoordinator, RemoteWriter, RoutedCoordinator
from pybroker.coordinator.txn.settings import TransactionSettings
from pybroker.coordinator.txn.shard import IdsWanted, TransactionShard
from pybroker.coordinator.txn.transaction import Ending
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import DescribeTransactions, ListTransactions, errors
from pyclient.protocol.errors import KafkaError

FEATURE: Final = "transaction.version"

logger = logging.getLogger(__name__)


class Metadata(Protocol):
    """The part of ``pybroker.cluster.metadata_cache.MetadataCache`` that this module uses."""

    image: MetadataImage


class ProducerIds(Protocol):
    """The part of ``pybroker.cluster.producer_ids.ProducerIds`` that this module uses."""

    async def next(self) -> int: ...


class TransactionCoordinator:
    """The transactional ids of the partitions of ``__transaction_state`` that this broker leads.

    Its owner must call ``runtime.on_leadership``, and create it on the broker's loop. ``markers`` writes markers into
    partitions that this broker leads.
    """

    def __init__(
        self,
        node_id: int,
        config: BrokerConfig,
        replicas: Replicas,
        metadata: Metadata,
        clock: Clock,
        producer_ids: ProducerIds,
        offsets: Offsets,
        peers: Peers | None = None,
    ) -> None:
        """``peers`` connects to other brokers, None if there are none."""
        self._node_id = node_id
        self._metadata = metadata
        self._peers = peers
        self._producer_ids = producer_ids
        self._spare_ids = SpareIds()
        self._filling: asyncio.Task[None] | None = None
        settings = TransactionSettings.from_config(config)
        timeout_ms = self._timeout_ms = config["request.timeout.ms"]
        self.runtime: Runtime[TransactionShard] = Runtime(
            TRANSACTIONS_TOPIC,
            lambda partition: TransactionShard(settings, self._spare_ids, self._version),
            replicas,
            clock,
            append_timeout_ms=timeout_ms,
            perform=self._perform,
        )
        self.markers = MarkerWriter(replicas, offsets, clock, timeout_ms)
        self._sender = MarkerSender(self, lambda: metadata.image, self._writer)
        self._gate = Gate(RoutedCoordinator(self._coordinator), config, clock)

    def close(self) -> None:
        """Unloads all transactions; waiting requests get NOT_COORDINATOR."""
        self._sender.close()
        if self._filling is not None:
            self._filling.cancel()
        self.runtime.close()

    def partition_of(self, transactional_id: str) -> int:
        """Returns the partition of ``__transaction_state`` that contains the id. Raises NotCoordinator while that topic
        does not exist.
        """
        topic = self._metadata.image.topic(TRANSACTIONS_TOPIC)
        if topic is None:
            raise errors.NotCoordinator(f"{TRANSACTIONS_TOPIC} does not exist yet")
        return partition_for(transactional_id, len(topic.partitions))

    def _version(self) -> int:
        return self._metadata.image.features.get(FEATURE, 0)

    # Requests

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Producer:
        """Returns the producer that owns the id from now on.

        ``expected`` is the caller's previous identity, or None. Raises InvalidRequest, InvalidTransactionTimeout,
        ProducerFenced, ConcurrentTransactions, and the errors of ``Runtime.submit``.
        """
        found: Producer = await self._submit(
            transactional_id,
            lambda shard, result: shard.init_producer_id(
                transactional_id, timeout_ms, expected, result
            ),
        )
        return found

    async def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        version: int,
    ) -> None:
        """Adds partitions to the transaction. ``version`` is the client's transaction version.

        Raises InvalidRequest, InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions, and the errors of
        ``Runtime.submit``.
        """
        await self._submit(
            transactional_id,
            lambda shard, result: shard.add(
                transactional_id, producer, partitions, version, result
            ),
        )

    async def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Admission:
        """Returns which of the partitions are part of the transaction. Raises the errors of ``add``."""
        found: Admission = await self._submit(
            transactional_id,
            lambda shard, result: shard.verify(transactional_id, producer, partitions, result),
        )
        return found

    async def end(
        self, transactional_id: str, producer: Producer, committed: bool, version: int
    ) -> Producer:
        """Commits or aborts the transaction, and returns when the outcome is durable.

        Returns the producer id and epoch with which a client of transactions v2 continues.

        Raises InvalidRequest, InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions, InvalidTxnState, and
        the errors of ``Runtime.submit``.
        """
        found: Producer = await self._submit(
            transactional_id,
            lambda shard, result: shard.end(
                transactional_id, producer, committed, version, result
            ),
        )
        return found

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Mapping[TopicPartition, KafkaError | None]:
        """Checks whether a producer may write to these partitions in its transaction (KIP-890).

        With ``add`` it adds them to the transaction, and begins one if necessary (for clients of transactions v2). They
        are durably part of it when this method returns. Returns for each partition None or an error:
        TransactionAbortable (not part of the transaction), InvalidProducerIdMapping, InvalidProducerEpoch,
        ConcurrentTransactions, InvalidRequest, NotCoordinator, CoordinatorLoadInProgress, CoordinatorNotAvailable.
        """
        producer = Producer(producer_id, producer_epoch)
        return await self._gate.admit(transactional_id, producer, partitions, add=add)

    async def describe(
        self, transactional_id: str
    ) -> DescribeTransactions.Response.TransactionState:
        """Describes one transactional id. Raises TransactionalIdNotFound, and what ``Runtime.submit`` raises."""
        found: DescribeTransactions.Response.TransactionState = await self._submit(
            transactional_id, lambda shard, result: shard.describe(transactional_id, result)
        )
        return found

    async def list(self, wanted: Filter) -> list[ListTransactions.Response.TransactionState]:
        """Lists the transactional ids here that match. Raises CoordinatorLoadInProgress."""
        found = await self.runtime.on_every_shard(
            lambda shard, result: shard.list(wanted, result)
        )
        return [each for some in found for each in some]

    async def _submit(self, transactional_id: str, decide: Decide[TransactionShard]) -> Any:
        if not transactional_id:
            raise errors.InvalidRequest("the transactional id is empty")
        partition = self.partition_of(transactional_id)
        while (reply := await self.runtime.submit(partition, partial(_attempt, decide))) is OutOfIds:
            await self._fill()
        return reply

    # # Effects

    def _perform(self, partition: int, effect: object) -> None:
        if isinstance(effect, Ending):
            self._sender.send(partition, self.runtime.leader_epoch(partition), effect)
        elif isinstance(effect, IdsWanted) and (self._filling is None or self._filling.done()):
            self._filling = asyncio.get_running_loop().create_task(self._fill_later())

    async def _fill(self) -> None:
        self._spare_ids.lay_by(await self._producer_ids.next())

    async def _fill_later(self) -> None:
        try:
            await self._fill()
        except KafkaError as error:
            logger.error("could not get a producer id for a transaction that has timed out: %s", error)

    def _writer(self, broker: int) -> Writer | None:
        """Returns the object that writes markers to this broker, or None if there is none."""
        if broker == self._node_id:
            return self.markers
        if broker == NO_LEADER or self._peers is None:
            return None
        return RemoteWriter(self._peers, broker, self._timeout_ms)

    def _coordinator(self, transactional_id: str) -> Coordinator:
        """Returns the coordinator of the id, according to the metadata. Raises NotCoordinator."""
        partition = self.partition_of(transactional_id) if transactional_id else 0
        image = self._metadata.image.partition(TRANSACTIONS_TOPIC, partition)
        leader = self._node_id if image is None else image.leader
        if leader == self._node_id or self._peers is None:
            return self
        if leader == NO_LEADER:
            raise errors.CoordinatorNotAvailable(f"{TRANSACTIONS_TOPIC}-{partition} has no leader")
        return RemoteCoordinator(self._peers, leader, self._timeout_ms)

    def is_hosted(self, partition: int, leader_epoch: int | None = None) -> bool:
        """Returns whether this broker coordinates the partition (in that epoch)."""
        return self.runtime.is_hosted(partition, leader_epoch)

    async def complete(self, partition: int, ending: Ending) -> None:
        """Notes that all markers of a transaction are written. Raises the errors of ``Runtime.submit``."""
        await self.runtime.submit(partition, lambda shard, result: shard.complete(ending, result))


def _attempt(
    decide: Callable[[TransactionShard, Result], None], shard: TransactionShard, result: Result
) -> None:
    """Runs the event. If it runs out of producer ids, it changes nothing and the reply is OutOfIds."""
    try:
        decide(shard, result)
    except OutOfIds:
        result.answer(OutOfIds)
