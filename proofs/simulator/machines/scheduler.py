"""Virtual time: one queue of events for all simulated processes, and an event loop for each of them.

A history is a sequence of callbacks. Each belongs to a process, or to the world itself (a message arrives, a fault
begins). Virtual time decides which one is next; at equal times, their order of scheduling decides. Nothing else
decides, so the same seed gives the same history.

A process is its loop. Broker code that calls ``asyncio.get_running_loop()`` gets the loop of the process whose callback
runs. So a killed process simply never runs again, not even its ``finally`` blocks. When a suspended process (SIGSTOP)
continues, it finds that time has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar, cast

from proofs.simulator.machines.threads import Threads
from pybroker.store.interface import CoordinationError
from pyclient.protocol.errors import KafkaError

T = TypeVar("T")

_UNHEARD = (KafkaError, CoordinationError)
"""Errors that are answers, which nobody may await any longer."""


class Handle:
    """A callback that the scheduler will call."""

    __slots__ = ("_args", "_callback", "_is_cancelled", "loop", "time")

    def __init__(self, loop: ProcessLoop | None, time: float, callback: Callable[..., object], args: tuple[Any, ...]):
        self.loop = loop
        self.time = time
        self._callback = callback
        self._args = args
        self._is_cancelled = False

    def cancel(self) -> None:
        """Cancels the callback."""
        self._is_cancelled = True

    def cancelled(self) -> bool:
        """Returns whether ``cancel`` was called."""
        return self._is_cancelled

    def when(self) -> float:
        """Returns the loop time at which the callback is due."""
        return self.time

    def run(self) -> None:
        """Calls the callback, unless it was cancelled."""
        if not self._is_cancelled:
            self._callback(*self._args)


class Scheduler:
    """The events of a history. ``now`` is virtual time in seconds."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.events = 0
        """The number of events so far."""
        self.current: ProcessLoop | None = None
        """The process whose callback runs."""
        self.after_event: Callable[[], object] = lambda: None
        """Called after each event, once all callbacks that it made ready have run."""
        self.on_failure: Callable[[ProcessLoop | None, BaseException], object] = _raise
        """Called with the exception that a callback has raised."""
        self.touched: dict[ProcessLoop, None] = {}
        """The processes that have run since this was last cleared."""
        self.threads: Threads | None = None
        """The scheduler of pool threads; None if their work is done at once."""
        self.tasks: list[Any] = []
        """All tasks of all processes."""
        self._failures: list[tuple[ProcessLoop, Exception]] = []
        self._queue: list[tuple[float, int, Handle]] = []
        self._ready: deque[Handle] = deque()
        self._number = 0

    def at(self, time: float, callback: Callable[..., object], *args: Any, loop: ProcessLoop | None = None) -> Handle:
        """Schedules a callback at that time, for a process or (None) for the world."""
        handle = Handle(loop, time, callback, args)
        self._number += 1
        heappush(self._queue, (time, self._number, handle))
        return handle

    def after(
        self, delay: float, callback: Callable[..., object], *args: Any, loop: ProcessLoop | None = None
    ) -> Handle:
        """Schedules like ``at``, after a delay in seconds."""
        return self.at(self.now + delay, callback, *args, loop=loop)

    def soon(self, handle: Handle) -> None:
        """Runs a callback after those that are ready already."""
        self._ready.append(handle)

    def run(self, until: float) -> None:
        """Lets virtual time pass up to ``until``."""
        queue = self._queue
        self._drain()
        while queue and queue[0][0] <= until:
            time, _, handle = heappop(queue)
            if time > self.now:
                self.now = time
            self._run(handle)
            self._drain()
            self.events += 1
            self.after_event()
            if self._failures:
                self._tell_failure()
        self.now = until

    def failed(self, loop: ProcessLoop, error: Exception) -> None:
        """Notes a failure that nobody awaits, and reports it after the event. The caller may be a finalizer, and Python
        ignores what a finalizer raises.
        """
        self._failures.append((loop, error))

    def check_tasks(self) -> None:
        """Reports exceptions of tasks that nobody has awaited, though the task is still alive here."""
        for task in self.tasks:
            if task.done() and not task.cancelled() and task._log_traceback:
                task.get_loop().call_exception_handler({"exception": task.exception()})
        if self._failures:
            self._tell_failure()

    def _tell_failure(self) -> None:
        failures, self._failures = self._failures, []
        self.on_failure(*failures[0])

    def _drain(self) -> None:
        ready = self._ready
        while ready:
            self._run(ready.popleft())

    def _run(self, handle: Handle) -> None:
        loop = handle.loop
        if loop is not None:
            if loop.is_dead or handle.cancelled():
                return
            if loop.is_paused:
                loop.held.append(handle)
                return
            self.touched[loop] = None
        self.current = loop
        events._set_running_loop(cast(Any, loop))
        try:
            handle.run()
        except Exception as error:
            self.on_failure(loop, error)
        finally:
            events._set_running_loop(None)
            self.current = None

    def close(self) -> None:
        """Ends the history. Waiting work ends as in a process that shuts down."""
        if self.threads is not None:
            self.threads.close()
        self._queue.clear()
        self._ready.clear()
        gone = ProcessLoop(self, "gone")
        gone.is_dead = True
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        events._set_running_loop(cast(Any, gone))
        try:
            for task in self.tasks:
                if task.done():
                    task._log_traceback = False
                else:
                    task._log_destroy_pending = False
                    _close(task.get_coro())
        finally:
            self.tasks.clear()
            events._set_running_loop(None)
            sys.unraisablehook = hook


