"""librdkafka's consumer, with a limit on each wait.

A synchronous ``commit`` of confluent-kafka waits without a limit, and no signal reaches a thread inside it. So it runs
in a thread of its own here. ``close`` may hang while a rebalance is pending, one time in ten on a loaded machine. The
rebalance callback then asks librdkafka's main thread for an assignment, but that thread answers no longer. The callback
holds the interpreter's lock while it waits (2.16). So a consumer unsubscribes first, and gets a callback for that. A
consumer that its group has evicted (``max.poll.interval.ms``) is never closed; it stays until the process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import confluent_kafka

from harness.witnesses import used

T = TypeVar("T")

CLOSE_TIMEOUT_S = 20.0
LEAVE_TIMEOUT_S = 5.0
COMMIT_TIMEOUT_S = 120.0


def within(timeout_s: float, call: Callable[[], T], what: str) -> T:
    """Calls ``call`` on a thread of its own, and returns its result.

    Raises:
        TimeoutError: it did not end in time; the thread stays in there, alone.
    """
    outcome: list[Callable[[], T]] = []

    def run() -> None:
        try:
            value = call()
        except BaseException as error:
            raised = error
            outcome.append(lambda: _raise(raised))
        else:
            outcome.append(lambda: value)

    thread = threading.Thread(target=run, name=f"librdkafka-{what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        raise TimeoutError(f"librdkafka's {what} did not end within {timeout_s:.0f} s")
    return outcome[0]()


def _raise(error: BaseException) -> Any:
    raise error


class Consumer(confluent_kafka.Consumer):
    """A ``confluent_kafka.Consumer`` whose ``close`` and ``commit`` return."""

    def __init__(self, settings: dict[str, Any]) -> None:
        used("librdkafka")
        super().__init__(settings)
        self._max_poll_interval_s = int(settings.get("max.poll.interval.ms", 300_000)) / 1_000
        self._is_static = "group.instance.id" in settings
        self._subscribed = False
        self._polled = time.monotonic()

    def subscribe(self, *arguments: Any, **options: Any) -> None:
        """Subscribes."""
        self._subscribed = True
        super().subscribe(*arguments, **options)

    def poll(self, *arguments: Any, **options: Any) -> Any:
        """Returns the next message, or None."""
        self._polled = time.monotonic()
        return super().poll(*arguments, **options)

    def consume(self, *arguments: Any, **options: Any) -> Any:
        """Returns the next messages."""
        self._polled = time.monotonic()
        return super().consume(*arguments, **options)

    def close(self) -> None:
        """Leaves the group. An evicted consumer is kept forever, because its deallocation would close it."""
        if time.monotonic() - self._polled > self._max_poll_interval_s:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
            return
        if self._subscribed and not self._is_static:
            self._leave()
        try:
            within(CLOSE_TIMEOUT_S, super().close, "close")
        except TimeoutError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)

    def _leave(self) -> None:
        """Unsubscribes, and serves the callbacks up to that of the unsubscription."""
        with contextlib.suppress(confluent_kafka.KafkaException, RuntimeError):
            self.unsubscribe()
            deadline = time.monotonic() + LEAVE_TIMEOUT_S
            while (self.poll(0.05) is not None or self.assignment()) and time.monotonic() < deadline:
                pass

    def commit(self, *arguments: Any, **options: Any) -> Any:
        """Commits.

        Raises:
            TimeoutError: a synchronous commit got no answer.
        """
        if options.get("asynchronous", True):
            return super().commit(*arguments, **options)
        return within(COMMIT_TIMEOUT_S, lambda: super(Consumer, self).commit(*arguments, **options), "commit")
