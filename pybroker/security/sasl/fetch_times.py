"""Decides when to fetch keys: regularly, soon after a failure, and early if a client shows a token with a new key.

It reads no clock: seconds of a monotonic clock are arguments.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.sasl_listeners import Remote

EARLY_S: Final = 10.0
"""Tokens with unknown keys cause at most one fetch in this time, because anybody may make up such tokens."""
_MOST_DOUBLINGS: Final = 62


class FetchTimes:
    """When the keys of one source were fetched, and when they are fetched next."""

    def __init__(self, source: Remote, now_s: float) -> None:
        self._source = source
        self._failures = 0
        self._tried_s = now_s
        self.due_s = now_s
        """When the next attempt is due."""

    @property
    def is_failing(self) -> bool:
        """True if the last attempt failed."""
        return self._failures > 0

    def on_fetched(self, now_s: float) -> None:
        """Notes that the keys were fetched."""
        self._failures, self._tried_s = 0, now_s
        self.due_s = now_s + self._source.refresh_s

    def on_failed(self, now_s: float) -> None:
        """Notes a failure; the wait doubles each time."""
        wait_s = self._source.retry_s * (1 << min(self._failures, _MOST_DOUBLINGS))
        self._failures, self._tried_s = self._failures + 1, now_s
        self.due_s = now_s + min(wait_s, self._source.longest_retry_s)

    def on_unknown_key(self, now_s: float) -> bool:
        """Returns whether to fetch now, because a token has an unknown key."""
        if self.is_failing or now_s < self._tried_s + EARLY_S:
            return False
        self.due_s = min(self.due_s, now_s)
        return True
