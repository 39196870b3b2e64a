"""Simulates pool threads that run interleaved: between two steps of one, the loop and other threads run.

Each piece of work has a real thread, which runs only while the scheduler waits for it. Only the holder of one baton
runs, so a seed still gives one history. A thread hands the baton back when a real thread would wait: in a sync, a
rename, or for a lock. It gets the baton again at a virtual time that the seed draws. So a log may be truncated during a
sync, and a topic deleted during the sync of its log.

If the loop needs a lock that a thread has, the thread runs on until it releases the lock. The loop blocks meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from proofs.simulator.machines.scheduler import ProcessLoop, Scheduler

PAUSE_CHANCE = 0.7
LONG_CHANCE, SHORT_S = 0.3, 0.001
LONGEST_S = (0.02, 0.2, 0.6)
"""The longest time that a thread waits for its turn; each history draws one of these."""


class Killed(BaseException):
    """Ends a thread, because the history is over."""


class Threads:
    """All simulated threads of a history."""

    def __init__(self, scheduler: Scheduler, rng: Random) -> None:
        self.scheduler = scheduler
        self.rng = rng
        self._longest_s = rng.choice(LONGEST_S)
        self.current: Thread | None = None
        """The thread that has the baton; None if a loop has it."""
        self.parked: dict[Thread, None] = {}

    def start(self, loop: ProcessLoop, work: Callable[[], object]) -> None:
        """Runs ``work`` from a later time on."""
        thread = Thread(self, loop, work)
        self.scheduler.after(self.delay(), thread.step, loop=loop)

    def delay(self) -> float:
        """Draws how long a thread waits for its turn."""
        return self.rng.random() * (self._longest_s if self.rng.random() < LONG_CHANCE else SHORT_S)

    def interleave(self) -> None:
        """Lets others run, if a thread has the baton."""
        thread = self.current
        if thread is not None and (thread.is_killed or self.rng.random() < PAUSE_CHANCE):
            self.scheduler.after(self.delay(), thread.step, loop=thread.loop)
            thread.park()

    def lock(self) -> Lock:
        """Stands in for ``threading.Lock`` and ``RLock``."""
        return Lock(self)

    def close(self) -> None:
        """Ends all threads that still run."""
        for thread in tuple(self.parked):
            thread.is_killed = True
            while not thread.is_done:
                thread.step()
        self.parked.clear()


class Thread:
    """A piece of work that runs on a pool's thread."""

    def __init__(self, threads: Threads, loop: ProcessLoop, work: Callable[[], object]) -> None:
        self.loop = loop
        self.is_done = False
        self.is_killed = False
        self.wanted: Lock | None = None
        """The lock that the thread waits for."""
        self._threads = threads
        self._work = work
        self._has_begun = False
        self._go, self._back = _closed_gate(), _closed_gate()
        self._error: BaseException | None = None

    def step(self) -> None:
        """Gives the thread the baton until it hands it back. Raises what the work has raised."""
        if self.is_done:
            return
        threads = self._threads
        before, threads.current = threads.current, self
        if self._has_begun:
            threads.parked.pop(self, None)
            self._go.release()
        else:
            self._has_begun = True
            _begin(self)
        self._back.acquire()
        threads.current = before
        error, self._error = self._error, None
        if error is not None:
            raise error

    def run(self) -> None:
        """Does the work, on a real thread."""
        try:
            self._work()
        except Killed:
            pass
        except BaseException as error:
            self._error = error
        self.is_done = True

    def has_run(self) -> None:
        """Hands the baton back for good."""
        self._back.release()

    def park(self) -> None:
        """Hands the baton back, and returns when the thread has it again."""
        if self.is_killed:
            raise Killed
        self._threads.parked[self] = None
        self._back.release()
        self._go.acquire()
        if self.is_killed:
            raise Killed


class _Real:
    """A real thread does one piece of work after the other, because most end before the next begins."""

    idle: ClassVar[list[_Real]] = []

    def __init__(self) -> None:
        self._wake = _closed_gate()
        self._next: Thread | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, work: Thread) -> None:
        """Begins a piece of work."""
        self._next = work
        self._wake.release()

    def _run(self) -> None:
        while True:
            self._wake.acquire()
            work, self._next = self._next, None
            assert work is not None
            work.run()
            self.idle.append(self)
            work.has_run()
            del work  # and all of its history


def _begin(work: Thread) -> None:
    real = _Real.idle.pop() if _Real.idle else _Real()
    real.begin(work)


def _closed_gate() -> threading.Lock:
    """Returns a lock whose ``acquire`` waits for one ``release``."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class Lock:
    """A lock between simulated threads and the loops. Its owner may acquire it again."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._owner: Thread | None = None
        self._depth = 0
        self._waiting: list[Thread] = []

    def acquire(self, blocking: bool = True) -> bool:
        """Like ``threading.RLock.acquire``."""
        me = self._threads.current
        while self._depth and self._owner is not me:
            if not blocking:
                return False
            self._wait(me)
        self._owner = me
        self._depth += 1
        return True

    def _wait(self, me: Thread | None) -> None:
        owner = self._owner
        if me is not None and not me.is_killed:
            self._waiting.append(me)
            me.wanted = self
            me.park()
            me.wanted = None
        elif owner is None or owner.is_done or (me is not None and me.is_killed):
            self._depth = 0  # its owner has ended
        else:
            while owner.wanted is not None and owner.wanted._owner is not None:
                owner = owner.wanted._owner
            owner.step()

    def release(self) -> None:
        """Like ``threading.RLock.release``."""
        self._depth -= 1
        if self._depth <= 0:
            self._depth, self._owner = 0, None
            waiting, self._waiting = self._waiting, []
            for thread in waiting:
                self._threads.scheduler.after(0.0, thread.step, loop=thread.loop)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()


class LockOfEach:
    """Stands in for a module's lock: each process has its own."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._locks: dict[ProcessLoop | None, Lock] = {}

    def _own(self) -> Lock:
        loop = self._threads.scheduler.current
        return self._locks.setdefault(loop, self._threads.lock())

    def __enter__(self) -> bool:
        return self._own().acquire()

    def __exit__(self, *_: Any) -> None:
        self._own().release()
