"""Records what the clients have sent and what brokers answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from proofs.simulator.oracle.oracle import Violation
from proofs.simulator.oracle.rights import Guest
from proofs.simulator.settings import Settings
from pybroker.cluster.producer_ids import MAX_KNOWN_ID
from pybroker.topic_partition import TopicPartition

SAFE = "t"
"""The topic that nobody deletes or damages. All invariants must hold for it."""


class Acked(NamedTuple):
    """Records that a broker has acknowledged with acks=all."""

    tp: TopicPartition
    values: tuple[bytes, ...]
    offset: int
    is_first: bool
    """The records were sent only once."""


class Transaction:
    """A transaction as its writer knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[bytes, TopicPartition] = {}
        self.may_be_committed = False
        self.outcome: bool | None = None
        """Whether it is committed; None if the writer got no answer."""

    def sends(self, tp: TopicPartition, values: Iterable[bytes]) -> None:
        """Notes that a batch of the transaction is being sent."""
        self.values.update(dict.fromkeys(values, tp))

    def ends(self, committed: bool) -> None:
        """Notes the attempt to commit or abort the transaction."""
        self.may_be_committed = committed

    def has_ended(self, committed: bool) -> None:
        """Notes the coordinator's answer that the transaction has ended."""
        self.outcome = committed

    def check(self, visible: Mapping[bytes, TopicPartition]) -> None:
        """Checks that all of its records are visible, or none, as the writer was told."""
        seen = [value for value in self.values if value in visible]
        missing = [value for value in self.values if value not in visible]
        if seen and missing:
            raise Violation("transaction", f"{self.name}: {seen} are visible, but {missing} are not")
        if seen and not self.may_be_committed:
            raise Violation("transaction", f"{self.name}: {seen} are visible, but nobody has committed them")
        if missing and self.outcome:
            raise Violation("transaction", f"{self.name} was committed, but {missing} are not visible")


class History:
    """Records the clients of one history."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.acks: list[Acked] = []
        self.attempts: dict[bytes, TopicPartition] = {}
        self.transactions: list[Transaction] = []
        self.given_up: set[str] = set()
        """Writers that do not know the fate of a batch. It may still arrive."""
        self.refused: dict[bytes, Guest] = {}
        """Values that brokers have refused, because their writer had no right."""
        self.is_over: Callable[[TopicPartition], bool] = lambda tp: False
        """Tells whether clients need not be able to write to a partition any longer."""
        self._producers = MAX_KNOWN_ID

    def new_producer(self) -> int:
        """Returns a producer id that no producer has or will get: brokers start above the lower ids in their logs."""
        self._producers += 1
        return self._producers

    def begin(self, name: str) -> Transaction:
        """Notes the begin of a transaction."""
        transaction = Transaction(name)
        self.transactions.append(transaction)
        return transaction

    def sent(self, tp: TopicPartition, values: tuple[bytes, ...]) -> None:
        """Notes that a batch is being sent."""
        for value in values:
            self.attempts[value] = tp

    def acked(self, tp: TopicPartition, values: tuple[bytes, ...], offset: int, *, is_first: bool) -> None:
        """Notes an acknowledged batch. Offset -1: a duplicate whose offset the broker no longer knows."""
        self.acks.append(Acked(tp, values, offset, is_first))

    def gave_up(self, writer: str, tp: TopicPartition, values: tuple[bytes, ...]) -> None:
        """Notes a batch whose fate nobody knows."""
        self.given_up.add(writer)

    def out_of_order(self, tp: TopicPartition, values: tuple[bytes, ...]) -> None:
        """Reports a leader that lacks earlier records which were acknowledged with acks=all."""
        if self.is_over(tp):
            return
        raise Violation("sequence", f"{tp}: what came before {values} was acknowledged, but is missing")
