"""Writes the figures of hostility between two markers of ``docs/benchmarks.md``."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[3] / "docs" / "benchmarks.md"
MOST_P99_MS: Final = 50.0
MOST_LEFT_MB: Final = 50


def marks(brokers: int) -> tuple[str, str]:
    """Returns the two markers around the figures for this number of brokers."""
    name = "hostility" if brokers == 1 else f"hostility of {brokers}"
    return f"<!-- {name}: start -->", f"<!-- {name}: end -->"


def columns(brokers: int) -> dict[str, str]:
    """Returns the keys of the figures, with their headings in the table."""
    own = {
        "seconds": "s",
        "p99_ms": "p99 ms",
        "longest_ms": "longest ms",
        "peak_mb": "peak MB",
        "left_mb": "left MB",
    }
    return own if brokers == 1 else own | {"expelled": "expelled"}


def head(brokers: int) -> str:
    """Returns the head of the table."""
    names = columns(brokers).values()
    return f"| Hostile request | answered | {' | '.join(names)} |\n|---|---|{'--:|' * len(names)}"


def line(name: str, row: Mapping[str, Any], brokers: int) -> str:
    """Returns a row of the table."""
    said = "refused" if row["said"] == "closed" else "–" if row["said"] == "None" else row["said"]
    return f"| {name} | {said} | " + " | ".join(str(row[key]) for key in columns(brokers)) + " |"


def verdict(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a sentence that tells whether the goals are reached, and names the rows that miss them."""
    missed = [
        name
        for name, row in rows.items()
        if row["p99_ms"] > MOST_P99_MS or row["left_mb"] > MOST_LEFT_MB or row["expelled"] or row["said"] == "silent"
    ]
    goals = f"p99 ≤ {MOST_P99_MS:g} ms, memory back within {MOST_LEFT_MB} MB, no broker expelled"
    return f"{goals}: {'missed by ' + '; '.join(missed) if missed else f'reached by all {len(rows)} rows'}."


def state(ahead: bool) -> str:
    """Returns a sentence about the machine's state."""
    load = os.getloadavg()[1]
    first = "; broker and client were scheduled before other processes" if ahead else ""
    return (
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load of the last five minutes {load:.1f}{first}."
    )


def text(rows: Mapping[str, Mapping[str, Any]], ahead: bool, brokers: int) -> str:
    """Returns table, verdict and machine's state."""
    lines = [line(name, row, brokers) for name, row in rows.items()]
    return "\n".join((head(brokers), *lines, "", verdict(rows), state(ahead)))


def write(rows: Mapping[str, Mapping[str, Any]], ahead: bool, brokers: int, page: Path = PAGE) -> None:
    """Puts the figures between the markers for this number of brokers.

    Raises:
        LookupError: the page has no such markers.
    """
    begin, end = marks(brokers)
    before, _, rest = page.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise LookupError(f"{page} has no {begin} and {end}")
    page.write_text(f"{before}{begin}\n{text(rows, ahead, brokers)}\n{end}{after}")
