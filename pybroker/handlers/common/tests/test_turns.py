"""Long requests take turns, and leave time to others."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise

from pybroker.handlers.common.turns import Turns


def test_the_event_loop_serves_every_ready_task_once_between_two_turns() -> None:
    """Every ready task is served once, bytes on a socket too; if none is ready, the next turn begins at once."""
    served: list[str] = []

    async def many() -> None:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        there.setblocking(False)
        loop.add_reader(there, lambda: served.append(f"read {there.recv(1)!r}"))
        line = Turns()

        async def long_request(name: str) -> None:
            for number in range(3):
                await line.next_turn()
                served.append(f"{name}{number}")
                here.send(b".")

        with here, there:
            await asyncio.gather(long_request("a"), long_request("b"))
            loop.remove_reader(there)

    asyncio.run(many())
    turns = [each for each in served if not each.startswith("read")]
    assert turns == ["a0", "b0", "a1", "b1", "a2", "b2"]
    for one, other in pairwise(turns):
        assert "read b'.'" in served[served.index(one) : served.index(other)]
