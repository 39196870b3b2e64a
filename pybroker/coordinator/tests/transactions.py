"""A broker without sockets whose transaction coordinator works on real logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pybroker.cluster.metadata.image import TRANSACTIONS_TOPIC, TopicImage
from pybroker.coordinator.shard import Producer
from pybroker.coordinator.tests import harness
from pybroker.coordinator.transactions import FEATURE, TransactionCoordinator
from pybroker.topic_partition import TopicPartition

PATIENCE_S = 60.0
A = TopicPartition("t", 0)
B = TopicPartition("t", 1)


class ProducerIds:
    """Returns the ids 1000, 1001, …"""

    def __init__(self) -> None:
        self.last = 999

    async def next(self) -> int:
        self.last += 1
        return self.last


class Node(harness.Node):
    """Broker 1 with its groups and transactions; ``level`` is transaction.version."""

    def __init__(self, root: Path, *, level: int = 2, **settings: str) -> None:
        self.level = level
        self.producer_ids = ProducerIds()
        super().__init__(root, **settings)

    def start(self, deleted: Mapping[str, TopicImage] | None = None) -> None:
        super().start()
        self.metadata.image = replace(self.metadata.image, features={FEATURE: self.level})
        self.transactions = self.run(self._transactions())

    async def _transactions(self) -> TransactionCoordinator:
        transactions = TransactionCoordinator(
            self.node_id,
            self.config,
            self.replicas,
            self.metadata,
            self.clock,
            self.producer_ids,
            self.groups.runtime,
        )
        self.replicas.on_leadership(transactions.runtime.on_leadership)
        for tp, epoch in self.led:
            transactions.runtime.on_leadership(tp, epoch)
        return transactions

    def stop(self) -> None:
        self.transactions.close()
        super().stop()

    def state_topic(self, **options: Any) -> None:
        """Makes or changes ``__transaction_state``."""
        self.create(TRANSACTIONS_TOPIC, harness.PARTITIONS, **options)

    def init(self, id: str = "x", expected: Producer | None = None, timeout_ms: int = 60_000) -> Producer:
        """Sends InitProducerId, and returns the producer."""
        found: Producer = self.run(self.transactions.init_producer_id(id, timeout_ms, expected))
        return found

    def add(self, producer: Producer, *partitions: TopicPartition, id: str = "x") -> None:
        """Sends AddPartitionsToTxn as a client of transactions v2."""
        self.run(self.transactions.add(id, producer, partitions or (A, B), 2))

    def end(self, producer: Producer, committed: bool = True, id: str = "x") -> Producer:
        """Sends EndTxn v5, and returns the producer for the next transaction."""
        found: Producer = self.run(self.transactions.end(id, producer, committed, 2))
        return found

    def state(self, id: str = "x") -> str:
        """Returns the name of the transactional id's state."""
        state: str = self.run(self.transactions.describe(id)).transaction_state
        return state

    def until(self, id: str, state: str) -> None:
        """Lets the loop run until the transactional id is in that state."""
        for _ in range(100_000):
            if self.state(id) == state:
                return
            self.turn()
        raise AssertionError(f"{id} is {self.state(id)}, not {state}")


def until(node: Node, holds: Callable[[], bool]) -> None:
    """Waits until ``holds()``, even if a pause of the sender or a timer comes first."""
    deadline = node.loop.time() + PATIENCE_S
    while not holds():
        assert node.loop.time() < deadline
        node.clock.advance(10)
        node.loop.run_until_complete(asyncio.sleep(0.005))
