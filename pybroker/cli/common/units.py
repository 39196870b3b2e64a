"""Times and sizes as people write them, for keys that are numbers of a unit: ``retention.ms=7d``.

The end of a key names the unit of its number, and that number is sent. A number without a unit, and the value of any
other key, is sent unchanged. ``m``, ``M``, ``G`` and the like are ambiguous, and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

TIMES = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""The units of time, in milliseconds."""
SIZES = {
    **{"B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4},
    **{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
}
"""The units of size, in bytes."""
ENDS: Mapping[str, tuple[Mapping[str, int], int]] = {
    "ms": (TIMES, 1),
    "seconds": (TIMES, 1000),
    "minutes": (TIMES, 60_000),
    "hours": (TIMES, 3_600_000),
    "days": (TIMES, 86_400_000),
    "bytes": (SIZES, 1),
}
"""By the last word of a key: its units, and how many of the smallest unit a plain number counts for."""
WITH_UNIT = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?) ?([^\s0-9.]+)")
LONG = 1 << 63


def taken(key: str, value: str) -> str:
    """Returns the text to send for a value of a key. Raises ValueError for an unknown unit, a unit that the key does
    not have, and a value that is not a whole number.
    """
    end = key.rpartition(".")[2]
    found = WITH_UNIT.fullmatch(value.strip())
    if end not in ENDS or found is None:
        return value
    units, per = ENDS[end]
    number, unit = found.groups()
    if unit not in units:
        what = "time" if units is TIMES else "size"
        raise ValueError(f"{key}={value}: {unit!r} is not a unit of {what}: use {', '.join(units)}")
    whole = Fraction(number) * units[unit] / per
    if whole.denominator != 1:
        raise ValueError(f"{key}={value}: that is not a whole number of {end}")
    if not -LONG <= whole < LONG:
        raise ValueError(f"{key}={value}: that is more than fits")
    return str(whole.numerator)


def time_text(ms: int) -> str:
    """Formats a time in the largest unit that divides it: ``7d``."""
    return _in_units(ms, {name: TIMES[name] for name in ("d", "h", "min", "s", "ms")})


def size_text(size: int) -> str:
    """Formats a size in the largest unit that divides it: ``1GiB``."""
    return _in_units(size, {name: SIZES[name] for name in ("TiB", "GiB", "MiB", "KiB", "B")})


def _in_units(number: int, units: Mapping[str, int]) -> str:
    fitting = next((name for name, size in units.items() if number and not number % size), list(units)[-1])
    return f"{number // units[fitting]}{fitting}"


def retention_text(policy: str, ms: int, size: int) -> str:
    """Says how long a topic keeps its records: ``7d``, ``7d or 1GiB``, ``compacted``. For ``ms`` and ``size``, -1 means
    no bound.

    A bound of bytes is for each partition.
    """
    policies = {each.strip() for each in policy.split(",")}
    bounds = [time_text(ms)] * (ms >= 0) + [size_text(size)] * (size >= 0)
    kept = " or ".join(bounds) or "for ever"
    if "compact" not in policies:
        return kept
    return f"{kept}, compacted" if "delete" in policies else "compacted"
