"""Which clients took part in a test: each says so where it is made, and the report asks at the test's end."""

from __future__ import annotations

#: Requests that the suite writes byte by byte; all tests use them to check results, so they count only if no other
#: client took part.
BARE = "bare requests"
_seen: set[str] = set()


def used(name: str) -> None:
    """A client of this name takes part in the test that runs."""
    _seen.add(name)


def taken() -> list[str]:
    """The clients that took part since the last call, in alphabetical order."""
    names = sorted(_seen - {BARE} or _seen)
    _seen.clear()
    return names
