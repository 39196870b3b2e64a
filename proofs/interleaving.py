"""Runs the threads of a scenario in a chosen order, one at a time, so that each interleaving can be repeated.

The threads of a scenario (*actors*) are real, but only one runs at a time. Between two *steps* of an actor any other
actor may run. A step ends when the actor acquires or releases a lock, and when it calls ``step`` (it opens, writes or
syncs a file). In traced modules, a step ends at every line. A *schedule* chooses the next actor. ``Switches`` lets an
actor run until it waits or ends, except for the steps at which it must switch. So a test can try all schedules with one
or two switches. ``Seeded`` draws the next actor.

After every step, ``check`` tests the scenario's invariants. The first error of an actor or an invariant ends the run,
and ``run`` raises it.

    with Interleaving(Seeded(17), check=look, traced=[durability]) as run:
        run.start("sync", log.flush)
        run.start("loop", cut_and_append)

A scenario must use the run's locks (``run.lock()``). Otherwise an actor that waits for a halted one waits forever.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, ModuleType, TracebackType
from typing import Any, Protocol

STUCK_S = 60


class Schedule(Protocol):
    """Decides which actor runs next."""

    def choose(self, step: int, current: int | None, ready: list[int]) -> int:
        """Returns one of ``ready``, the numbers of the actors that can run. ``current`` ran last, if it can go on."""


class Switches:
    """Lets actors run until they wait or end, in the order of their numbers. ``switches`` maps a step to the actor that
    takes over there.
    """

    def __init__(self, switches: dict[int, int], first: int = 0) -> None:
        self._switches = switches
        self._first = first

    def choose(self, step: int, current: int | None, ready: list[int]) -> int:
        wanted = self._switches.get(step, self._first if step == 0 else current)
        return wanted if wanted in ready else ready[0]


class Seeded:
    """Switches to another actor with some probability at each step. The seed draws the probability too."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._probability = self._random.choice((0.02, 0.05, 0.15, 0.4))

    def choose(self, step: int, current: int | None, ready: list[int]) -> int:
        if current is not None and self._random.random() >= self._probability:
            return current
        return self._random.choice(ready)


class Stuck(AssertionError):
    """Raised if no actor can go on: all wait for a lock, or one waits for something else."""


class _Abandoned(BaseException):
    """Ends an actor whose run is over."""


class Lock:
    """A lock of a run. The actor that has it may acquire it again."""

    def __init__(self, run: Interleaving) -> None:
        self._run = run
        self._owner: object = None
        self._depth = 0

    @property
    def is_held(self) -> bool:
        """Whether an actor has the lock."""
        return self._owner is not None

    @property
    def is_free(self) -> bool:
        """True if the running actor may acquire the lock at once."""
        return self._owner in (None, threading.current_thread())

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Like ``threading.RLock.acquire``; a step ends before it."""
        self._run.step()
        if not self.is_free and not blocking:
            return False
        while not self.is_free:
            self._run.wait_for(self)
        self._owner = threading.current_thread()
        self._depth += 1
        return True

    def release(self) -> None:
        """Like ``threading.RLock.release``; a step ends after it."""
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._run.step()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class _Actor(threading.Thread):
    def __init__(self, run: Interleaving, number: int, name: str, work: Callable[[], object]) -> None:
        super().__init__(name=name, daemon=True)
        self.number = number
        self.turn = threading.Semaphore(0)
        self.waits_for: Lock | None = None
        self.is_done = False
        self._run = run
        self._work = work

    def run(self) -> None:
        self.turn.acquire()
        try:
            if not self._run.is_over:
                sys.settrace(self._run.trace)
                self._work()
        except _Abandoned:
            pass
        except BaseException as error:
            self._run.fail(error)
        finally:
            sys.settrace(None)
            self._run.ended(self)


class Interleaving:
    """One run of a scenario by one schedule. The block starts the actors, and its end runs them."""

    def __init__(
        self,
        schedule: Schedule,
        check: Callable[[], None] = lambda: None,
        traced: Iterable[ModuleType] = (),
    ) -> None:
        self._schedule = schedule
        self._check = check
        self._traced = {module.__file__ for module in traced}
        self._actors: list[_Actor] = []
        self._main = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._quiet = False
        self.steps = 0
        """The number of steps so far."""
        self.is_over = False

    def __enter__(self) -> Interleaving:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self._run()

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Adds an actor, which begins when the schedule says so. An actor may add others."""
        actor = _Actor(self, len(self._actors), name, work)
        self._actors.append(actor)
        actor.start()

    def lock(self) -> Lock:
        """Returns a new lock."""
        return Lock(self)

    def step(self) -> None:
        """Ends a step of the calling actor. Outside the run's actors, it does nothing."""
        actor = threading.current_thread()
        if not isinstance(actor, _Actor) or self._quiet:
            return
        if self.is_over:
            raise _Abandoned
        self._look()
        self._hand_over(actor)

    def wait_for(self, lock: Lock) -> None:
        """Blocks the calling actor until ``lock`` may be free."""
        actor = threading.current_thread()
        assert isinstance(actor, _Actor), "a lock is held by an actor that has ended"
        actor.waits_for = lock
        self._hand_over(actor)
        actor.waits_for = None

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Suppresses the ends of steps in the block."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The function for ``sys.settrace``: it ends a step before each line of a traced module."""
        if event == "call":
            return self.trace if frame.f_code.co_filename in self._traced else None
        if event == "line":
            self.step()
        return self.trace

    def fail(self, error: BaseException) -> None:
        """Ends the run with ``error``."""
        self._error = self._error or error
        self.is_over = True

    def ended(self, actor: _Actor) -> None:
        """Notes that the actor has nothing left to do."""
        actor.is_done = True
        following = self._next(None)
        if following is None:
            self._main.release()
        else:
            following.turn.release()

    def _run(self) -> None:
        first = self._next(None)
        if first is not None:
            first.turn.release()
            assert self._main.acquire(timeout=STUCK_S), "an actor waits for something other than a lock of the run"
        for actor in self._actors:
            actor.join(STUCK_S)
        if self._error is not None:
            raise self._error

    def _look(self) -> None:
        with self.quiet():
            try:
                self._check()
            except Exception as error:
                self.fail(error)
                raise _Abandoned from None

    def _hand_over(self, actor: _Actor) -> None:
        following = self._next(actor)
        assert following is not None
        if following is not actor:
            following.turn.release()
            actor.turn.acquire()
        if self.is_over:
            raise _Abandoned

    def _next(self, current: _Actor | None) -> _Actor | None:
        """Returns the actor that runs next, or None if all have ended."""
        left = [actor for actor in self._actors if not actor.is_done]
        ready = [actor.number for actor in left if self._may_run(actor)]
        if left and not ready:
            self.fail(Stuck(f"{[actor.name for actor in left]} wait for each other"))
        if not left or self.is_over:
            return left[0] if left else None
        can_go_on = current is not None and current.number in ready
        chosen = self._schedule.choose(self.steps, current.number if current and can_go_on else None, ready)
        self.steps += 1
        return self._actors[chosen]

    def _may_run(self, actor: _Actor) -> bool:
        return actor.waits_for is None or not actor.waits_for.is_held
