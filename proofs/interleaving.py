"""Interleavings of threads, one after the other, each of which can be had again.

The threads of a scenario (*actors*) are real, but one runs at a time. Between two *steps* of an actor any other may
run. A step ends where the actor takes or gives back a lock, and where it calls ``step`` (a file that is opened,
written, synced). In traced modules it ends at every line. A *schedule* chooses the next actor. ``Switches`` lets an
actor run until it waits or ends, except for the steps at which it is told to switch. So all schedules with one or two
switches can be tried. ``Seeded`` draws.

After every step the scenario's invariants are looked at. The first error, of an actor or an invariant, ends the run
and is raised by ``run``.

    with Interleaving(Seeded(17), check=look, traced=[durability]) as run:
        run.start("sync", log.flush)
        run.start("loop", cut_and_append)

Locks must be those of the run (``run.lock()``). Otherwise an actor that waits for one that is halted waits forever.
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
    """Chooses the next actor."""

    def choose(self, step: int, current: int | None, ready: list[int]) -> int:
        """One of ``ready``, the numbers of the actors that can run; ``current`` ran last, where it can go on."""


class Switches:
    """Actors run until they wait or end, in the order of their numbers, but for ``switches``: at step → to actor."""

    def __init__(self, switches: dict[int, int], first: int = 0) -> None:
        self._switches = switches
        self._first = first

    def choose(self, step: int, current: int | None, ready: list[int]) -> int:
        wanted = self._switches.get(step, self._first if step == 0 else current)
        return wanted if wanted in ready else ready[0]


class Seeded:
    """At each step another actor with some probability, drawn with the seed as well."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._probability = self._random.choice((0.02, 0.05, 0.15, 0.4))

    def choose(self, step: int, current: int | None, ready: list[int]) -> int:
        if current is not None and self._random.random() >= self._probability:
            return current
        return self._random.choice(ready)


class Stuck(AssertionError):
    """Every actor waits for a lock."""


class _Abandoned(BaseException):
    """The run is over; the actor ends."""


class Lock:
    """A lock of a run; may be taken again by the actor that has it."""

    def __init__(self, run: Interleaving) -> None:
        self._run = run
        self._owner: object = None
        self._depth = 0

    @property
    def is_held(self) -> bool:
        """Whether anybody has it."""
        return self._owner is not None

    @property
    def is_free(self) -> bool:
        """Whether the actor that runs may take it at once."""
        return self._owner in (None, threading.current_thread())

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As ``threading.RLock.acquire``; a step ends before it."""
        self._run.step()
        if not self.is_free and not blocking:
            return False
        while not self.is_free:
            self._run.wait_for(self)
        self._owner = threading.current_thread()
        self._depth += 1
        return True

    def release(self) -> None:
        """As ``threading.RLock.release``; a step ends behind it."""
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
    """One run of a scenario by one schedule; the block starts the actors, its end runs them."""

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
        """How many steps were taken."""
        self.is_over = False

    def __enter__(self) -> Interleaving:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self._run()

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Adds an actor; it begins when the schedule says so. An actor may add others."""
        actor = _Actor(self, len(self._actors), name, work)
        self._actors.append(actor)
        actor.start()

    def lock(self) -> Lock:
        """A new lock."""
        return Lock(self)

    def step(self) -> None:
        """A step of the actor that calls ends here; nothing outside the run's actors."""
        actor = threading.current_thread()
        if not isinstance(actor, _Actor) or self._quiet:
            return
        if self.is_over:
            raise _Abandoned
        self._look()
        self._hand_over(actor)

    def wait_for(self, lock: Lock) -> None:
        """The actor that calls goes on when ``lock`` may be free."""
        actor = threading.current_thread()
        assert isinstance(actor, _Actor), "a lock is held by an actor that has ended"
        actor.waits_for = lock
        self._hand_over(actor)
        actor.waits_for = None

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """No step ends in the block."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """``sys.settrace``'s function: a step ends before each line of a traced module."""
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
        """The actor has nothing left to do."""
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
            assert self._main.acquire(timeout=STUCK_S), "an actor waits for something that is no lock of the run"
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
        """The actor that runs now; None where all have ended."""
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
