"""Puts numbers of things into words for messages: ``1 record``, ``2 records``, ``a, b, c, d, e and 3 more``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SHOWN: Final = 5
"""How many names a message lists."""


def counted(number: int, one: str, many: str = "") -> str:
    """Returns the number and the thing. ``many`` is the plural, if it is not ``one`` with an s."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


def shortened(names: Sequence[str]) -> str:
    """Returns the first of the names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
