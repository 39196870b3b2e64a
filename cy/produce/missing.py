"""What ``send`` has in place of a value that it was not given."""

from __future__ import annotations

from typing import Final


class Missing:
    """The type of ``MISSING``."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


def require_key(key: object) -> None:
    """Checks the key of a record without a value. Raises TypeError if there is none: nobody means to send a record of
    nothing without saying so.
    """
    if key is None:
        raise TypeError("send needs a value or a key: pass value=None for a record with neither")
