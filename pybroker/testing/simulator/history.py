"""What the clients have done and been told."""

from __future__ import annotations

from typing import NamedTuple

from pybroker.testing.simulator.oracle import Violation
from pybroker.testing.simulator.settings import Settings
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors


class Acked(NamedTuple):
    """Records that were acknowledged with acks=all."""

    tp: TopicPartition
    values: tuple[bytes, ...]
    offset: int


class History:
    """One history's clients."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.acks: list[Acked] = []
        self.attempts: dict[bytes, TopicPartition] = {}
        self.given_up = 0
        self._producers = 1000

    def new_producer(self) -> int:
        """An id that no producer had before."""
        self._producers += 1
        return self._producers

    def sent(self, tp: TopicPartition, values: tuple[bytes, ...]) -> None:
        """A batch is being sent."""
        for value in values:
            self.attempts[value] = tp

    def acked(self, tp: TopicPartition, values: tuple[bytes, ...], offset: int) -> None:
        """It was acknowledged; -1: as a duplicate of which the offset is not known any more."""
        self.acks.append(Acked(tp, values, offset))

    def gave_up(self, tp: TopicPartition, values: tuple[bytes, ...], error: errors.KafkaError) -> None:
        """Nobody knows what became of it."""
        self.given_up += 1
        if isinstance(error, errors.OutOfOrderSequenceNumber):
            raise Violation("sequence", f"{tp}: {values} follows what was acknowledged, and is told {error!r}")
