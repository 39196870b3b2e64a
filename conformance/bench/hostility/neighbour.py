"""The client that must not notice: a record of 100 bytes each millisecond, in a process of its own.

``python -m conformance.bench.hostility.neighbour HOST PORT TOPIC`` produces until its stdin ends, then prints the
delays of all records, from when each was due to when it was acknowledged, in milliseconds as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Self

from conformance import batches
from conformance.wire_client import Wire, encode_request

RECORDS_PER_S = 1_000


def run(host: str, port: int, topic: str, ended: threading.Event) -> list[float]:
    """Delays in ms, in order."""
    records = batches.batch([bytes(100)])
    data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
    fields = {"transactional_id": None, "acks": 1, "timeout_ms": 30_000, "topic_data": [data]}
    frame = encode_request("Produce", 9, fields)
    delays = []
    with Wire((host, port), 600) as wire:
        start = time.monotonic()
        while not ended.is_set():
            due = start + len(delays) / RECORDS_PER_S
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            wire.send(frame)
            wire.receive()
            delays.append((time.monotonic() - due) * 1000)
    return delays


class Neighbour:
    """The process, between ``with``."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self.delays: list[float] = []
        self._words = [sys.executable, "-m", __name__, address[0], str(address[1]), topic]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(1)
        return self

    def __exit__(self, *error: object) -> None:
        out, _ = self._process.communicate()
        self.delays = json.loads(out or b"[]")

    def percentile(self, share: float) -> float:
        """In ms."""
        ordered = sorted(self.delays) or [float("inf")]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


if __name__ == "__main__":
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), stop.set()), daemon=True).start()
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), sys.argv[3], stop)))
