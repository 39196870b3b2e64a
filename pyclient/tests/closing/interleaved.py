"""Runs the threads of blocking clients and of the application one at a time.

A schedule gives the order (``proofs.interleaving``). It may switch threads between two lines of a traced module, when a
thread waits, and in each turn of the loop.

Time is a number, which advances only when no thread can run otherwise. The broker is a scripted one on the client's own
loop. So a seed gives the same order again.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Callable
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from proofs.interleaving import Interleaving, Schedule, Stuck
from pyclient.admin import blocking as admin
from pyclient.consumer import api, appointments, core
from pyclient.consumer import blocking as consumer
from pyclient.consumer.fetching import fetcher
from pyclient.core.tests.scripted import ScriptedBroker
from pyclient.core.threads import call, runner
from pyclient.producer import base
from pyclient.producer import blocking as producer

TRACED = (runner, call, admin, consumer, producer, base, api, appointments, core, fetcher)
IDLE = 0
"""The actor that advances the time."""


class Patient:
    """A clock that advances only when no thread can run."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def choose(self, step: int, current: int | None, ready: list[int]) -> int:
        others = [number for number in ready if number != IDLE]
        return self._schedule.choose(step, current if current in others else None, others) if others else IDLE


class Awaited:
    """The condition for which a thread waits, in place of a lock."""

    def __init__(self, holds: Callable[[], object]) -> None:
        self._holds = holds

    @property
    def is_held(self) -> bool:
        return not self._holds()


class World:
    """The threads of one run, and their time."""

    def __init__(self, schedule: Schedule, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.run = Interleaving(Patient(schedule), traced=TRACED)
        self.told: list[object] = []
        """The errors that loops have reported and that nobody has read yet."""
        self._ends: dict[str, float] = {}
        self._left = 0
        patch.setattr(runner, "threading", SimpleNamespace(Thread=self._thread, get_ident=threading.get_ident))
        patch.setattr(runner, "new_loop", self._loop)
        patch.setattr(runner, "_result", self._result)
        patch.setattr(core, "SignalSafeLock", self.run.lock)
        patch.setattr(consumer, "Bell", lambda: _Bell(self))
        self.run.start("time", self._pass)

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Starts a thread, which begins when the schedule says so."""
        self._left += 1

        def counted() -> None:
            try:
                work()
            finally:
                self._left -= 1

        self.run.start(name, counted)

    def wait(self, holds: Callable[[], object], end: float = inf) -> None:
        """Blocks the thread until the condition holds, or until the end."""
        name = threading.current_thread().name
        awaited = Awaited(lambda: holds() or self.now >= end)
        self.run.step()
        self._ends[name] = end
        while awaited.is_held:
            self.run.wait_for(awaited)  # type: ignore[arg-type]
        del self._ends[name]

    def _pass(self) -> None:
        self.run.step()
        while self._left:
            end = min(self._ends.values(), default=inf)
            if end == inf:
                raise Stuck(f"{sorted(self._ends)} wait for ever")
            self.now = max(self.now, end)
            self.run.step()

    def _result(self, made: Any, timeout: float | None, within: float | None) -> Any:
        limits = [each for each in (timeout, None if within is None else within + runner.GRACE_S) if each is not None]
        self.wait(lambda: made.is_done, self.now + min(limits, default=inf))
        assert made.is_done or timeout is not None, "a call outlives its time"
        return RESULT(made, 0.0, None)

    def _on_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if any(told in context["message"] for told in ("never retrieved", "is pending")):
            self.told.append(context)

    def _thread(self, target: Callable[[], object], name: str, daemon: bool) -> _Thread:
        return _Thread(self, target, name)

    def _loop(self) -> asyncio.AbstractEventLoop:
        selector = _Selector(self)
        loop = selector.loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: self.now  # type: ignore[method-assign]
        loop.set_exception_handler(self._on_trouble)
        return loop


RESULT = runner._result


class _Thread:
    def __init__(self, world: World, target: Callable[[], object], name: str) -> None:
        self.ident: int | None = None
        self._world, self._target, self._name = world, target, name
        self._is_done = False

    def start(self) -> None:
        self._world.start(self._name, self._work)

    def _work(self) -> None:
        self.ident = threading.get_ident()
        try:
            self._target()
        finally:
            self._is_done = True

    def join(self, timeout: float) -> None:
        self._world.wait(lambda: self._is_done, self._world.now + timeout)


class _Bell:
    def __init__(self, world: World) -> None:
        self._world = world
        self._has_rung = False

    def ring(self) -> None:
        self._has_rung = True

    def hush(self) -> None:
        self._has_rung = False

    def wait(self, seconds: float) -> bool:
        self._world.wait(lambda: self._has_rung, self._world.now + seconds)
        has_rung, self._has_rung = self._has_rung, False
        return has_rung


class _Selector(selectors.EpollSelector):
    """A selector for sockets of one machine, where sent bytes arrive at once."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def select(self, timeout: float | None = None) -> Any:
        try:
            return self._select(timeout)
        except BaseException:
            if not self._world.run.is_over:
                raise
        self._world.now += 1.0  # the run is over, and the loop ends as well
        self.loop.stop()
        return super().select(0)

    def _select(self, timeout: float | None) -> Any:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            self._world.run.step()
            return found
        end = inf if timeout is None else self._world.now + timeout
        self._world.wait(lambda: selectors.EpollSelector.select(self, 0), end)
        return super().select(0)


class Broker(ScriptedBroker):
    """A scripted broker whose address is known before its loop exists."""

    def __init__(self) -> None:
        super().__init__()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]

    async def serve(self) -> None:
        """Runs on the event loop."""
        self._server = await asyncio.start_server(self._serve, sock=self._socket)
