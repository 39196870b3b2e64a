"""The loop of a blocking client: one daemon thread per client.

Ctrl-C interrupts the application's wait (see ``call``), and the work is cancelled. After a fork, the child has the
object but not the thread, so every call raises ClientForked.

The loop keeps the time limit of the work, but the caller does not rely on it. The application's own code (a callback, a
logging handler) may stop or block the loop. So a wait has its own clock, and also ends when the thread does.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import math
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterator
from time import monotonic
from typing import Any, TypeVar

from cy.seconds import seconds
from pyclient.core.threads.call import Call
from pyclient.core.threads.lease import Lease
from pyclient.errors import ClientClosed, ClientError, ClientForked, RequestTimedOut

T = TypeVar("T")
SLICE = 1.0
"""Seconds that a thread waits before it checks for signals and whether the client still runs."""
GRACE_S = 5.0
"""Seconds after its time limit in which the work may still end by itself; then the wait for it ends."""

log = logging.getLogger(__name__)


def _refuse_green_threads() -> None:
    """Raises ClientError if gevent has replaced threads: the loop would block the only real one."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        raise ClientError(
            "gevent has replaced threading, and this client needs a thread of its own: call "
            "gevent.monkey.patch_all(thread=False), and the client's methods in gevent.get_hub().threadpool"
        )


