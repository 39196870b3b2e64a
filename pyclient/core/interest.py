"""A client's interest in one topic. No I/O, no clock."""

from __future__ import annotations

from pyclient.core.backoff import Backoff


class Interest:
    """Why a client keeps a topic's metadata fresh, and until when."""

    __slots__ = ("_backoff", "comes_back", "create", "not_before", "used_at", "waiters")

    def __init__(self, now: float, backoff: Backoff) -> None:
        self.create = False
        """Whether the broker may create the topic if it is missing: if a call waits for it, or if it ``comes_back``."""
        self.used_at = now
        """When the topic was last requested or used."""
        self.comes_back = False
        """Whether the client's use of the topic, before the last request, may create a deleted topic again. The client
        has records to send, or reads a topic that the application named.
        """
        self.waiters = 0
        """The number of calls that wait for the topic."""
        self.not_before = 0.0
        """The earliest time of the next request for the topic's own sake, while it is missing or lacks leaders."""
        self._backoff = backoff

    @property
    def may_create(self) -> bool:
        """Whether a deleted topic may be created again: only if a call waits for it or uses it."""
        return self.create and (self.comes_back or self.waiters > 0)

    def is_idle(self, now: float, max_idle: float) -> bool:
        """Says whether the topic was neither requested nor used for ``max_idle`` seconds, and no call waits for it."""
        return not self.waiters and now - self.used_at > max_idle

    def on_answer(self, now: float, is_whole: bool) -> None:
        """Handles an answer: whether it describes the topic with all leaders."""
        if is_whole:
            self._backoff.reset()
            self.not_before = 0.0
        else:
            self.not_before = now + self._backoff.next()
