"""The client that must not notice: a record of 100 bytes each millisecond, in a process of its own.

``python -m conformance.bench.hostility.neighbour HOST PORT TOPIC ACKS`` reports that it is ready after its first
acknowledged record. It produces until its stdin ends, without waiting for acknowledgements. Then it prints the delays
of all other records as JSON, in milliseconds. A delay runs from the moment when a record was due to its
acknowledgement. The delay of a refused record is infinite.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from queue import SimpleQueue
from typing import Self

from conformance.data import batches
from harness.protocol.wire_client import Wire, encode_request

RECORDS_PER_S = 1_000
READY = "ready"
ERROR_AT = 12
"""A response of Produce v9 has its error code here, because the topic's name is empty."""


def run(host: str, port: int, topic: str, acks: int, ended: threading.Event) -> list[float]:
    """Returns delays in milliseconds, in the order of sending."""
    records = batches.batch([bytes(100)])
    data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
    fields = {"transactional_id": None, "acks": acks, "timeout_ms": 30_000, "topic_data": [data]}
    frame = encode_request("Produce", 9, fields)
    sent: SimpleQueue[float | None] = SimpleQueue()
    delays: list[float] = []
    with Wire((host, port), 600) as wire:
        wire.send(frame)
        wire.receive()
        print(READY, flush=True)
        error_at = ERROR_AT + len(topic)
        reader = threading.Thread(target=_receive, args=(wire, sent, delays, error_at))
        reader.start()
        start, count = time.monotonic(), 0
        while not ended.is_set():
            due = start + count / RECORDS_PER_S
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            wire.send(frame)
            sent.put(due)
            count += 1
        sent.put(None)
        reader.join()
    return delays


def _receive(wire: Wire, sent: SimpleQueue[float | None], delays: list[float], error_at: int) -> None:
    while (due := sent.get()) is not None:
        refused = wire.receive()[error_at : error_at + 2] != b"\0\0"
        delays.append(float("inf") if refused else (time.monotonic() - due) * 1000)


class Neighbour:
    """A context manager that starts and ends the neighbour's process."""

    def __init__(self, address: tuple[str, int], topic: str, acks: int = 1) -> None:
        self.delays: list[float] = []
        self._words = [sys.executable, "-m", __name__, address[0], str(address[1]), topic, str(acks)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # READY
        return self

    def __exit__(self, *error: object) -> None:
        out, _ = self._process.communicate()
        self.delays = json.loads(out or b"[]")

    def percentile(self, share: float) -> float:
        """Returns a percentile in milliseconds."""
        ordered = sorted(self.delays) or [float("inf")]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


if __name__ == "__main__":
    stop = threading.Event()

    def await_end() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=await_end, daemon=True).start()
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), stop)))
