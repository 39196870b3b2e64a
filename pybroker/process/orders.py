"""What the owner of several embedded brokers asks of their supervisor, a line each on its stdin.

    NUMBER kill|restart|pause|resume|pids ID[,ID…]

When it is done the supervisor says ``NUMBER done PID[,PID…]`` on stdout: the processes of those brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pybroker.process.fleet import Fleet, Member
from pybroker.process.foreground import say


async def _pids(member: Member) -> None:
    """Only the answer is wanted."""


ORDERS: dict[str, Callable[[Member], Awaitable[None]]] = {
    "kill": Member.kill_and_hold,
    "restart": Member.restart,
    "pause": Member.pause,
    "resume": Member.resume,
    "pids": _pids,
}


class Orders:
    """Performs them. Their owner asks for one at a time; one that it has given up waiting for holds up no other."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._tasks: set[asyncio.Task[None]] = set()

    def heed(self, line: str) -> None:
        """Begins what the line asks."""
        task = asyncio.ensure_future(self._perform(line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, line: str) -> None:
        number, order, ids = line.split()
        members = [self._fleet.member(int(node_id)) for node_id in ids.split(",")]
        await asyncio.gather(*(ORDERS[order](member) for member in members))
        say(f"{number} done {','.join(str(member.hello.pid) for member in members if member.hello)}")
