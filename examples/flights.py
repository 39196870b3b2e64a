"""A data pipeline: a year of real flights (``flight_data.py``) → topic → PySpark → Parquet tables.

    python examples/flights.py [--months 12]

Needs Java 17 and ``pip install '.[spark]'``. ``flights_spark.py`` aggregates flights by hour in a stream. It is killed
on the way (SIGKILL to all of its processes), and started again when the second half of the flights has come. Its table
is compared, to the last row, with the same aggregation of the data set without broker and Spark; so is the warehouse
table that it loads then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from flight_data import Flight, flights
from pybroker.embedded import environment
from pyclient import NewTopic, Producer
from stage import broker, parser, picture, play, tell

JOB = Path(__file__).with_name("flights_spark.py")
TOPIC = NewTopic("flights", 3)
BATCHES = 6
KILLED_AFTER = 2
"""Batches, of ``BATCHES`` or a few more."""
SILENCE = timedelta(days=4)
NEW_YORK = ZoneInfo("America/New_York")


class Hour(NamedTuple):
    """A row of the table ``hours``. minutes_late: None if no flight left."""

    hour: datetime
    origin: str
    flights: int
    departed: int
    minutes_late: int | None


def produce(bootstrap: str, part: Iterable[Flight], is_last: bool) -> float:
    """Sends them; the seconds it took.

    Records go round the partitions, so that these keep step: a stream takes for late what comes after its watermark,
    and that follows the partition which is ahead. A window is complete when something later comes, so behind the last
    flight goes a record that is none.
    """
    began = time.perf_counter()
    with Producer(bootstrap, compression_type="zstd", linger_ms=20) as producer:
        for number, flight in enumerate(part):
            producer.send(TOPIC.name, msgspec.json.encode(flight), partition=number % TOPIC.num_partitions)
        if is_last:
            producer.send(TOPIC.name, msgspec.json.encode({"scheduled": flight.scheduled + SILENCE}))
    return time.perf_counter() - began


def run_spark(bootstrap: str, folder: Path, batch_records: int, kill_after: int | None = None) -> tuple[int, int]:
    """The job as a process of its own: the batches that it completed, and the records that it found too late.

    Raises RuntimeError where it failed.
    """
    command = [sys.executable, str(JOB), bootstrap, TOPIC.name, str(folder), str(batch_records)]
    batches = late = 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("batch"):
                batches += 1
                late += int(line.split()[-3])
            if batches == kill_after:
                return batches, late
        if process.wait() != 0:
            raise RuntimeError(f"the job ended with {process.returncode}")
        return batches, late
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


def rows(files: Any) -> list[dict[str, Any]]:
    """The rows of Parquet files, or a folder of them."""
    from pyarrow import dataset

    found: list[dict[str, Any]] = dataset.dataset(files, partitioning="hive").to_table().to_pylist()
    return found


def hours(folder: Path) -> list[Hour]:
    """The table that the stream has written, without what a killed batch left: Spark lists what counts."""
    lists = (folder / "hours" / "_spark_metadata").glob("[0-9]*")
    entries = [msgspec.json.decode(line) for each in lists for line in each.read_text().splitlines()[1:]]
    found = rows(sorted({entry["path"].removeprefix("file://") for entry in entries}))
    return sorted(Hour(*(row[name] for name in Hour._fields)) for row in found)


def expected_hours(year: list[Flight]) -> list[Hour]:
    """The same without broker and Spark."""
    groups: dict[tuple[datetime, str], list[int | None]] = defaultdict(list)
    for flight in year:
        groups[flight.scheduled.replace(minute=0), flight.origin].append(flight.delay)
    found = []
    for (hour, origin), delays in sorted(groups.items()):
        known = [delay for delay in delays if delay is not None]
        found.append(Hour(hour, origin, len(delays), len(known), sum(known) if known else None))
    return found


def is_loaded(folder: Path, year: list[Flight]) -> bool:
    """Whether the warehouse holds each flight once, as it was."""
    names = Flight.__struct_fields__
    loaded = Counter(tuple(row[name] for name in names) for row in rows(folder / "warehouse"))
    return loaded == Counter(tuple(getattr(flight, name) for name in names) for flight in year)


def draw(file: Path, table: list[Hour]) -> None:
    """The mean delay of each hour, days from left to right."""
    first = table[0].hour.astimezone(NEW_YORK).date()
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in table:
        local = row.hour.astimezone(NEW_YORK)
        cell = sums[local.hour, (local.date() - first).days]
        cell[0] += row.minutes_late or 0
        cell[1] += row.departed
    days = 1 + max(day for _, day in sums)
    means = [[_mean(*sums[hour, day]) for day in range(days)] for hour in range(24)]
    with picture(file, "Departures from New York: mean delay in minutes") as figure:
        axes = figure.subplots()
        image = axes.imshow(means, aspect="auto", origin="lower", cmap="inferno", vmin=0, vmax=120)
        axes.set(xlabel=f"days from {first}", ylabel="hour", ylim=(4.5, 23.5), yticks=range(6, 24, 3))
        figure.colorbar(image)


def _mean(minutes: int, count: int) -> float:
    return minutes / count if count else float("nan")


def main() -> bool:
    """Whether both tables are as expected."""
    arguments = parser(__doc__ or "", "flights")
    arguments.add_argument("--months", type=int, default=12, help="of the data set [%(default)s]")
    options = arguments.parse_args()
    folder = options.output.resolve()
    for name in ("hours", "checkpoint", "warehouse"):
        rmtree(folder / name, ignore_errors=True)
    year = flights(options.months)
    half, batch_records = len(year) // 2, len(year) // BATCHES
    with broker(options.bootstrap, [TOPIC]) as bootstrap:
        sent_s = produce(bootstrap, year[:half], is_last=False)
        killed = run_spark(bootstrap, folder, batch_records, KILLED_AFTER)
        sent_s += produce(bootstrap, year[half:], is_last=True)
        ended = run_spark(bootstrap, folder, batch_records)
    table, expected = hours(folder), expected_hours(year)
    tell("produced", f"{len(year):,} flights in {sent_s:.1f} s, to {TOPIC.num_partitions} partitions")
    tell("stream", f"killed after {killed[0]} batches, then {ended[0]} more; {killed[1] + ended[1]} flights too late")
    tell("hours", f"{len(table):,} rows, {len(expected):,} expected, in {options.output / 'hours'}")
    is_right = is_loaded(folder, year)
    tell("warehouse", f"{'every' if is_right else 'NOT EVERY'} flight once, in {options.output / 'warehouse'}")
    draw(options.output / "delays.png", table)
    return is_right and table == expected


if __name__ == "__main__":
    play(main)
