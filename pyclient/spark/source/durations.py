"""Parses times as in Spark's options: ``30s``, ``15m``, ``1h``, ``250ms``. A number without a unit is milliseconds."""

from __future__ import annotations

import re
from typing import Final

from pyclient.errors import ConfigError

_UNITS: Final = {
    "": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}


def milliseconds(name: str, text: str) -> int:
    """Returns the option's value. Raises ConfigError."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS:
        raise ConfigError(f"{name}={text!r} is not a time such as 250ms, 30s, 15m, 1h or 1d")
    return int(found[1]) * _UNITS[found[2]]
