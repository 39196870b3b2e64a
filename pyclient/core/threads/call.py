"""Work of the loop that another thread waits for, safe from signals.

A signal handler may raise between any two instructions of the waiting thread. ``concurrent.futures.Future`` has a lock
that guards it. If such an exception left it locked, the loop's thread would hang forever. A call has no such lock. The
loop or the thread takes the work out of its list, and then owns it alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from pyclient.core.threads.bell import Bell
from pyclient.errors import ClientClosed

T = TypeVar("T")


class Call(Generic[T]):
    """The call of one coroutine, from its submission to its result."""

    def __init__(self, work: Coroutine[Any, Any, T], closed: Callable[[], ClientClosed] = ClientClosed) -> None:
        """``closed()`` returns the error of work that was cancelled."""
        self._work = [work]
        self._closed = closed
        self._task: asyncio.Task[T] | None = None
        self._bell = Bell()
        self._results: list[T] = []
        self.error: BaseException | None = None
        """The error of the work; ClientClosed if it was cancelled."""
        self.is_done = False

    # -- on the loop -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Runs the coroutine, unless the call was dropped."""
        if (work := self._taken()) is not None:
            self._task = asyncio.get_running_loop().create_task(work)
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.fail(self._closed())
        elif (error := task.exception()) is not None:
            self.fail(error)
        elif not self.is_done:
            self._results.append(task.result())
            self.is_done = True
            self._bell.ring()

    def fail(self, error: BaseException) -> None:
        """Ends the wait with this error, unless the wait has ended."""
        if not self.is_done:
            self.error = error
            self.is_done = True
            self._bell.ring()

    def cancel(self) -> None:
        """Cancels the coroutine, because no thread waits for it any longer."""
        if self._task is not None:
            self._task.cancel()

    # -- the waiting thread ------------------------------------------------------------------------

    def drop(self) -> None:
        """Drops the coroutine, if it has not begun."""
        if (work := self._taken()) is not None:
            work.close()

    def wait(self, seconds: float) -> bool:
        """Waits, at most ``seconds``. Returns whether the work is done."""
        return self.is_done or (self._bell.wait(seconds) and self.is_done)

    def result(self) -> T:
        """Returns the result of the work."""
        return self._results[0]

    def _taken(self) -> Coroutine[Any, Any, T] | None:
        try:
            return self._work.pop()
        except IndexError:
            return None
