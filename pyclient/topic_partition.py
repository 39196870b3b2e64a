"""A partition of a topic, as the SDK names it everywhere."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """``TopicPartition("flights", 0)``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
