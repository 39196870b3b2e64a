"""What a type checker has to refuse: a line that it lets pass has an ignore too many, which fails the lint."""

from __future__ import annotations

import pybroker


def a_name_that_is_not_there() -> None:
    """A slip of the hand is found before it runs."""
    pybroker.runn()  # type: ignore[attr-defined]
