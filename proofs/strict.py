"""Lines that a type checker has to refuse. If it accepts one, the superfluous ignore fails the lint."""

from __future__ import annotations

import pybroker


def a_name_that_is_not_there() -> None:
    """The type checker finds a misspelt name."""
    pybroker.runn()  # type: ignore[attr-defined]
