"""Words numbers of things for messages: ``1 record``, ``2 records``."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Returns the number and the thing. ``many`` is the plural, if it is not ``one`` with an s."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
