"""Estimates how a cost grows: the exponent of the closest power of n."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Final

from conformance.bench.scale.spent import CPU, MEMORY, SECONDS, Sample

#: All calls together must cost at least this much, else the figure is noise: 20 ms, five ticks of 10 ms, 1 MiB.
FLOORS: Final = {SECONDS: 0.02, CPU: 0.05, MEMORY: 1024}
#: The least for one call: below it, a request's fixed cost outweighs its partitions.
LEAST: Final = {SECONDS: 0.001, CPU: 0.001, MEMORY: 0}

Points = list[tuple[int, float]]


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """Returns the slope of log y over log x by least squares; None for fewer than two values of x."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    middle_x = statistics.fmean(x for x, _ in logs) if logs else 0.0
    spread = sum((x - middle_x) ** 2 for x, _ in logs)
    if not spread:
        return None
    middle_y = statistics.fmean(y for _, y in logs)
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / spread


def values(samples: Iterable[Sample], broker: str, row: str, figure: str) -> Points:
    """Returns the measured median of each size."""
    return _medians((one.partitions, one.figures[figure]) for one in _of(samples, broker, row, figure))


def clear(samples: Iterable[Sample], broker: str, row: str, figure: str) -> Points:
    """Returns the median of each size at which it is not noise. A row about fewer partitions is scaled to all of them.
    """
    some = [one for one in _of(samples, broker, row, figure) if _is_clear(one, figure)]
    return _medians((one.partitions, one.figures[figure] * one.partitions / one.items) for one in some)


def _is_clear(sample: Sample, figure: str) -> bool:
    value = sample.figures[figure]
    return value * sample.calls >= FLOORS[figure] and value >= LEAST[figure]


def _of(samples: Iterable[Sample], broker: str, row: str, figure: str) -> list[Sample]:
    return [one for one in samples if (one.broker, one.row) == (broker, row) and figure in one.figures]


def _medians(points: Iterable[tuple[int, float]]) -> Points:
    found: dict[int, list[float]] = {}
    for size, value in points:
        found.setdefault(size, []).append(value)
    return [(size, statistics.median(some)) for size, some in sorted(found.items())]
