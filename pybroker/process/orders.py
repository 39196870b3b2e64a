"""The orders of the owner of several embedded brokers to their supervisor, one per line on its stdin.

    NUMBER kill|restart|pause|resume|pids ID[,ID…]

When an order is done, the supervisor prints ``NUMBER done PID[,PID…]``: the processes of those brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pybroker.process.fleet import Fleet, Member
from pybroker.process.foreground import say


async def _pids(member: Member) -> None:
    """Does nothing: the answer has the process ids."""


ORDERS: dict[str, Callable[[Member], Awaitable[None]]] = {
    "kill": Member.kill_and_hold,
    "restart": Member.restart,
    "pause": Member.pause,
    "resume": Member.resume,
    "pids": _pids,
}


class Orders:
    """Executes orders. The owner sends one at a time. If it no longer waits for an order, the next one is still
    executed.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._tasks: set[asyncio.Task[None]] = set()

    def heed(self, line: str) -> None:
        """Begins the order in the line."""
        task = asyncio.ensure_future(self._perform(line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, line: str) -> None:
        number, order, ids = line.split()
        members = [self._fleet.member(int(node_id)) for node_id in ids.split(",")]
        await asyncio.gather(*(ORDERS[order](member) for member in members))
        say(f"{number} done {','.join(str(member.hello.pid) for member in members if member.hello)}")
