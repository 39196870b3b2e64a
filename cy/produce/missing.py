"""The default of ``send`` for a value that the application does not give."""

from __future__ import annotations

from typing import Final


class Missing:
    """The type of ``MISSING``."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


def require_key(key: object) -> None:
    """Checks the key of a record without a value. Raises TypeError if there is none: an application that wants neither
    value nor key must say so by value=None.
    """
    if key is None:
        raise TypeError("send needs a value or a key: pass value=None for a record with neither")
