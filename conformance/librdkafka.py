"""librdkafka's consumer, whose waits end.

``close`` and a synchronous ``commit`` of confluent-kafka wait without a limit, and neither a signal nor pytest's own
time-out reaches a thread in there. On a loaded machine one ``close`` in ten of a member that was put out of its group
(``max.poll.interval.ms``) never ends: the rebalance callback asks librdkafka's main thread for an assignment, which
no longer answers (2.16).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import confluent_kafka

T = TypeVar("T")

CLOSE_TIMEOUT_S = 20.0
COMMIT_TIMEOUT_S = 120.0


def within(timeout_s: float, call: Callable[[], T], what: str) -> T:
    """What ``call`` returns or raises, made by a thread of its own.

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
    """``confluent_kafka.Consumer`` that comes back from ``close`` and ``commit``."""

    def close(self) -> None:
        """Leaves the group. A consumer that hangs in there is given up, with a warning: nothing is tested by it."""
        try:
            within(CLOSE_TIMEOUT_S, super().close, "close")
        except TimeoutError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)

    def commit(self, *arguments: Any, **options: Any) -> Any:
        """Commits.

        Raises:
            TimeoutError: a synchronous commit got no answer.
        """
        if options.get("asynchronous", True):
            return super().commit(*arguments, **options)
        return within(COMMIT_TIMEOUT_S, lambda: super(Consumer, self).commit(*arguments, **options), "commit")
