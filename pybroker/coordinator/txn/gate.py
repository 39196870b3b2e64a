"""Tells partition leaders whether a producer may write to their partitions in its transaction (KIP-890).

With ``add=False`` it only checks. If a write is late or its transaction is over, the partition is not part of the
transaction. Such a write would open a transaction that never ends. With ``add=True`` the leader adds the partition on
behalf of the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from pybroker.clock import Clock
from pybroker.config import BrokerConfig
from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.adding import Admission
from pybroker.coordinator.txn.transaction import V2
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError


class Coordinator(Protocol):
    """The coordinator of the transactional id."""

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        version: int,
    ) -> Awaitable[None]: ...

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Awaitable[Admission]: ...


class Gate:
    """Asks the coordinator. While the previous transaction is being ended, it asks again for a short time."""

    def __init__(
        self,
        coordinator: Coordinator,
        config: BrokerConfig,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._coordinator = coordinator
        self._config = config
        self._clock = clock
        self._sleep = sleep
        self._pause_s = config["add.partitions.to.txn.retry.backoff.ms"] / 1000
        self._patience_ms = config["add.partitions.to.txn.retry.backoff.max.ms"]

    async def admit(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Mapping[TopicPartition, KafkaError | None]:
        """Returns for each partition None, or the reason why the producer may not write to it."""
        if not add and not self._config["transaction.partition.verification.enable"]:
            return dict.fromkeys(partitions)
        try:
            if not add:
                return await self._coordinator.verify(transactional_id, producer, partitions)
            await self._add(transactional_id, producer, partitions)
        except errors.ProducerFenced as error:
            return dict.fromkeys(partitions, errors.InvalidProducerEpoch(str(error)))
        except KafkaError as error:
            return dict.fromkeys(partitions, error)
        return dict.fromkeys(partitions)

    async def _add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> None:
        until_ms = self._clock.monotonic_ms() + self._patience_ms
        while True:
            try:
                await self._coordinator.add(transactional_id, producer, partitions, V2)
                return
            except errors.ConcurrentTransactions:
                if self._clock.monotonic_ms() >= until_ms:
                    raise
            await self._sleep(self._pause_s)
