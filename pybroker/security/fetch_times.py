"""When keys are fetched: again and again, soon after a failure, and early where somebody shows a token of a new key.

It reads no clock: seconds of one that only goes on are arguments.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.sasl_listeners import Remote

EARLY_S: Final = 10.0
"""Tokens of unknown keys, which anybody may make up, cause no more than one fetch in this time."""
_MOST_DOUBLINGS: Final = 62


class FetchTimes:
    """The times of one source."""

    def __init__(self, source: Remote, now_s: float) -> None:
        self._source = source
        self._failures = 0
        self._tried_s = now_s
        self.due_s = now_s
        """When the next attempt is due."""

    @property
    def is_failing(self) -> bool:
        """The last attempt failed."""
        return self._failures > 0

    def on_fetched(self, now_s: float) -> None:
        """The keys have come."""
        self._failures, self._tried_s = 0, now_s
        self.due_s = now_s + self._source.refresh_s

    def on_failed(self, now_s: float) -> None:
        """They have not: each time it waits twice as long as before."""
        wait_s = self._source.retry_s * (1 << min(self._failures, _MOST_DOUBLINGS))
        self._failures, self._tried_s = self._failures + 1, now_s
        self.due_s = now_s + min(wait_s, self._source.longest_retry_s)

    def on_unknown_key(self, now_s: float) -> bool:
        """Whether an attempt is due now, as a token is of a key that has not come."""
        if self.is_failing or now_s < self._tried_s + EARLY_S:
            return False
        self.due_s = min(self.due_s, now_s)
        return True
