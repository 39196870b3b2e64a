"""Measures an idle broker, its memory, its stop and its start."""

from __future__ import annotations

import resource
import time

from conformance.bench.scale.spent import CPU, MEMORY, PATIENCE_S, SECONDS, Rows, Spent
from conformance.bench.scale.wide import Wide
from harness import processes

IDLE_S = 10


def idle(wide: Wide) -> Rows:
    """Measures CPU in ten seconds without a client, and the memory beyond that of a broker without topics."""
    before = processes.cpu_ns(wide.broker.pid)
    time.sleep(IDLE_S)
    cpu_s = (processes.cpu_ns(wide.broker.pid) - before) / 1e9
    held = processes.rss_kib(wide.broker.pid) - wide.empty_kib
    yield "idle", Spent({CPU: cpu_s}, wide.partitions)
    yield "memory", Spent({MEMORY: held}, wide.partitions)


def restarts(wide: Wide) -> Rows:
    """Measures a controlled stop and a start, then a kill -9 and a start."""
    yield "stop", _stop(wide)
    yield "start", _start(wide)
    wide.broker.kill()
    yield "start_after_kill", _start(wide)


def _start(wide: Wide) -> Spent:
    """Measures from the start of the process until the broker serves every topic, with the process's CPU time."""
    begin = time.monotonic()
    wide.broker.start(wait=False).wait_ready(PATIENCE_S)
    wide.wait_served(wide.topics)
    seconds = time.monotonic() - begin
    return Spent({SECONDS: seconds, CPU: processes.cpu(wide.broker.pid).total_s}, wide.partitions)


def _stop(wide: Wide) -> Spent:
    """Stops a broker and returns its CPU time, which an ended process leaves to the parent that waits for it."""
    so_far, waited, begin = processes.cpu(wide.broker.pid).total_s, _of_ended(), time.monotonic()
    wide.broker.stop(PATIENCE_S)
    seconds = time.monotonic() - begin
    return Spent({SECONDS: seconds, CPU: max(0.0, _of_ended() - waited - so_far)}, wide.partitions)


def _of_ended() -> float:
    """Returns the CPU seconds of all children that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
