"""A client's interest in one topic. No I/O, no clock."""

from __future__ import annotations

from pyclient.core.backoff import Backoff


class Interest:
    """Why a client keeps a topic's metadata fresh, and until when."""

    __slots__ = ("_backoff", "comes_back", "create", "not_before", "used_at", "waiters")

    def __init__(self, now: float, backoff: Backoff) -> None:
        self.create = False
        """Whether a call allowed the broker to create the topic. ``may_create`` tells whether the broker may do so now.
        """
        self.used_at = now
        """When the topic was last requested or used."""
        self.comes_back = False
        """Whether the client's use of the topic may create it again after a deletion, as of the last round. It may if
        the client has records to send, or reads a topic that the application named.
        """
        self.waiters = 0
        """The number of calls that wait for the topic."""
        self.not_before = 0.0
        """The earliest time at which this topic alone may cause a request, while it is missing or lacks leaders."""
        self._backoff = backoff

    @property
    def may_create(self) -> bool:
        """Whether a missing topic may be created: only if a call waits for it or the client's use of it allows that."""
        return self.create and (self.comes_back or self.waiters > 0)

    def is_idle(self, now: float, max_idle: float) -> bool:
        """Returns whether no call waits for the topic, and it was not requested or used for ``max_idle`` seconds."""
        return not self.waiters and now - self.used_at > max_idle

    def on_answer(self, now: float, is_whole: bool) -> None:
        """Handles an answer. ``is_whole`` tells whether it describes the topic with all leaders."""
        if is_whole:
            self._backoff.reset()
            self.not_before = 0.0
        else:
            self.not_before = now + self._backoff.next()
