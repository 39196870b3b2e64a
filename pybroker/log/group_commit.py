"""Group commit: one sync of a log serves all requests that wait for it (``flush.acks``).

A waiter is called once the log is synced up to its offset. A request that comes during a sync cannot use this sync,
which may already have read the log's end. It waits for the next sync, together with all others that came meanwhile.
So under load the disk syncs without a pause, and each sync serves all appends that arrived during the last one.

If records that were there when a sync began are missing afterwards, the log was truncated, and this replica no longer
leads. The requests that wait for these records get an error, because they would wait for ever.

It knows no event loop: ``submit(work, done)`` must run ``work`` on a pool thread and call
``done(error or None)`` on the loop's thread.

Thread-safety: loop's thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyclient.protocol import errors

Done = Callable[[Exception | None], None]
Submit = Callable[[Callable[[], object], Done], None]


class Syncable(Protocol):
    """What can be synced: a ``Log``."""

    @property
    def recovery_point(self) -> int:
        """The offset below which all records are on the disk."""

    def flush(self) -> int:
        """Syncs the log; blocks. Raises KafkaStorageError."""


class GroupCommit:
    """Lets all requests that wait for a sync of one log share the sync."""

    __slots__ = ("_log", "_riding", "_running", "_submit", "_waiters")

    def __init__(self, log: Syncable, submit: Submit) -> None:
        self._log = log
        self._submit = submit
        self._waiters: list[tuple[int, Done]] = []
        self._running = False
        self._riding = 0
        """How many of the waiters were there when the running sync began."""

    def wait(self, offset: int, done: Done) -> bool:
        """Calls ``done(None)`` when everything below ``offset`` is synced, ``done(error)`` if that failed.

        If it is synced already, returns True and does not call ``done``.
        """
        if self._log.recovery_point >= offset:
            return True
        self._waiters.append((offset, done))
        if not self._running:
            self._start()
        return False

    def _start(self) -> None:
        self._running = True
        self._riding = len(self._waiters)
        self._submit(self._log.flush, self._on_synced)

    def _on_synced(self, error: Exception | None) -> None:
        self._running = False
        synced = self._log.recovery_point
        waiters, self._waiters = self._waiters, []
        told: list[tuple[Done, Exception | None]] = []
        for number, (offset, done) in enumerate(waiters):
            if error is not None or offset <= synced:
                told.append((done, error))
            elif number < self._riding:
                told.append((done, errors.NotLeaderOrFollower(f"the log was truncated below offset {offset}")))
            else:
                self._waiters.append((offset, done))
        if self._waiters:
            self._start()
        for done, outcome in told:
            done(outcome)
