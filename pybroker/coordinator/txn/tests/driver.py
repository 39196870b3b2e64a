"""Drives a shard without a runtime: the log is a list, the clock a number, and effects are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pybroker.coordinator.shard import Moment, Producer, Record, Result
from pybroker.coordinator.skipping import Skipped
from pybroker.coordinator.txn.describing import Filter
from pybroker.coordinator.txn.producer_ids import SpareIds
from pybroker.coordinator.txn.settings import TransactionSettings
from pybroker.coordinator.txn.shard import TransactionShard
from pybroker.coordinator.txn.transaction import Ending, Transaction
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors
from pyclient.protocol.errors import KafkaError

WALL = 1_700_000_000_000
ID = "x"
TIMEOUT_MS = 60_000
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


class Driver:
    """One shard, loaded from ``log``; ``level`` is the finalized transaction.version."""

    def __init__(self, log: list[Record] | None = None, *, level: int = 2, ids: int = 100, **settings: int) -> None:
        self.log = log if log is not None else []
        self.level = level
        self.monotonic_ms = 0
        self.refuses = False
        self.effects: list[Any] = []
        self.ids = SpareIds()
        for number in range(ids):
            self.ids.lay_by(1000 + number)
        self.shard = TransactionShard(TransactionSettings(**settings), self.ids, lambda: self.level)
        skipped = Skipped("the log")
        for record in self.log:
            skipped.replay(self.shard, record, None)
        self.perform(self.shard.loaded)

    @property
    def state(self) -> Transaction:
        """The transactional id that most tests use."""
        return self.shard.transactions[ID]

    @property
    def endings(self) -> list[Ending]:
        return [effect for effect in self.effects if isinstance(effect, Ending)]

    def reloaded(self, **options: Any) -> Driver:
        """Returns a coordinator that has loaded only the log."""
        return Driver(list(self.log), level=self.level, **options)

    # The work of a runtime

    def perform(self, event: Callable[[Result], None]) -> Any:
        """Carries out one event and returns its answer. Raises the answer if it is an error."""
        result = Result(Moment(WALL + self.monotonic_ms, self.monotonic_ms), "token")
        event(result)
        if result.records and self.refuses:
            raise errors.CoordinatorNotAvailable
        for record in result.records:
            self.log.append(record)
            self.shard.replay(record, None)
        self.effects += result.effects
        for _, answer in result.replies:
            if isinstance(answer, KafkaError):
                raise answer
            return answer
        return None

    def pass_ms(self, milliseconds: int) -> None:
        """Advances the clock. Every timer fires at its time."""
        end = self.monotonic_ms + milliseconds
        timers = self.shard.timers
        while (deadline := timers.next_deadline_ms) is not None and deadline <= end:
            self.monotonic_ms = max(self.monotonic_ms, deadline)
            timer = timers.pop(self.monotonic_ms)
            assert timer is not None
            with suppress(errors.CoordinatorNotAvailable):
                self.perform(timer.action)
        self.monotonic_ms = end

    # Requests

    def init(self, expected: Producer | None = None, *, timeout_ms: int = TIMEOUT_MS, id: str = ID) -> Producer:
        producer: Producer = self.perform(
            lambda result: self.shard.init_producer_id(id, timeout_ms, expected, result)
        )
        return producer

    def add(self, producer: Producer, *partitions: TopicPartition, version: int = 2, id: str = ID) -> None:
        wanted = partitions or (A,)
        self.perform(lambda result: self.shard.add(id, producer, wanted, version, result))

    def verify(self, producer: Producer, *partitions: TopicPartition, id: str = ID) -> list[str | None]:
        """Returns the names of the outcomes, in the order of the partitions."""
        found = self.perform(lambda result: self.shard.verify(id, producer, partitions, result))
        return [found[each] and found[each].name for each in partitions]

    def end(self, producer: Producer, committed: bool = True, *, version: int = 2, id: str = ID) -> Producer:
        following: Producer = self.perform(
            lambda result: self.shard.end(id, producer, committed, version, result)
        )
        return following

    def commit(self, producer: Producer, **options: Any) -> Producer:
        return self.end(producer, True, **options)

    def abort(self, producer: Producer, **options: Any) -> Producer:
        return self.end(producer, False, **options)

    def complete(self) -> None:
        """Reports that the markers of the last transaction are written."""
        ending = self.endings[-1]
        self.perform(lambda result: self.shard.complete(ending, result))

    def list(self, wanted: Filter | None = None) -> list[str]:
        found = self.perform(lambda result: self.shard.list(wanted or Filter(), result))
        return [each.transactional_id for each in found]

    def transaction(self, producer: Producer, committed: bool = True, *, version: int = 2) -> Producer:
        """Runs a whole transaction. Returns the producer for the next one."""
        self.add(producer, version=version)
        following = self.end(producer, committed, version=version)
        self.complete()
        return following if version == 2 else producer
