"""Figures of hostility as the part of ``docs/benchmarks.md`` between two markers."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[3] / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- hostility: start -->"
END: Final = "<!-- hostility: end -->"
HEAD: Final = (
    "| Hostile request | answered | s | p99 ms | longest ms | peak MB | left MB |\n"
    "|---|---|--:|--:|--:|--:|--:|"
)


def line(name: str, row: Mapping[str, Any]) -> str:
    """A row of the table."""
    said = "refused" if row["said"] == "closed" else "–" if row["said"] == "None" else row["said"]
    figures = (row[key] for key in ("seconds", "p99_ms", "longest_ms", "peak_mb", "left_mb"))
    return f"| {name} | {said} | " + " | ".join(map(str, figures)) + " |"


def state(ahead: bool) -> str:
    """Of the machine, in a sentence."""
    load = os.getloadavg()[1]
    first = "; broker and client were scheduled before other processes" if ahead else ""
    return (
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load of the last five minutes {load:.1f}{first}."
    )


def text(rows: Mapping[str, Mapping[str, Any]], ahead: bool) -> str:
    """Table and state."""
    lines = [line(name, row) for name, row in rows.items()]
    return "\n".join((HEAD, *lines, "", state(ahead)))


def write(rows: Mapping[str, Mapping[str, Any]], ahead: bool, page: Path = PAGE) -> None:
    """Puts the figures between the markers."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{text(rows, ahead)}\n{END}{after}")
