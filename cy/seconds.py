"""The timeouts that applications give: seconds, as a number."""

from __future__ import annotations


def seconds(given: float | None) -> float | None:
    """Returns the timeout, None for none. Raises TypeError for anything but a number."""
    try:
        return None if given is None else 0.0 + given
    except TypeError:
        raise not_seconds(given) from None


def not_seconds(given: object) -> TypeError:
    """Returns the error for a timeout that is not a number."""
    return TypeError(f"timeout must be seconds as a number, not {given!r}")
