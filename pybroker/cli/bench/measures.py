"""Latencies and rates. Pure: times are arguments, in seconds."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

MB = 1 << 20
QUANTILES = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("p999_ms", 0.999))
COLUMNS = (
    *("what", "records", "seconds", "records_per_s", "mb_per_s"),
    *("avg_ms", *(name for name, _ in QUANTILES), "max_ms"),
)


class Latencies:
    """Measured times, in seconds."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, seconds: float) -> None:
        self._values.append(seconds)

    def __len__(self) -> int:
        return len(self._values)

    def quantile(self, share: float) -> float | None:
        """Returns the time that ``share`` of all times do not exceed; None if there are no times."""
        values = sorted(self._values)
        return values[min(len(values) - 1, int(share * len(values)))] if values else None

    @property
    def average(self) -> float | None:
        return sum(self._values) / len(self._values) if self._values else None

    @property
    def greatest(self) -> float | None:
        return max(self._values, default=None)


class Measured(NamedTuple):
    """The figures of a run: records, bytes and seconds. ``latencies`` has the latencies of some records, or none."""

    what: str
    records: int
    bytes: int
    seconds: float
    latencies: Latencies

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def mb_per_s(self) -> float:
        return self.bytes / MB / self.seconds if self.seconds else 0.0

    def row(self) -> tuple[Any, ...]:
        """Returns the cells of ``COLUMNS``."""
        times = (self.latencies.quantile(share) for _, share in QUANTILES)
        return (
            self.what,
            self.records,
            round(self.seconds, 3),
            round(self.records_per_s),
            round(self.mb_per_s, 2),
            *map(milliseconds, (self.latencies.average, *times, self.latencies.greatest)),
        )


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
