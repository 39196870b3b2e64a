"""Thread pools for blocking work, one for each purpose.

Work for one purpose never waits for work for another. An ack does not wait for a copy of a hundred gigabytes, and a
metadata change does not wait for a checkpoint. Each pool is bounded; further work waits in the pool's own queue.
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
BROKER_LOGIN_THREADS = 4


class Pools(NamedTuple):
    """The thread pools of one broker."""

    syncs: Executor
    """The pool of syncs for which clients wait: group commit, the checkpoint of DeleteRecords."""
    changes: Executor
    """The pool of metadata changes: it opens and deletes logs, and turns logs into strays."""
    upkeep: Executor
    """The pool of work for which nobody waits: syncs of sealed segments, checkpoints, the ends of moves."""
    copies: Executor
    """The pool of copies to other log dirs. Each thread copies one whole log after the other."""
    removals: Executor
    """The pool that removes files after they were renamed for deletion."""
    logins: Executor
    """The pool of clients' logins by Kerberos."""
    broker_logins: Executor
    """The pool of this broker's own logins at other brokers, which wait for the KDC."""

    @classmethod
    def threads(cls, copies: int) -> Pools:
        """Returns pools with threads for each purpose; ``copies`` is the number of threads that copy logs."""
        return cls(
            ThreadPoolExecutor(SYNC_THREADS, "sync"),
            ThreadPoolExecutor(CHANGE_THREADS, "change"),
            ThreadPoolExecutor(UPKEEP_THREADS, "upkeep"),
            ThreadPoolExecutor(max(1, copies), "copy"),
            ThreadPoolExecutor(REMOVAL_THREADS, "removal"),
            ThreadPoolExecutor(LOGIN_THREADS, "login"),
            ThreadPoolExecutor(BROKER_LOGIN_THREADS, "broker-login"),
        )

    @classmethod
    def one(cls, executor: Executor) -> Pools:
        """Returns the same pool for all purposes: for tests, and where there are no threads."""
        return cls(*(executor for _ in cls._fields))

    def shutdown(self) -> None:
        """Drops work that has not begun; running work continues to its end."""
        for executor in self:
            executor.shutdown(wait=False, cancel_futures=True)


class Inline(Executor):
    """Runs work at once, on the caller's thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs ``fn``; the returned future is done."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done
