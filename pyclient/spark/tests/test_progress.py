"""A stream commits its progress to a group, and never waits for that."""

from __future__ import annotations

from typing import Any

from pyclient import TopicPartition
from pyclient.errors import RequestTimedOut
from pyclient.spark.source.progress import AGAIN_S, TOLD_S, Progress

TP = TopicPartition("t", 0)


class Group:
    """Stands for ``LogOffsets`` and its client."""

    def __init__(self) -> None:
        self.admin = self
        self.told: list[int] = []
        self.asked = 0
        self.is_there = True

    def alter_consumer_group_offsets(self, group: str, offsets: dict[TopicPartition, int], *, timeout: float) -> None:
        assert timeout == TOLD_S
        self.asked += 1
        if not self.is_there:
            raise RequestTimedOut("no coordinator")
        self.told.append(offsets[TP])


def test_after_a_missing_coordinator_only_the_newest_progress_is_committed() -> None:
    now = 0.0
    group: Any = Group()
    progress = Progress("g", group, lambda: now)
    progress.finished({TP: 1})
    progress.finished({TP: 1})
    group.is_there = False
    for end in range(2, 12):
        progress.finished({TP: end})
    assert (group.told, group.asked) == ([1], 2)
    group.is_there = True
    now += AGAIN_S
    progress.finished({TP: 12})
    assert group.told == [1, 12]
