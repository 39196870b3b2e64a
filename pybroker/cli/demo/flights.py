"""The demo's own data set: the flights that left New York City in 2013 (see ``data/README.md``)."""

from __future__ import annotations

import io
import lzma
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files

import msgspec

from pybroker.cli.demo.dataset import Item

VERY_LATE_MIN = 120


class Flight(msgspec.Struct):
    """A row. ``delay``: in minutes, None if the flight was cancelled."""

    time: str
    carrier: str
    flight: int
    origin: str
    dest: str
    delay: int | None


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Flight).decode


class Delays:
    """The mean delay of each carrier."""

    def __init__(self) -> None:
        self.minutes: dict[str, int] = defaultdict(int)
        self.flights: dict[str, int] = defaultdict(int)

    def add(self, values: list[bytes]) -> None:
        for flight in map(decode, values):
            if flight.delay is not None:
                self.minutes[flight.carrier] += flight.delay
                self.flights[flight.carrier] += 1

    def merge(self, other: Delays) -> None:
        for carrier, minutes in other.minutes.items():
            self.minutes[carrier] += minutes
            self.flights[carrier] += other.flights[carrier]

    def sentence(self) -> str:
        means = {carrier: self.minutes[carrier] / count for carrier, count in self.flights.items()}
        worst, best = max(means, key=lambda name: means[name]), min(means, key=lambda name: means[name])
        return f"most delayed on average: {worst}, {means[worst]:.1f} min; most punctual: {best}, {means[best]:.1f} min"


class Flights:
    """A record per flight, JSON, with the carrier and the number as its key."""

    topic = "flights"
    title = "the flights that left New York City in 2013"
    copied = "more than two hours late"
    total: int | None = 336_776

    def items(self) -> Iterator[Item]:
        packed = files("pybroker.cli.demo").joinpath("data", "flights.csv.xz")
        with packed.open("rb") as file, io.TextIOWrapper(lzma.open(file), encoding="ascii") as rows:
            next(rows)
            for row in rows:
                time, carrier, number, origin, dest, delay = row[:-1].split(",")
                minutes = int(delay) if delay else None
                value = encode(Flight(time, carrier, int(number), origin, dest, minutes))
                yield Item(f"{carrier}{number}".encode(), value, is_very_late(minutes))

    def is_copied(self, value: bytes) -> bool:
        return is_very_late(decode(value).delay)

    def tally(self) -> Delays:
        return Delays()


def is_very_late(delay: int | None) -> bool:
    """Says whether a flight is late by more than two hours."""
    return delay is not None and delay > VERY_LATE_MIN
