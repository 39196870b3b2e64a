"""The position at which a consumer begins. A seek of the application always wins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cy.client.signal_safe_lock import SignalSafeLock
from pyclient.consumer.offsets.positions import PositionFinder
from pyclient.consumer.subscription import PartitionState
from pyclient.offset_and_metadata import OffsetAndMetadata
from pyclient.topic_partition import TopicPartition

TP = TopicPartition("t", 0)


class Client:
    """A client that knows the partition. It calls ``meanwhile`` during the wait for metadata."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.clock = lambda: 0.0
        self.cluster = SimpleNamespace(partition=lambda tp: tp)
        self._meanwhile = meanwhile

    async def metadata(self, topics: set[str], *, timeout: float, create: bool | None = None) -> None:
        self._meanwhile()


class Committed:
    """A group that has committed offset 20. It calls ``meanwhile`` during the request for it."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    async def once(self, partitions: list[TopicPartition]) -> tuple[dict[TopicPartition, OffsetAndMetadata], Any]:
        self._meanwhile()
        return {TP: OffsetAndMetadata(20)}, {}


def found(state: PartitionState, *, at_metadata: Callable[[], object], at_commits: Callable[[], object]) -> int | None:
    """Returns the position after one search, during which these functions were called."""
    finder = PositionFinder(
        Client(at_metadata),  # type: ignore[arg-type]
        SimpleNamespace(auto_offset_reset="earliest", default_api_timeout_ms=1_000),  # type: ignore[arg-type]
        SimpleNamespace(states={TP: state}, pattern=None),  # type: ignore[arg-type]
        SignalSafeLock(),
        SimpleNamespace(),  # type: ignore[arg-type]
        Committed(at_commits),  # type: ignore[arg-type]
        SimpleNamespace(on_positions=lambda: None),  # type: ignore[arg-type]
        lambda: 0.0,
    )
    asyncio.run(finder._find_all())
    return state.position


def nothing() -> None:
    """Does nothing."""


def test_the_committed_offset_is_the_position_if_there_was_no_seek() -> None:
    assert found(PartitionState(TP), at_metadata=nothing, at_commits=nothing) == 20


@pytest.mark.parametrize("when", ["at_metadata", "at_commits"])
def test_a_seek_while_offsets_are_looked_up_wins_and_no_record_is_read_twice(when: str) -> None:
    """The application seeks right after ``assign`` and reads before the committed offset is known."""
    state = PartitionState(TP)

    def seek_and_read() -> None:
        state.seek(7)
        state.position = 40

    meanwhile = {"at_metadata": nothing, "at_commits": nothing, when: seek_and_read}
    assert found(state, **meanwhile) == 40
