"""Clients under load, each in a process of its own: ``python -m conformance.bench.workers.CLIENT ADDRESS CASE COUNT``.

A worker puts one load on the broker at ADDRESS and prints its cost as JSON. That is ``{"seconds": …, "cpu_s": …}`` for
COUNT records, or ``{"p50_us": …, "p99_us": …}``, or ``{"skipped": why}``. CPU covers all threads of the process while
the load runs. Connecting, metadata and the first records are not measured.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

TOPIC = "bench"
VALUE = b"x" * 100
#: A call that takes many records gets this many at once.
MANY = 10_000
#: A call that returns many records is asked for this many, as an application asks.
POLLED = 500
LINGER_MS = 5
#: A topic of very many partitions has this many.
A_TOPIC = 1_000
#: This share of the load runs before the measurement.
WARM_UP = 0.1
KIB = 1024

#: The variable that names the certificate of the broker's authority. Clients connect by TLS if it is set.
CA = "BENCH_CA"

Result = dict[str, float]
Case = Callable[[str, int], Result]


def wide_topics(partitions: int) -> dict[str, int]:
    """Returns the topics with this number of partitions, by name."""
    starts = range(0, partitions, A_TOPIC)
    return {f"wide-{number}": min(A_TOPIC, partitions - start) for number, start in enumerate(starts)}


def by_tls(trusted: str) -> dict[str, str]:
    """Returns the settings of TLS, or none if the load runs without. ``trusted``: the client's key for the file with
    the authority's certificate."""
    return {"security.protocol": "SSL", trusted: os.environ[CA]} if CA in os.environ else {}


class Skipped(Exception):
    """Raised if the client lacks the feature that the case measures."""


class Stopwatch:
    """Measures the seconds and the CPU seconds since the stopwatch was created."""

    def __init__(self) -> None:
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def result(self) -> Result:
        return {
            "seconds": time.perf_counter() - self._start,
            "cpu_s": time.process_time() - self._cpu,
        }


def consumed(take: Callable[[], int], count: int) -> Result:
    """Calls ``take``, which returns its number of records: first to warm up, then for ``count`` measured records."""
    left = int(count * WARM_UP)
    while left > 0:
        left -= take()
    watch, left = Stopwatch(), count
    while left > 0:
        left -= take()
    result = watch.result()
    share = count / (count - left)
    return {name: value * share for name, value in result.items()}


def one_at_a_time(send: Callable[[], object], count: int) -> Result:
    """Sends records one at a time: ``send`` returns when its record is acknowledged."""
    delays = []
    for _ in range(int(count * WARM_UP)):
        send()
    for _ in range(count):
        start = time.perf_counter()
        send()
        delays.append(time.perf_counter() - start)
    return quantiles(delays)


def quantiles(delays: Sequence[float]) -> Result:
    ordered = sorted(delays)
    return {"p50_us": ordered[len(ordered) // 2] * 1e6, "p99_us": ordered[int(len(ordered) * 0.99)] * 1e6}


def main(cases: Mapping[str, Case]) -> None:
    """Runs a worker's program."""
    address, name, count = sys.argv[1:]
    result: Mapping[str, object]
    try:
        if name not in cases:
            raise Skipped(f"no case {name}")
        result = cases[name](address, int(count))
    except Skipped as skipped:
        result = {"skipped": str(skipped)}
    print(json.dumps(result))
