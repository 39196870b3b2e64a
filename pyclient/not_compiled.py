"""What to do where the sources in this clone are not compiled."""

from __future__ import annotations

import os

COMPILED = "cy."
"""What the names of compiled modules begin with."""


def advice() -> str:
    """A line."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return f"the sources in {folder} are not compiled: run `sh install.sh` there"
