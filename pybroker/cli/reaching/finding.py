"""The finding of a check."""

from __future__ import annotations

from typing import NamedTuple

OK, WARNING, ERROR = "ok", "warning", "error"


class Finding(NamedTuple):
    """The result of one check. ``level`` is ok, warning or error. ``check`` names what was checked. ``advice`` says
    what to do, if anything.
    """

    level: str
    check: str
    found: str
    advice: str = ""
