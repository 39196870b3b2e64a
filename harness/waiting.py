"""How tests wait: they ask until an answer is there, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

Found = TypeVar("Found")


def until(look: Callable[[], Found | None], what: str, timeout_s: float = 90, pause_s: float = 0.05) -> Found:
    """Polls until ``look`` returns something true, with a pause after each look. Its failure says ``what`` it waited
    for.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(pause_s)
    return found


def settled(ask: Callable[[], Any], passing: Collection[int], what: str, timeout_s: float = 90) -> Any:
    """The first reply, or row of one, whose error code is not one of the ``passing`` ones; asks again after a pause."""
    replies: list[Any] = []

    def look() -> bool:
        replies[:] = [ask()]
        return replies[0].error_code not in passing

    until(look, what, timeout_s, pause_s=0.005)
    return replies[0]
