"""Defects of ``pybroker/replication`` that were mended."""

from __future__ import annotations

import asyncio

from pybroker.log.move import Move
from pybroker.replication import follower_session
from pybroker.replication.moves import Moves
from pybroker.testing.defects import Patch, defect

TESTS = "pybroker/replication/tests"


@defect(f"{TESTS}/test_source.py::test_a_high_watermark_in_an_answer_that_was_void_is_told_again")
def a_high_watermark_is_told_once() -> list[Patch]:
    """A follower that could make no use of the answer never hears the high watermark again, until it rises."""
    return [(follower_session, "_may_have_missed", lambda before, now: False)]


@defect("pybroker/replication/tests/test_replica_manager.py::test_a_move_that_fails_in_whatever_way_is_given_up")
def only_a_failed_disk_ends_a_move() -> list[Patch]:
    """A move that met a damaged batch went on for ever in name: the log was not compacted, and could not be moved."""

    async def run(self: Moves, move: Move, before: asyncio.Task[None] | None) -> None:
        if await self._switched(move):
            move.settle()
        self._tasks.pop(move.log.topic_partition)

    return [(Moves, "_run", run)]