def _close(work: Any) -> None:
    """Closes a coroutine, as far as its code permits."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # work that it has not begun yet
        work.close()


def _raise(loop: ProcessLoop | None, error: BaseException) -> None:
    raise error


class ProcessLoop:
    """The event loop of one process, from its start to its end. It implements the used part of asyncio's interface."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.held: list[Handle] = []
        """Callbacks that became due while the process was paused."""
        self.machine: Any = None
        """The machine on which the process runs."""

    def __repr__(self) -> str:
        return f"<{self.name}>"

    # Life

    def kill(self) -> None:
        """Ends the process."""
        self.is_dead = True
        self.held.clear()

    def pause(self) -> None:
        """Pauses the process."""
        self.is_paused = True

    def go_on(self) -> None:
        """Continues the process, with every callback that has become due."""
        self.is_paused = False
        held, self.held = self.held, []
        for handle in held:
            self.scheduler.soon(handle)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts ``work`` in this process, from outside."""
        task = asyncio.Task(work, loop=cast(Any, self))
        self.scheduler.tasks.append(task)
        return task

    # asyncio's interface

    def time(self) -> float:
        """Returns virtual time in seconds."""
        return self.scheduler.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        """Schedules a callback behind all that are ready."""
        handle = Handle(self, self.scheduler.now, callback, args)
        self.scheduler.soon(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        """Like ``call_soon``, because there are no threads."""
        return self.call_soon(callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        """Schedules a callback in ``delay`` seconds."""
        return self.scheduler.at(self.scheduler.now + delay, callback, *args, loop=self)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:
        """Schedules a callback at that time."""
        return self.scheduler.at(when, callback, *args, loop=self)

    def create_future(self) -> asyncio.Future[Any]:
        """Creates a future of this loop."""
        return asyncio.Future(loop=cast(Any, self))

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        """Creates a task of this loop."""
        return self.start(coro)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Runs ``func`` some time later, without interruption."""
        done: asyncio.Future[T] = asyncio.Future(loop=cast(Any, self))
        threads = self.scheduler.threads
        if threads is not None:
            threads.start(self, lambda: _work_on_thread(self, done, func, args))
            return done
        self.scheduler.after(pool_delay(self.scheduler.rng), _work, done, func, args, loop=self)
        return done

    def get_debug(self) -> bool:
        """Returns False."""
        return False

    def is_running(self) -> bool:
        """Returns whether the process has not been killed."""
        return not self.is_dead

    def is_closed(self) -> bool:
        """Returns whether the process has been killed."""
        return self.is_dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Reports an uncaught exception as a failure of the history."""
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, _UNHEARD) and not self.is_dead:
            self.scheduler.failed(self, error)


def pool_delay(rng: Random) -> float:
    """Draws how long work waits for a pool thread and takes there: usually no time, sometimes long."""
    return rng.random() * (0.0005 if rng.random() < 0.9 else 0.05)


def _work(done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Does a pool thread's work at once. The simulation decides only when."""
    if done.cancelled():
        return
    try:
        result = func(*args)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(result)


def _work_on_thread(
    loop: ProcessLoop, done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    """Like ``_work``, but on a thread; the loop gets the result."""
    if done.cancelled():
        return
    try:
        tell, outcome = done.set_result, func(*args)
    except Exception as error:
        tell, outcome = done.set_exception, error
    loop.call_soon_threadsafe(_tell, done, tell, outcome)


def _tell(done: asyncio.Future[Any], tell: Callable[[Any], object], outcome: Any) -> None:
    if not done.cancelled():
        tell(outcome)


class Pool:
    """The pool threads of one process, as an ``Executor``."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop

    def submit(self, work: Callable[..., object], *args: Any) -> None:
        """Runs ``work`` later."""
        scheduler = self._loop.scheduler
        if scheduler.threads is not None:
            scheduler.threads.start(self._loop, lambda: work(*args))
            return
        scheduler.after(pool_delay(scheduler.rng), work, *args, loop=self._loop)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing, because no thread has to end; see ``Executor.shutdown``."""


class InlinePool:
    """Threads that end before their creator goes on (``with ThreadPoolExecutor(…) as pool: pool.map(…)``)."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Takes the arguments of a ``ThreadPoolExecutor``."""

    def __enter__(self) -> InlinePool:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing, because no thread has to end; see ``ThreadPoolExecutor.__exit__``."""

    map = staticmethod(map)
