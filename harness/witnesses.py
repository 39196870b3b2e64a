"""Records which clients took part in a test. Each one calls ``used`` where it is created; the report calls ``taken``.
"""

from __future__ import annotations

#: Requests that the suite writes byte by byte; all tests use them to check results, so they count only if no other
#: client took part.
BARE = "bare requests"
_seen: set[str] = set()


def used(name: str) -> None:
    """Notes that a client of this name takes part in the current test."""
    _seen.add(name)


def taken() -> list[str]:
    """Returns the clients that took part since the last call, in alphabetical order."""
    names = sorted(_seen - {BARE} or _seen)
    _seen.clear()
    return names
