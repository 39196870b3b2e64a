"""The advice to a user who imports a clone whose sources are not compiled."""

from __future__ import annotations

import os

COMPILED = "cy."
"""The prefix of the names of compiled modules."""


def advice() -> str:
    """Returns the advice as one line."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return f"the sources in {folder} are not compiled: run `sh install.sh` there"
