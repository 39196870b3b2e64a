"""Metrics of this machine: CPU, memory, disk and network are sampled from /proc and sent to a topic. At the same time
they are read from it and aggregated in windows of a second. Complete windows go to another topic.

    python examples/metrics.py [--seconds 10]

A window is complete when a sample of the same metric is later than its end and the allowed lateness. All of it is one
asyncio program of two tasks; they could as well be two programs on two machines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pyclient import NewTopic, aio
from reading import read
from stage import broker, parser, picture, play, tell

SAMPLES = NewTopic("metrics", 2)
WINDOWS = NewTopic("metrics-by-second", 2)
EVERY_S = 0.1
WINDOW_MS = 1000
LATENESS_MS = 200
MEGA = 1e6
UNITS = {
    "cpu": "% of all cores busy",
    "memory": "MB used",
    "disk": "MB/s read and written",
    "network": "MB/s in and out",
}


class Window(msgspec.Struct):
    """What one metric did between ``start_ms`` and a second later."""

    metric: str
    start_ms: int
    count: int
    low: float
    mean: float
    high: float


def counters() -> dict[str, float]:
    """What the kernel counts since its start, in ticks of all cores and in bytes; and the memory in use, in bytes."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    memory = {name: int(size.split()[0]) for name, size in fields("/proc/meminfo", 0)}
    lines = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    disks = [line for line in lines if Path("/sys/block", line[2], "device").exists()]
    network = [sizes.split() for _, sizes in fields("/proc/net/dev", 2)]
    return {
        "all ticks": sum(ticks),
        "busy ticks": sum(ticks) - sum(ticks[3:5]),  # without idle ones, and those that waited for a disk
        "memory": (memory["MemTotal"] - memory["MemAvailable"]) * 1024,
        "disk": sum(int(each[5]) + int(each[9]) for each in disks) * 512,
        "network": sum(int(each[0]) + int(each[8]) for each in network),
    }


def fields(file: str, heading: int) -> Iterator[tuple[str, str]]:
    """Name and rest of lines ``name: rest``, below so many lines of heading."""
    for line in Path(file).read_text().splitlines()[heading:]:
        name, _, rest = line.partition(":")
        yield name.strip(), rest


def gauges(before: dict[str, float], now: dict[str, float], seconds: float) -> dict[str, float]:
    """Values in ``UNITS``."""
    grown = {name: now[name] - before[name] for name in now}
    return {
        "cpu": 100 * grown["busy ticks"] / max(grown["all ticks"], 1),
        "memory": now["memory"] / MEGA,
        "disk": grown["disk"] / MEGA / seconds,
        "network": grown["network"] / MEGA / seconds,
    }


async def sample(bootstrap: str, seconds: float) -> int:
    """Sends a record per metric every ``EVERY_S``; how many."""
    count = 0
    ends_at = time.monotonic() + seconds
    async with aio.Producer(bootstrap) as producer:
        before, then = counters(), time.monotonic()
        while then < ends_at:
            await asyncio.sleep(EVERY_S)
            now, at = counters(), time.monotonic()
            for name, value in gauges(before, now, at - then).items():
                await producer.send(SAMPLES.name, b"%f" % value, name.encode())
                count += 1
            before, then = now, at
    return count


class Aggregation:
    """Values in windows that are not complete yet."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, int], list[float]] = {}
        self.late = 0
        self._latest: dict[str, int] = {}

    def add(self, metric: str, at_ms: int, value: float) -> None:
        """A sample; one whose window is complete already is only counted."""
        start = at_ms - at_ms % WINDOW_MS
        if self._is_complete(metric, start):
            self.late += 1
        else:
            self.open.setdefault((metric, start), []).append(value)
            self._latest[metric] = max(at_ms, self._latest.get(metric, 0))

    def take(self, is_end: bool = False) -> list[Window]:
        """The complete windows by now; at the end all."""
        chosen = [place for place in self.open if is_end or self._is_complete(*place)]
        return [self._window(*place, self.open.pop(place)) for place in sorted(chosen)]

    def _is_complete(self, metric: str, start_ms: int) -> bool:
        return self._latest.get(metric, 0) >= start_ms + WINDOW_MS + LATENESS_MS

    def _window(self, metric: str, start_ms: int, values: list[float]) -> Window:
        return Window(metric, start_ms, len(values), min(values), sum(values) / len(values), max(values))


async def aggregate(bootstrap: str, sampling: asyncio.Task[int]) -> Aggregation:
    """Reads samples and sends windows until all that is sampled was read."""
    aggregation = Aggregation()
    done = 0
    async with (
        aio.Consumer(bootstrap, group_id="metrics", topics=[SAMPLES.name], auto_offset_reset="earliest") as consumer,
        aio.Producer(bootstrap, value_serializer="json", linger_ms=5) as producer,
    ):
        while not sampling.done() or done < sampling.result():
            for record in await consumer.poll(timeout=0.2):
                aggregation.add(record.key.decode(), record.timestamp, float(record.value))
                done += 1
            await send(producer, aggregation.take())
        await send(producer, aggregation.take(is_end=True))
    return aggregation


async def send(producer: aio.Producer, windows: Iterable[Window]) -> None:
    """To the topic of windows."""
    for window in windows:
        await producer.send(WINDOWS.name, window, window.metric.encode(), timestamp=window.start_ms)


async def measure(bootstrap: str, seconds: float) -> tuple[int, int]:
    """How many samples were sent, and how many of them were too late for their window."""
    sampling = asyncio.create_task(sample(bootstrap, seconds))
    aggregation = await aggregate(bootstrap, sampling)
    return await sampling, aggregation.late


def draw(file: Path, windows: list[Window]) -> None:
    """The mean of each window, between the lowest and the highest sample."""
    start = min(window.start_ms for window in windows)
    with picture(file, "This machine, second by second: mean, lowest and highest sample") as figure:
        for axes, (metric, unit) in zip(figure.subplots(len(UNITS), sharex=True), UNITS.items(), strict=True):
            mine = sorted((each for each in windows if each.metric == metric), key=lambda each: each.start_ms)
            times = [(each.start_ms - start) / 1000 for each in mine]
            axes.plot(times, [each.mean for each in mine], marker=".")
            axes.fill_between(times, [each.low for each in mine], [each.high for each in mine], alpha=0.2)
            axes.set_title(f"{metric}, {unit}", loc="left", fontsize="small")
            axes.set_ylim(bottom=0)
        axes.set_xlabel("s")


def main() -> bool:
    """Whether each sample is in one window."""
    arguments = parser(__doc__ or "", "metrics")
    arguments.add_argument("--seconds", type=float, default=10, help="to sample [%(default)s]")
    options = arguments.parse_args()
    with broker(options.bootstrap, [SAMPLES, WINDOWS]) as bootstrap:
        sent, late = asyncio.run(measure(bootstrap, options.seconds))
        windows = [msgspec.json.decode(record.value, type=Window) for record in read(bootstrap, WINDOWS.name)]
    tell("samples", f"{sent:,} of {len(UNITS)} metrics; {late} came too late")
    tell("windows", f"{len(windows):,} of a second each")
    for metric, unit in UNITS.items():
        mine = [window for window in windows if window.metric == metric]
        mean = sum(window.mean * window.count for window in mine) / sum(window.count for window in mine)
        tell(metric, f"{mean:,.1f} {unit}, at most {max(window.high for window in mine):,.1f}")
    draw(options.output / "metrics.png", windows)
    return sum(window.count for window in windows) + late == sent


if __name__ == "__main__":
    play(main)
