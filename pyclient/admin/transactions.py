"""Transactions and producers: list and describe them, end hanging ones (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

from pyclient.admin.base import Base, by_topic, names
from pyclient.admin.fan_out import Coordinators, Leaders, fan_out
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.types import (
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from pyclient.core.kinds import TRANSACTION
from pyclient.errors import KafkaError, UnsupportedByBroker, of_code
from pyclient.errors import check as check_code
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.protocol import (
    DescribeProducers,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    ListTransactions,
    WriteTxnMarkers,
)
from pyclient.protocol.acls import AclOperation
from pyclient.topic_partition import TopicPartition, partitions_of

_WITH_DURATION: Final = 1
_WITH_PATTERN: Final = 2
_ENDS_EPOCHS: Final = 2
"""The level of ``transaction.version`` from which EndTxn also raises the producer's epoch."""
_LAST_OF_VERSION_1: Final = 4


class Transactions(Base):
    """The part of the admin client for transactions."""

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """Returns the transactional ids of the cluster in order. Filters are exact. ``longer_than_ms`` selects those
        with a transaction that has been open for longer (KIP-994). ``pattern`` is an RE2 expression for the id
        (KIP-1152).
        """
        deadline = self._deadline(timeout)

        def message(version: int) -> ListTransactions.Request:
            request = ListTransactions.Request(
                state_filters=list(states), producer_id_filters=list(producer_ids)
            )
            if longer_than_ms >= 0:
                _need(version, _WITH_DURATION, "the duration of transactions")
                request.duration_filter = longer_than_ms
            if pattern is not None:
                _need(version, _WITH_PATTERN, "a pattern of transactional ids")
                request.transactional_id_pattern = pattern
            return request

        async def attempt() -> list[TransactionListing]:
            brokers = await self._brokers()
            answers = await asyncio.gather(
                *(self._client.send(node, ListTransactions, message) for node in brokers)
            )
            for answer in answers:
                check_code(answer.error_code)
            return [
                TransactionListing(row.transactional_id, row.producer_id, row.transaction_state)
                for answer in answers
                for row in answer.transaction_states
            ]

        return sorted(set(await self._client.retrying(attempt, deadline=deadline)))

    @needing(transactional_id=AclOperation.DESCRIBE)
    async def describe_transactions(
        self, ids: str | Iterable[str], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, TransactionDescription]:
        """Describes transactional ids. Raises the first error, for example TransactionalIdNotFound, unless
        ``check=False``.
        """

        async def ask(node: int, keys: list[str]) -> dict[str, TransactionDescription | KafkaError]:
            message = DescribeTransactions.Request(transactional_ids=keys)
            response = await self._client.send(node, DescribeTransactions, message)
            return {
                row.transactional_id: of_code(row.error_code) or _description(row, node)
                for row in response.transaction_states
            }

        places = Coordinators(self._client, TRANSACTION)
        results = await fan_out(self._client, names(ids), places, ask, self._deadline(timeout))
        return results.checked(check)

    @needing(topic=AclOperation.READ)
    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Returns the producers that the leaders of partitions know. Raises the first error unless ``check=False``."""
        request = DescribeProducers.Request

        async def ask(
            node: int, keys: list[TopicPartition]
        ) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
            rows = [
                request.TopicRequest(name=topic, partition_indexes=some)
                for topic, some in by_topic(keys).items()
            ]
            response = await self._client.send(node, DescribeProducers, request(topics=rows))
            return {
                TopicPartition(topic.name, row.partition_index): _producers(row)
                for topic in response.topics
                for row in topic.partitions
            }

        given = partitions_of(partitions)
        places = Leaders(self._client)
        results = await fan_out(self._client, given, places, ask, self._deadline(timeout))
        return results.checked(check)

    @needing(cluster=AclOperation.ALTER)
    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
        *,
        timeout: float | None = None,
    ) -> None:
        """Aborts a hanging transaction in one partition: one that the leader still has open (``describe_producers``),
        but that no coordinator knows.

        Do not use this for a live transaction, which it would damage; use ``fence_producers`` instead.
        """
        request = WriteTxnMarkers.Request
        marker = request.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            coordinator_epoch=max(0, coordinator_epoch),
            topics=[
                request.WritableTxnMarkerTopic(
                    name=partition.topic, partition_indexes=[partition.partition]
                )
            ],
        )

        async def ask(
            node: int, keys: list[TopicPartition]
        ) -> dict[TopicPartition, KafkaError | None]:
            response = await self._client.send(node, WriteTxnMarkers, request(markers=[marker]))
            return {
                TopicPartition(topic.name, row.partition_index): of_code(row.error_code)
                for each in response.markers
                for topic in each.topics
                for row in topic.partitions
            }

        deadline = self._deadline(timeout)
        results = await fan_out(self._client, [partition], Leaders(self._client), ask, deadline)
        results.checked()

    @needing(transactional_id=AclOperation.WRITE)
    async def end_transactions(
        self,
        prepared: Iterable[PreparedTransaction],
        *,
        commit: bool,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[str, None]:
        """Ends exactly these transactions, which other producers have prepared (``Producer.prepare_transaction``).

        If a producer has continued since, its transaction is refused (ProducerFenced, InvalidProducerEpoch,
        InvalidTxnState). Results are by transactional id. Raises the first error unless ``check=False``.
        """
        given = {one.transactional_id: one for one in prepared}

        async def one(node: int, key: str) -> KafkaError | None:
            message = EndTxn.Request(
                transactional_id=key,
                producer_id=given[key].producer_id,
                producer_epoch=given[key].epoch,
                committed=commit,
            )
            level = self._client.nodes.features(node).get("transaction.version", 0)
            bound = None if level >= _ENDS_EPOCHS else _LAST_OF_VERSION_1
            response = await self._client.send(node, EndTxn, message, max_version=bound)
            return of_code(response.error_code)

        async def ask(node: int, keys: list[str]) -> dict[str, KafkaError | None]:
            outcomes = await asyncio.gather(*(one(node, key) for key in keys), return_exceptions=True)
            return {key: _raised(outcome) for key, outcome in zip(keys, outcomes, strict=True)}

        places = Coordinators(self._client, TRANSACTION)
        results = await fan_out(self._client, given, places, ask, self._deadline(timeout))
        return results.checked(check)

    @needing(transactional_id=AclOperation.WRITE)
    async def fence_producers(
        self, ids: str | Iterable[str], *, timeout: float | None = None, check: bool = True
    ) -> Results[str, FencedProducer]:
        """Aborts the open transactions of transactional ids and fences their producers, which cannot continue. Raises
        the first error unless ``check=False``.
        """

        async def one(node: int, key: str) -> FencedProducer | KafkaError:
            message = InitProducerId.Request(
                transactional_id=key, transaction_timeout_ms=self._config.request_timeout_ms
            )
            response = await self._client.send(node, InitProducerId, message)
            return of_code(response.error_code) or FencedProducer(
                response.producer_id, response.producer_epoch
            )

        async def ask(node: int, keys: list[str]) -> dict[str, FencedProducer | KafkaError]:
            outcomes = await asyncio.gather(*(one(node, key) for key in keys))
            return dict(zip(keys, outcomes, strict=True))

        places = Coordinators(self._client, TRANSACTION)
        results = await fan_out(self._client, names(ids), places, ask, self._deadline(timeout))
        return results.checked(check)

    @needing(transactional_id=AclOperation.WRITE)
    async def force_terminate_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> None:
        """Aborts the open transaction of this transactional id and fences its producer (under the name of KIP-939)."""
        await self.fence_producers(transactional_id, timeout=timeout)


def _raised(outcome: KafkaError | BaseException | None) -> KafkaError | None:
    """Returns the error of one transaction, or None; raises an error that is not a broker's answer."""
    if outcome is None or isinstance(outcome, KafkaError):
        return outcome
    raise outcome


def _need(version: int, least: int, what: str) -> None:
    if version < least:
        raise UnsupportedByBroker(f"the broker is too old to filter by {what}")


def _description(
    row: DescribeTransactions.Response.TransactionState, node: int
) -> TransactionDescription:
    return TransactionDescription(
        node,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms,
        tuple(TopicPartition(each.topic, n) for each in row.topics for n in each.partitions),
    )


def _producers(
    row: DescribeProducers.Response.PartitionResponse,
) -> tuple[ProducerState, ...] | KafkaError:
    return of_code(row.error_code, row.error_message) or tuple(
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in row.active_producers
    )
