"""Long requests take turns, and leave time to others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pybroker.handlers.common import turns
from pybroker.handlers.common.turns import Turns


def test_items_beyond_a_piece_wait_for_turns_of_their_own() -> None:
    pieces: list[list[int]] = []
    others: list[int] = []

    async def many() -> None:
        loop = asyncio.get_running_loop()
        work = Turns().in_pieces(range(2 * turns.PIECE + 1), lambda piece: (pieces.append(piece), loop.call_soon(tick)))

        def tick() -> None:
            others.append(len(pieces))

        await work

    asyncio.run(many())
    assert [len(piece) for piece in pieces] == [turns.PIECE, turns.PIECE, 1]
    assert others[:2] == [1, 2]


def test_a_few_items_do_not_wait() -> None:
    done: list[list[int]] = []
    work = Turns().in_pieces(range(3), done.append)
    with pytest.raises(StopIteration):
        work.send(None)
    assert done == [[0, 1, 2]]


def test_a_rest_that_ends_late_is_followed_by_another_one() -> None:
    def clock() -> Iterator[float]:
        yield from (0.0, 1.0)  # the first rest ends a second late
        yield from (1.0, 1.001)  # the next one in time
        while True:
            yield 2.0

    rests: list[float] = []

    async def one_turn() -> None:
        sleep = asyncio.sleep

        async def noted(seconds: float) -> None:
            rests.append(seconds)
            await sleep(0)

        asyncio.sleep = noted  # type: ignore[assignment]
        try:
            async with Turns(clock().__next__).turn():
                pass
        finally:
            asyncio.sleep = sleep

    asyncio.run(one_turn())
    assert len(rests) == 2


def test_a_busy_loop_delays_a_turn_but_not_for_good() -> None:
    now = iter(range(0, 1_000_000))

    async def turns() -> None:
        async with Turns(lambda: float(next(now))).turn():
            pass

    asyncio.run(asyncio.wait_for(turns(), 10))
