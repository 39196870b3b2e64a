"""Where work runs that may block: pools of threads, one for each purpose.

Work of one purpose never waits behind that of another: an ack not behind a copy of a hundred gigabytes, a change of the
metadata not behind a checkpoint. Each pool is bounded; what is more waits in its own queue.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NamedTuple, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

SYNC_THREADS = 8
CHANGE_THREADS = 2
UPKEEP_THREADS = 4
REMOVAL_THREADS = 1
LOGIN_THREADS = 4


class Pools(NamedTuple):
    """The pools of one broker."""

    syncs: Executor
    """Clients wait for it: group commit, the checkpoint of DeleteRecords."""
    changes: Executor
    """The metadata wait for it: logs are opened, deleted, set aside."""
    upkeep: Executor
    """For work without a waiting caller: syncs of sealed segments, checkpoints, the ends of moves."""
    copies: Executor
    """Logs are copied to other log dirs: whole logs, one after the other in each thread."""
    removals: Executor
    """Files that have lost their names are removed."""
    logins: Executor
    """Clients that say who they are by Kerberos wait for it."""

    @classmethod
    def threads(cls, copies: int) -> Pools:
        """Threads for each purpose, as many as are needed; of ``copies`` that many."""
        return cls(
            ThreadPoolExecutor(SYNC_THREADS, "sync"),
            ThreadPoolExecutor(CHANGE_THREADS, "change"),
            ThreadPoolExecutor(UPKEEP_THREADS, "upkeep"),
            ThreadPoolExecutor(max(1, copies), "copy"),
            ThreadPoolExecutor(REMOVAL_THREADS, "removal"),
            ThreadPoolExecutor(LOGIN_THREADS, "login"),
        )

    @classmethod
    def one(cls, executor: Executor) -> Pools:
        """One for all purposes: for tests, and where there are no threads."""
        return cls(executor, executor, executor, executor, executor, executor)

    def shutdown(self) -> None:
        """Drops work that has not begun; running work continues to its end."""
        for executor in self:
            executor.shutdown(wait=False, cancel_futures=True)


class Inline(Executor):
    """Runs work at once, on the caller's thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The future is done when this returns."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done
