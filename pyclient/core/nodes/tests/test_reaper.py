"""Idle connections are closed, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pyclient.core.nodes.reaper import LEAST_S, Reaper

IDLE_S = 40.0


class Loop:
    """An event loop with a manual clock, and its planned calls."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.planned: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, wait: float, work: Callable[[], None]) -> asyncio.TimerHandle:
        self.planned.append((self.now + wait, work))
        loop: Any = self
        return asyncio.TimerHandle(self.now + wait, work, (), loop)

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.planned.clear()

    def next(self) -> None:
        """Advances the clock to the time of the next planned call, and runs it."""
        self.now, work = self.planned.pop(0)
        work()


class Node:
    """A node whose connection is idle, in use, or missing (None)."""

    def __init__(self, used_at: float | None) -> None:
        self.used_at = used_at
        self.why = ""

    def idle_since(self) -> float | None:
        return self.used_at

    def disconnect(self, why: str) -> None:
        self.used_at, self.why = None, why


def reaper_of(*nodes: Node, idle_s: float = IDLE_S) -> tuple[Loop, Reaper]:
    loop: Any = Loop()
    there: Any = nodes
    return loop, Reaper(loop, idle_s, lambda: there)


def test_a_connection_is_closed_after_its_idle_time_and_not_before() -> None:
    early, late, busy = Node(1000.0), Node(1015.0), Node(None)
    loop, reaper = reaper_of(early, late, busy)
    reaper.start()
    while not early.why:
        assert loop.now <= 1000.0 + IDLE_S
        loop.next()
    assert (loop.now, early.why, late.why, busy.why) == (1050.0, "idle", "", "")


def test_start_plans_one_check_and_stop_cancels_it() -> None:
    loop, reaper = reaper_of(idle_s=0.0)
    reaper.start()
    reaper.start()
    assert [at for at, _ in loop.planned] == [1000.0 + LEAST_S]
    reaper.stop()
    reaper.start()
    assert not loop.planned
