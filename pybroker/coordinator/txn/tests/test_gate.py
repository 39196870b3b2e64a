"""Whether a producer may write (fault 39)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.config import BrokerConfig
from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.adding import Admission
from pybroker.coordinator.txn.gate import Gate
from pybroker.coordinator.txn.tests.driver import A, B
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

PRODUCER = Producer(7, 0)


class Coordinator:
    """Answers with ``errors``, one after the other, and then with success."""

    def __init__(self, *failures: KafkaError) -> None:
        self.failures = list(failures)
        self.asked: list[Any] = []
        self.known: set[TopicPartition] = {A}

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], version: int
    ) -> None:
        self.asked.append(("add", transactional_id, producer, version))
        self._fail()
        self.known.update(partitions)

    async def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> Admission:
        self.asked.append(("verify", transactional_id, producer))
        self._fail()
        return {each: None if each in self.known else errors.TransactionAbortable() for each in partitions}


def admit(coordinator: Coordinator, *, add: bool, **settings: str) -> list[str | None]:
    """Returns the names of the outcomes for A and B. A sleep advances the clock."""
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    async def run() -> list[str | None]:
        gate = Gate(coordinator, BrokerConfig(settings), clock, sleep)
        found = await gate.admit("x", PRODUCER, [A, B], add=add)
        return [None if (error := found[each]) is None else error.name for each in (A, B)]

    return asyncio.run(run())


def test_verifying_returns_which_partitions_are_in_the_transaction() -> None:
    coordinator = Coordinator()
    assert admit(coordinator, add=False) == [None, "TRANSACTION_ABORTABLE"]
    assert coordinator.asked == [("verify", "x", PRODUCER)]


def test_adding_makes_partitions_part_of_it() -> None:
    coordinator = Coordinator()
    assert admit(coordinator, add=True) == [None, None]
    assert coordinator.asked == [("add", "x", PRODUCER, 2)]


@pytest.mark.parametrize("add", [True, False])
def test_an_error_is_that_of_every_partition(add: bool) -> None:
    assert admit(Coordinator(errors.NotCoordinator()), add=add) == ["NOT_COORDINATOR"] * 2


@pytest.mark.parametrize("add", [True, False])
def test_a_fenced_writer_gets_the_error_of_a_producer(add: bool) -> None:
    assert admit(Coordinator(errors.ProducerFenced()), add=add) == ["INVALID_PRODUCER_EPOCH"] * 2


def test_adding_waits_briefly_for_the_previous_transaction() -> None:
    coordinator = Coordinator(errors.ConcurrentTransactions(), errors.ConcurrentTransactions())
    assert admit(coordinator, add=True) == [None, None]
    assert len(coordinator.asked) == 3


def test_adding_does_not_wait_for_ever() -> None:
    coordinator = Coordinator(*(errors.ConcurrentTransactions() for _ in range(100)))
    assert admit(coordinator, add=True) == ["CONCURRENT_TRANSACTIONS"] * 2
    assert len(coordinator.asked) == 6


def test_verifying_does_not_wait() -> None:
    coordinator = Coordinator(errors.ConcurrentTransactions())
    assert admit(coordinator, add=False) == ["CONCURRENT_TRANSACTIONS"] * 2


def test_verification_may_be_switched_off_but_adding_may_not() -> None:
    off = {"transaction.partition.verification.enable": "false"}
    coordinator = Coordinator()
    assert admit(coordinator, add=False, **off) == [None, None]
    assert coordinator.asked == []
    admit(coordinator, add=True, **off)
    assert len(coordinator.asked) == 1
