"""Requests of transactions to other brokers: it sends them markers for the partitions that they lead, and asks their
coordinators.

The two have separate connections: a marker waits until all in-sync replicas have it, and the first write of another
transaction must not wait behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.adding import Admission
from pybroker.coordinator.txn.gate import Coordinator
from pybroker.coordinator.txn.marker_writer import Outcomes
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import AddPartitionsToTxn, WriteTxnMarkers, errors
from pyclient.protocol.errors import KafkaError

MARKERS = "markers"
ADMISSION = "admission"


class Peers(Protocol):
    """The part of ``pybroker.net.peer.Peers`` that this module uses."""

    def request(self, node_id: int, message: Any, *, timeout_ms: int, purpose: str) -> Awaitable[Any]: ...


class RemoteWriter:
    """Writes markers into partitions that one other broker leads."""

    def __init__(self, peers: Peers, broker: int, timeout_ms: int) -> None:
        self._peers = peers
        self._broker = broker
        self._timeout_ms = timeout_ms

    async def write(self, marker: EndTxnMarker, partitions: Sequence[TopicPartition]) -> Outcomes:
        """Like ``MarkerWriter.write``. If that broker does not answer, all outcomes are NetworkException,
        RequestTimedOut or BrokerNotAvailable.
        """
        request = WriteTxnMarkers.Request(markers=[_marker(marker, partitions)])
        try:
            response = await self._peers.request(
                self._broker, request, timeout_ms=self._timeout_ms, purpose=MARKERS
            )
        except KafkaError as error:
            return dict.fromkeys(partitions, error)
        codes = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for result in response.markers
            for topic in result.topics
            for each in topic.partitions
        }
        return {each: _error(codes.get(each)) for each in partitions}


def _marker(
    marker: EndTxnMarker, partitions: Iterable[TopicPartition]
) -> WriteTxnMarkers.Request.WritableTxnMarker:
    request = WriteTxnMarkers.Request
    return request.WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        topics=[
            request.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in _by_topic(partitions).items()
        ],
    )


class RemoteCoordinator:
    """The coordinator on another broker, which the leaders of partitions here ask (KIP-890)."""

    def __init__(self, peers: Peers, broker: int, timeout_ms: int) -> None:
        self._peers = peers
        self._broker = broker
        self._timeout_ms = timeout_ms

    async def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], version: int
    ) -> None:
        """Adds partitions to the transaction of a client of v2. Raises the first KafkaError."""
        outcomes = await self._ask(transactional_id, producer, partitions, verify_only=False)
        refusals = [error for error in outcomes.values() if error is not None]
        for error in refusals:
            if not isinstance(error, errors.OperationNotAttempted):
                raise error
        if refusals:
            raise refusals[0]

    async def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Admission:
        """Returns which of the partitions are part of the transaction."""
        return await self._ask(transactional_id, producer, partitions, verify_only=True)

    async def _ask(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, verify_only: bool
    ) -> Mapping[TopicPartition, KafkaError | None]:
        message = AddPartitionsToTxn.Request
        transaction = message.AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            verify_only=verify_only,
            topics=[
                message.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in _by_topic(partitions).items()
            ],
        )
        response = await self._peers.request(
            self._broker, message(transactions=[transaction]), timeout_ms=self._timeout_ms, purpose=ADMISSION
        )
        codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for result in response.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        return {each: _error(codes.get(each)) for each in partitions}


class RoutedCoordinator:
    """Finds the coordinator of a transactional id, here or on another broker, for a ``Gate``.

    ``find(transactional id)`` returns it, or raises NotCoordinator.
    """

    def __init__(self, find: Callable[[str], Coordinator]) -> None:
        self._find = find

    async def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], version: int
    ) -> None:
        """Adds the partitions on the broker that has the transaction; see ``TransactionCoordinator.add``."""
        await self._find(transactional_id).add(transactional_id, producer, partitions, version)

    async def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Admission:
        """Asks the broker that has the transaction; see ``TransactionCoordinator.verify``."""
        return await self._find(transactional_id).verify(transactional_id, producer, partitions)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return topics


def _error(code: int | None) -> KafkaError | None:
    """Returns the error that a code means. A missing answer is an error, too."""
    if code is None:
        return errors.UnknownServerError("the answer does not contain the partition")
    found = errors.by_code(code)
    return None if found is None else found()