class Runner:
    """A loop in its own thread. ``loop`` is uvloop's if that is installed."""

    def __init__(self, owner: str = "client", name: str = "pyclient-io") -> None:
        _refuse_green_threads()
        self.owner = owner
        """The owner, for log lines."""
        self.loop = new_loop()
        self.lease = Lease(self.loop)
        self.forked = False
        """Set in a forked child of the process that created this."""
        self.on_fork: Callable[[], object] = lambda: None
        """Called in the child, right after the fork."""
        self.closed: Callable[[], ClientClosed] = ClientClosed
        """Returns the error for calls that come too late."""
        self.on_end: Callable[[], object] = lambda: None
        """Called by the thread when its last work is done."""
        self._calls: set[Call[Any]] = set()
        """The calls that threads wait for."""
        self._is_over = self._is_abandoned = self._is_stopped = self._is_closing = False
        # Not ``Thread.is_alive``: before Python 3.13 it stays false after a signal's exception has ended it.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        _RUNNERS.add(self)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self._turn(self.loop.run_forever)
            self._turn(self._end_tasks)
        finally:
            self._is_over = True
            try:
                self.on_end()
            except Exception:
                log.exception("ending a %s failed", self.owner)
            self._fail_calls()

    def _turn(self, serve: Callable[[], object]) -> None:
        """Runs the loop. An exception that leaves it (SystemExit of a callback) does not end the thread."""
        while True:
            try:
                serve()
            except BaseException:
                log.exception("%s: a callback raised SystemExit or similar; the client continues", self.owner)
            else:
                return

    def _end_tasks(self) -> None:
        """Cancels running tasks. Tasks that were cancelled before, such as an interrupted close, may finish first."""
        if ending := {task for task in asyncio.all_tasks(self.loop) if task.cancelling()}:
            self.loop.run_until_complete(asyncio.wait(ending, timeout=SLICE))
        if tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=SLICE))
        self.loop.run_until_complete(asyncio.sleep(0))  # waiters learn what ended in the last turn

    def _fail_calls(self) -> None:
        """Fails the waits of other threads: calls that have come in the meantime will not run."""
        for call in tuple(self._calls):
            call.fail(self.closed())

    def check(self) -> None:
        """Raises ClientForked or ClientClosed if the loop can run nothing. Raises RuntimeError on the loop's own
        thread, which cannot wait for itself.
        """
        self.before_wait()
        if self._is_over:
            raise self.closed()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the loop's own thread, or holds its lease."""
        return threading.get_ident() in (self._thread.ident, self.lease.acting)

    def before_wait(self) -> None:
        """Raises if a wait for the loop would never end: ClientForked in a forked child, RuntimeError on the loop's own
        thread.
        """
        if self.forked:
            raise ClientForked
        if self.is_here:
            raise RuntimeError("a blocking call in a callback would wait for itself")

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None, within: float | None = None) -> T:
        """Runs ``work`` on the loop and returns its result; any thread but the loop's may call this. An interrupted
        wait cancels the work. Raises TimeoutError after ``timeout`` seconds, and ClientClosed if the client is closed
        meanwhile. ``within`` limits the work by the loop's clock; if the loop is blocked, RequestTimedOut is raised a
        little later. Raises TypeError for a limit that is not a number.
        """
        call = Call(work, self.closed)
        try:
            seconds(timeout)
            seconds(within)
            self.check()
            self._calls.add(call)
            self.call(self._begin, call)
            if self._is_over:  # since the check; it may have been too late for the loop's last turn
                self._fail_calls()
            return _result(call, timeout, within)
        except BaseException:
            call.drop()
            if not call.is_done:
                with contextlib.suppress(ClientClosed, ClientForked):
                    self.call(call.cancel)
            raise
        finally:
            self._calls.discard(call)
            del call  # its error refers to this frame, and thus to the client

    def _begin(self, call: Call[Any]) -> None:
        """Begins a call on the loop. In the loop's last turns no work begins, because it would not end."""
        if self._is_stopped:
            call.drop()
            call.fail(self.closed())
        else:
            call.begin()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function on the loop soon; returns at once."""
        if self.forked:
            raise ClientForked
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            raise self.closed() from None
        self.lease.recall()

    def stop(self) -> None:
        """Ends the loop and the loop's thread. Does nothing if they have ended."""
        if self.forked or self.loop.is_closed():
            return
        self._ask_to_stop()
        if not self.is_here:
            self._thread.join(2 * SLICE + GRACE_S)
            if not self._is_over:
                log.warning("the thread of a %s does not end: something blocks its loop", self.owner)
            else:
                self.loop.close()

    def _ask_to_stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # another thread has stopped and closed it
            self.loop.call_soon_threadsafe(self._stop)
        self.lease.recall()

    def _stop(self) -> None:
        """Stops the loop, once: the code that ends tasks runs the loop after that."""
        if not self._is_stopped:
            self._is_stopped = True
            self.loop.stop()

    def after_fork(self) -> None:
        """Marks this as forked: the child process does not have the thread."""
        self.forked = True
        self.lease.tenant = 0
        with contextlib.suppress(ReferenceError):  # the owner may be collected before its thread has ended
            self.on_fork()

    @property
    def is_running(self) -> bool:
        """Whether this is the same process, and the thread has not ended."""
        return not self.forked and not self._is_over

    @contextlib.contextmanager
    def closing(self) -> Iterator[bool]:
        """Returns a context for a close. It gives True to the first close, and False to others that begin before that
        one ends, in another thread or within it.
        """
        if self._is_closing:
            yield False
            return
        try:
            self._is_closing = True
            yield True
        finally:
            self._is_closing = False

    def abandon(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None) -> None:
        """Warns that the client was not closed, and ends the loop without waiting long for it. ``last`` runs on the
        loop before that; this method does not wait for it.
        """
        if not self.is_running:
            return
        is_first, self._is_abandoned = not self._is_abandoned, True
        try:
            if is_first:
                warnings.warn(f"a {self.owner} was not closed", ResourceWarning, stacklevel=2)
        finally:  # a warning may be an error
            if last is None:
                self._ask_to_stop()
                if not self.is_here:
                    self._thread.join(SLICE)
            else:
                self.call(self._end_after, last)

    def _end_after(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        task = self.loop.create_task(last())
        task.add_done_callback(lambda _: self._stop())


def _result(call: Call[T], timeout: float | None, within: float | None) -> T:
    """Waits in slices for the call's result. A signal that comes just before a thread begins to wait does not end the
    wait, so it is handled at the end of the slice.
    """
    end = math.inf if timeout is None else monotonic() + timeout
    last = math.inf if within is None else monotonic() + max(0.0, within) + GRACE_S
    try:
        while not call.wait(max(0.0, min(end, last, monotonic() + SLICE) - monotonic())):
            now = monotonic()
            if now >= end:
                raise TimeoutError(f"not done within {timeout:g} s")
            if now >= last:
                told = "the client's thread is blocked by a callback or a logging handler"
                raise RequestTimedOut(told)
        if call.error is not None:
            raise call.error
        return call.result()
    finally:
        del call  # its error refers to this frame


def new_loop() -> asyncio.AbstractEventLoop:
    """Returns a new loop, uvloop's if that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


_RUNNERS: weakref.WeakSet[Runner] = weakref.WeakSet()


def _after_fork() -> None:
    for runner in list(_RUNNERS):
        runner.after_fork()


def _at_exit() -> None:
    for runner in list(_RUNNERS):
        runner.abandon()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
