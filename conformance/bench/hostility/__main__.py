"""Measures what one large or many small hostile requests do to a client that sends 1,000 records a second.

    python -m conformance.bench.hostility [--brokers 3] [--megabytes 100] [--small 10000] [--only NAME …] [--write]

For each request it shows the time until the answer or the end of the connection. It also shows the client's p99 and
longest delay meanwhile. Two figures say how much the broker's memory grew, at its peak and after 1 s. A broker refuses
a request beyond its API's limit; then halving finds the largest one that it serves, and this is measured too.

With several brokers, the memory is that of the process that grew most. A column counts expired sessions and changes of
the ISR. ``target`` decides which broker gets the request, and where the client's records go.

``--ahead`` (Linux, root) gives broker and client priority over everything else on the machine. The row "nothing" shows
how quiet the machine is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from conformance.bench import summary
from conformance.bench.hostility import requests, table
from conformance.bench.hostility.neighbour import Neighbour
from conformance.bench.hostility.target import HOSTILE, NEIGHBOUR, Address, Target, running
from harness import processes
from harness.protocol.wire_client import ConnectionClosed, Wire

PATIENCE_S: Final = 900.0
REST_S: Final = 1.0
IDLE_S: Final = 5.0
SMALL_AT_ONCE: Final = 20
SMALLEST: Final = 16_000
"""Bytes; a refused request is halved down to this size."""
MOST_MEGABYTES: Final = {"produce zstd": 1.0, "produce gzip": 1.0, "small ones": 5.0}
"""The most megabytes of these requests. A larger one would unpack to 30 GB, or 100,000 small ones would keep a thread
busy for seconds.
"""
AUTOGROUP: Final = "/proc/{}/autogroup"
REFUSED: Final = "closed"
Row = dict[str, object]


def measured(target: Target, attack: Callable[[], str]) -> Row:
    """Returns the cost of an attack for the client and for the broker."""
    expelled, before = target.expelled(), target.memory()
    for pid in before:
        with contextlib.suppress(OSError):
            processes.reset_peak(pid)
    with Neighbour(target.address, NEIGHBOUR, target.acks) as neighbour:
        began = time.monotonic()
        said = attack()
        took = time.monotonic() - began
        time.sleep(REST_S)
    after = target.memory()
    return {
        "said": said,
        "seconds": round(took, 2),
        "p50_ms": round(neighbour.percentile(0.5), 1),
        "p99_ms": round(neighbour.percentile(0.99), 1),
        "longest_ms": round(neighbour.percentile(1), 1),
        "peak_mb": round(max(after[pid].peak - before[pid].now for pid in before.keys() & after) / 1024),
        "left_mb": round(max(after[pid].now - before[pid].now for pid in before.keys() & after) / 1024),
        "expelled": target.expelled() - expelled + len(before.keys() - after),
    }


def one(address: Address, frame: bytes) -> str:
    """Sends a frame once or many times, and waits until the broker has answered or closed the connection."""
    with Wire(address, PATIENCE_S) as wire:
        # A thread sends: a broker stops reading while a client does not read its answers.
        sender = threading.Thread(target=_send, args=(wire, frame), daemon=True)
        sender.start()
        try:
            return f"{sum(len(wire.receive()) for _ in range(frames(frame)))} B"
        except ConnectionClosed:
            return REFUSED
        except TimeoutError:
            return "silent"


def _send(wire: Wire, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # the other thread sees that the connection is closed
        wire.send(frame)


def frames(data: bytes) -> int:
    """Counts the frames in these bytes; all are as long as the first."""
    (size,) = struct.unpack_from(">i", data)
    return len(data) // (4 + int(size))


def many(address: Address, count: int) -> str:
    """Sends small frames, each on a connection of its own, ``SMALL_AT_ONCE`` at a time."""
    answered = 0
    wires: list[Wire] = []
    for frame in requests.small(HOSTILE, 1, count):
        wire = Wire(address, 0.05)
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


def large(target: Target, name: str, megabytes: float) -> dict[str, Row]:
    """Returns what a large request cost; where the broker refused it, also the largest request that it served."""
    size = int(min(megabytes, MOST_MEGABYTES.get(name, megabytes)) * 1e6)
    frame = requests.LARGE[name](HOSTILE, size)
    title, row = row_of(target, name, frame)
    rows = {title: row}
    if row["said"] == REFUSED:
        while size > SMALLEST and one(target.address_of(name), frame) == REFUSED:
            size //= 2
            frame = requests.LARGE[name](HOSTILE, size)
        title, row = row_of(target, name, frame)
        rows[title] = row
    return rows


def row_of(target: Target, name: str, frame: bytes) -> tuple[str, Row]:
    """Returns the row of a large request, with the request's name."""
    address = target.address_of(name)
    return told(f"{name}, {len(frame) / 1e6:.3g} MB", measured(target, lambda: one(address, frame)))


def told(title: str, row: Row) -> tuple[str, Row]:
    """Prints a row as soon as it is measured, because all rows together take minutes."""
    print(title, json.dumps(row), flush=True)
    return title, row


def nothing() -> str:
    """Sleeps instead of an attack, so that its row shows the undisturbed neighbour."""
    time.sleep(IDLE_S)
    return str(None)


def run(target: Target, names: Iterable[str], megabytes: float, count: int) -> dict[str, Row]:
    """Measures all rows."""
    rows = dict([told("nothing", measured(target, nothing))])
    for name in names:
        rows |= large(target, name, megabytes)
    if count:
        rows |= [told(f"{count:,} small", measured(target, lambda: many(target.address, count)))]
    return rows


def go_ahead() -> None:
    """Puts this process and its children into a group of their own, which the scheduler prefers."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    prefer(os.getpid())


def prefer(pid: int) -> None:
    """Lets the scheduler prefer a process's group: a broker under a supervisor has a group of its own."""
    Path(AUTOGROUP.format(pid)).write_text("-18")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=1, help="how many: 1, or some that replicate")
    parser.add_argument("--megabytes", type=float, default=100.0, help="of a large request")
    parser.add_argument("--small", type=int, default=10_000, help="small requests, 0 for none")
    parser.add_argument("--only", nargs="*", default=None, help="names of large requests")
    parser.add_argument("--ahead", action="store_true", help="before other processes of the machine")
    parser.add_argument("--write", action="store_true", help="renew the part of docs/benchmarks.md")
    options = parser.parse_args()
    if options.ahead:
        go_ahead()
    names = [name for name in requests.LARGE if options.only is None or name in options.only]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        running(Path(folder), options.brokers) as target,
    ):
        for pid in target.pids() if options.ahead else ():
            prefer(pid)
        rows = run(target, names, options.megabytes, options.small)
        print("\n".join(line for line in target.logged().splitlines() if "loop" in line)[-4000:], file=sys.stderr)
    print(table.verdict(rows))
    if options.write:
        table.write(rows, options.ahead, options.brokers)
        summary.renew()
    return 0


if __name__ == "__main__":
    sys.exit(main())
