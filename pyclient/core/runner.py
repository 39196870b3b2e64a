"""The loop of the blocking face: one daemon thread per client.

What the application waits for, it waits for on a future, so that Ctrl-C interrupts the wait; the
work is then cancelled. After a fork the child has the object and not the thread: every call says so.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from pyclient.core.lease import Lease
from pyclient.errors import ClientClosed, ClientForked

T = TypeVar("T")
SLICE = 1.0
"""Seconds that a thread waits without a look at signals."""


class Runner:
    """A loop in a thread of its own. ``loop`` is uvloop's where there is one."""

    def __init__(self, owner: str = "client", name: str = "pyclient-io") -> None:
        self.owner = owner
        """Whose it is, in words."""
        self.loop = new_loop()
        self.lease = Lease(self.loop)
        self.forked = False
        """Set in a child of the process that made this."""
        self.on_fork: Callable[[], object] = lambda: None
        """Called in the child, right after the fork."""
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        _RUNNERS.add(self)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        if tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=SLICE))

    def check(self) -> None:
        """Raises ClientForked, ClientClosed where nothing can run; RuntimeError on the loop's own
        thread, which cannot wait for itself.
        """
        self.before_wait()
        if not self._thread.is_alive() or self.loop.is_closed():
            raise ClientClosed

    @property
    def is_here(self) -> bool:
        """The caller is on the loop's own thread, or has its place."""
        return threading.get_ident() in (self._thread.ident, self.lease.acting)

    def before_wait(self) -> None:
        """Raises where a wait for the loop would never end: ClientForked in a forked child,
        RuntimeError on the loop's own thread.
        """
        if self.forked:
            raise ClientForked
        if self.is_here:
            raise RuntimeError("a blocking call in a callback would wait for itself")

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs ``work`` on the loop and returns its result; any thread but the loop's. Raises
        TimeoutError after ``timeout`` seconds. An interrupted wait cancels the work.
        """
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        self.lease.recall()
        try:
            return _result(future, timeout)
        except BaseException:
            future.cancel()
            self.lease.recall()
            raise

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls on the loop, soon; returns at once."""
        if self.forked:
            raise ClientForked
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            raise ClientClosed from None
        self.lease.recall()

    def stop(self) -> None:
        """Ends the loop and its thread; harmless when it has ended."""
        if self.forked or not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.lease.recall()
        if not self.is_here:
            self._thread.join()
            self.loop.close()

    def abandon(self) -> None:
        """Nobody has closed the client, or will: warns, and ends the loop without waiting long for it."""
        if self.forked or not self._thread.is_alive():
            return
        warnings.warn(f"a {self.owner} was not closed", ResourceWarning, stacklevel=2)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.lease.recall()
        if not self.is_here:
            self._thread.join(SLICE)


def _result(future: Future[T], timeout: float | None) -> T:
    """The future's result, waited for in slices: a signal that comes just before a thread begins to
    wait does not end the wait, so it is met at the end of the slice.
    """
    left = math.inf if timeout is None else timeout
    while True:
        try:
            return future.result(min(left, SLICE))
        except TimeoutError:
            if future.done():  # it may have ended meanwhile, or the error is its own
                return future.result()
            if left <= SLICE:
                raise
            left -= SLICE


def new_loop() -> asyncio.AbstractEventLoop:
    """A new loop, uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


_RUNNERS: weakref.WeakSet[Runner] = weakref.WeakSet()


def _after_fork() -> None:
    for runner in list(_RUNNERS):
        runner.forked = True
        runner.lease.tenant = 0
        runner.on_fork()


def _at_exit() -> None:
    for runner in list(_RUNNERS):
        runner.abandon()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
