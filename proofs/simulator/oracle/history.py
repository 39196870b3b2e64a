"""What the clients have done and been told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from proofs.simulator.oracle.oracle import Violation
from proofs.simulator.oracle.rights import Guest
from proofs.simulator.settings import Settings
from pybroker.cluster.producer_ids import MAX_KNOWN_ID
from pybroker.topic_partition import TopicPartition

SAFE = "t"
"""The topic that nobody deletes and nobody hides: of it everything is expected."""


class Acked(NamedTuple):
    """Records that were acknowledged with acks=all."""

    tp: TopicPartition
    values: tuple[bytes, ...]
    offset: int
    is_first: bool
    """It was sent once only."""


class Transaction:
    """A transaction as its writer knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[bytes, TopicPartition] = {}
        self.may_be_committed = False
        self.outcome: bool | None = None
        """Whether it is committed; None where the writer was not told."""

    def sends(self, tp: TopicPartition, values: Iterable[bytes]) -> None:
        """A batch of it is being sent."""
        self.values.update(dict.fromkeys(values, tp))

    def ends(self, committed: bool) -> None:
        """It is being ended."""
        self.may_be_committed = committed

    def has_ended(self, committed: bool) -> None:
        """So the coordinator has said."""
        self.outcome = committed

    def check(self, visible: Mapping[bytes, TopicPartition]) -> None:
        """All of it is visible, or nothing; as the writer was told."""
        seen = [value for value in self.values if value in visible]
        missing = [value for value in self.values if value not in visible]
        if seen and missing:
            raise Violation("transaction", f"{self.name}: {seen} are visible, {missing} are not")
        if seen and not self.may_be_committed:
            raise Violation("transaction", f"{self.name}: {seen} are visible, and nobody has committed them")
        if missing and self.outcome:
            raise Violation("transaction", f"{self.name} was committed, {missing} are not visible")


class History:
    """One history's clients."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.acks: list[Acked] = []
        self.attempts: dict[bytes, TopicPartition] = {}
        self.transactions: list[Transaction] = []
        self.given_up: set[str] = set()
        """Writers that do not know what became of a batch; it may still come."""
        self.refused: dict[bytes, Guest] = {}
        """What brokers have refused, as its writer had no right."""
        self.is_over: Callable[[TopicPartition], bool] = lambda tp: False
        """Whether nobody needs to write there any more."""
        self._producers = MAX_KNOWN_ID

    def new_producer(self) -> int:
        """An id that no producer had before, and none is given: brokers go on behind the lower ones of their logs."""
        self._producers += 1
        return self._producers

    def begin(self, name: str) -> Transaction:
        """A transaction begins."""
        transaction = Transaction(name)
        self.transactions.append(transaction)
        return transaction

    def sent(self, tp: TopicPartition, values: tuple[bytes, ...]) -> None:
        """A batch is being sent."""
        for value in values:
            self.attempts[value] = tp

    def acked(self, tp: TopicPartition, values: tuple[bytes, ...], offset: int, *, is_first: bool) -> None:
        """It was acknowledged; -1: as a duplicate of which the offset is not known any more."""
        self.acks.append(Acked(tp, values, offset, is_first))

    def gave_up(self, writer: str, tp: TopicPartition, values: tuple[bytes, ...]) -> None:
        """Nobody knows what became of it."""
        self.given_up.add(writer)

    def out_of_order(self, tp: TopicPartition, values: tuple[bytes, ...]) -> None:
        """A leader lacks what came before, and that was acknowledged with acks=all."""
        if self.is_over(tp):
            return
        raise Violation("sequence", f"{tp}: what came before {values} was acknowledged, and is not there")
