"""What one large or many small hostile requests do to a client of 1,000 records a second.

    python -m conformance.bench.hostility [--megabytes 100] [--small 10000] [--only NAME …] [--write]

For each request: how long it took until it was answered or its connection was closed, and meanwhile the client's p99
and longest delay; the broker's memory, at its peak and 1 s afterwards, above what it was before. Where a request holds
more than its API's limit, so that it is refused, the largest one that is served is measured as well, by halving.

``--ahead`` (Linux, root) lets broker and client go before whatever else the machine does: the row "nothing" says how
quiet it is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from conformance.bench.hostility import requests, table
from conformance.bench.hostility.neighbour import Neighbour
from conformance.brokers import Broker, OurBroker
from conformance.wire_client import ConnectionClosed, Wire

PATIENCE_S: Final = 900.0
REST_S: Final = 1.0
SMALL_AT_ONCE: Final = 20
SMALLEST: Final = 16_000
"""Bytes; a request that is refused is halved down to this."""
MOST_MEGABYTES: Final = {"produce zstd": 1.0, "produce gzip": 1.0}
"""One unpacks to 30 GB, which takes a thread some seconds."""
AUTOGROUP: Final = "/proc/self/autogroup"
REFUSED: Final = "closed"
Row = dict[str, object]


def memory_mb(pid: int, key: str) -> float:
    """``VmRSS`` or ``VmHWM`` of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return 0.0


def measured(broker: Broker, topic: str, attack: Callable[[], str]) -> Row:
    """What an attack did."""
    assert broker.process is not None
    pid = broker.process.pid
    before = memory_mb(pid, "VmRSS")
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    with Neighbour(broker.address, topic) as neighbour:
        began = time.monotonic()
        said = attack()
        took = time.monotonic() - began
        time.sleep(REST_S)
    return {
        "said": said,
        "seconds": round(took, 2),
        "p50_ms": round(neighbour.percentile(0.5), 1),
        "p99_ms": round(neighbour.percentile(0.99), 1),
        "longest_ms": round(neighbour.percentile(1), 1),
        "peak_mb": round(memory_mb(pid, "VmHWM") - before),
        "left_mb": round(memory_mb(pid, "VmRSS") - before),
    }


def one(broker: Broker, frame: bytes) -> str:
    """Sends a frame and waits for the end of what comes of it."""
    with Wire(broker.address, PATIENCE_S) as wire:
        try:
            wire.send(frame)
            return f"{len(wire.receive())} B"
        except ConnectionClosed:
            return REFUSED
        except TimeoutError:
            return "silent"


def many(broker: Broker, topic: str, count: int) -> str:
    """Sends small frames, each on a connection of its own, ``SMALL_AT_ONCE`` at a time."""
    answered = 0
    wires: list[Wire] = []
    for frame in requests.small(topic, 1, count):
        wire = Wire(broker.address, 0.05)
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            wire.send(frame)
        wires.append(wire)
        if len(wires) == SMALL_AT_ONCE:
            for each in wires:
                with contextlib.suppress(ConnectionClosed, TimeoutError, OSError):
                    each.receive()
                    answered += 1
                each.close()
            wires = []
    return f"{answered} of {count} answered"


def large(broker: Broker, name: str, megabytes: float) -> dict[str, Row]:
    """What a large request did; where it was refused, also the largest that was not."""
    size = int(min(megabytes, MOST_MEGABYTES.get(name, megabytes)) * 1e6)
    frame = requests.LARGE[name]("hostile", size)
    title, row = row_of(broker, name, frame)
    rows = {title: row}
    if row["said"] == REFUSED:
        while size > SMALLEST and one(broker, frame) == REFUSED:
            size //= 2
            frame = requests.LARGE[name]("hostile", size)
        title, row = row_of(broker, name, frame)
        rows[title] = row
    return rows


def row_of(broker: Broker, name: str, frame: bytes) -> tuple[str, Row]:
    """A large request's row, and what it is called."""
    title = f"{name}, {len(frame) / 1e6:.3g} MB"
    row = measured(broker, "neighbour", lambda: one(broker, frame))
    print(title, json.dumps(row), flush=True)
    return title, row


def run(broker: Broker, names: Iterable[str], megabytes: float, count: int) -> dict[str, Row]:
    """All rows."""
    with Wire(broker.address) as wire:
        wire.create_topic("neighbour")
        wire.create_topic("hostile")
    rows = {"nothing": measured(broker, "neighbour", lambda: str(time.sleep(5)))}
    print("nothing", json.dumps(rows["nothing"]), flush=True)
    for name in names:
        rows |= large(broker, name, megabytes)
    if count:
        rows[f"{count:,} small ones"] = measured(broker, "neighbour", lambda: many(broker, "hostile", count))
        print("small", json.dumps(rows[f"{count:,} small ones"]), flush=True)
    return rows


def go_ahead() -> None:
    """Makes this process and what it starts a group of its own that the scheduler prefers."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    Path(AUTOGROUP).write_text("-15")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=100.0, help="of a large request")
    parser.add_argument("--small", type=int, default=10_000, help="small requests, 0 for none")
    parser.add_argument("--only", nargs="*", default=None, help="names of large requests")
    parser.add_argument("--ahead", action="store_true", help="before other processes of the machine")
    parser.add_argument("--write", action="store_true", help="renew the part of docs/benchmarks.md")
    options = parser.parse_args()
    if options.ahead:
        go_ahead()
    names = [name for name in requests.LARGE if options.only is None or name in options.only]
    folder = Path(tempfile.mkdtemp())
    with OurBroker(folder / "broker") as broker:
        rows = run(broker, names, options.megabytes, options.small)
        print("\n".join(line for line in broker.logged().splitlines() if "loop" in line)[-4000:], file=sys.stderr)
    if options.write:
        table.write(rows, options.ahead)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
