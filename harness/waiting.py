"""The waits of tests: they poll until a condition holds, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

Found = TypeVar("Found")


def until(look: Callable[[], Found | None], what: str, timeout_s: float = 90, pause_s: float = 0.05) -> Found:
    """Polls until ``look`` returns something true, with a pause after each look. If the time is over, the failure names
    ``what`` it waited for.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(pause_s)
    return found


def settled(ask: Callable[[], Any], passing: Collection[int], what: str, timeout_s: float = 90) -> Any:
    """Repeats ``ask`` until the error code of its reply is none of ``passing``, with a pause each time. Returns that
    reply.
    """
    replies: list[Any] = []

    def look() -> bool:
        replies[:] = [ask()]
        return replies[0].error_code not in passing

    until(look, what, timeout_s, pause_s=0.005)
    return replies[0]
