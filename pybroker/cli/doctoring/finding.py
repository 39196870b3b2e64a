"""What a check found."""

from __future__ import annotations

from typing import NamedTuple

OK, WARNING, ERROR = "ok", "warning", "error"


class Finding(NamedTuple):
    """``level``: ok, warning or error. ``check``: what was looked at. ``advice``: what to do, if anything."""

    level: str
    check: str
    found: str
    advice: str = ""
