"""Measures how fast a broker compacts: ``python -m conformance.bench --suite compaction``.

A topic of one partition is filled while its policy is ``delete``. Then the policy becomes ``compact``. The time runs
until ``cleaner-offset-checkpoint`` covers everything but the active segment. Each key has been written four times, in
random order. Figures are bytes of log before compaction.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from conformance.bench.cases import GB, Figures, LoadError, Scale, create_topic, delete_topic, large_batches, send
from harness import processes
from harness.protocol import kinds
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker

MB = 1_000_000
TURNS = 4
SEGMENT_BYTES = 16 << 20
#: A prime, so that its multiples visit the keys without order.
STRIDE = 7_919
PATIENCE_S = 300
CHECKPOINT = "cleaner-offset-checkpoint"


def compact_large(broker: Broker, scale: Scale) -> Figures:
    """Compacts records of 1 KB."""
    return _named("compact_1k", _compact(broker, 1000, scale.produce_records // 3))


def compact_small(broker: Broker, scale: Scale) -> Figures:
    """Compacts records of 100 bytes."""
    return _named("compact_100", _compact(broker, 100, scale.produce_records * 3 // 2))


def warm_up(broker: Broker, seconds: float) -> None:
    """Runs compactions of both kinds until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _compact(broker, 1000, 150_000)
        _compact(broker, 100, 800_000)


def _named(name: str, figures: Figures) -> Figures:
    return {f"{name}_{key}": value for key, value in figures.items()}


def _compact(broker: Broker, size: int, records: int) -> Figures:
    topic = create_topic(broker, 1)
    with Wire(broker.address) as wire:
        _alter_broker(wire, {"log.cleaner.backoff.ms": "20"})
        wire.alter_topic(topic, **{"segment.bytes": SEGMENT_BYTES, "min.cleanable.dirty.ratio": 0.01})
        _fill(broker, topic, size, records)
        folder = broker.partition_dir(topic)
        segments = sorted(folder.glob("*.log"))
        volume = sum(path.stat().st_size for path in segments[:-1])
        if not volume:
            raise LoadError(f"{topic} has one segment only")
        before, start = processes.cpu(broker.pid), time.monotonic()
        wire.alter_topic(topic, **{"cleanup.policy": "compact"})
        _wait(broker.log_dir / CHECKPOINT, topic, int(segments[-1].stem))
        seconds = time.monotonic() - start
        cpu = processes.cpu(broker.pid) - before
    delete_topic(broker, topic)
    return {"mb_s": volume / MB / seconds, "cpu_s_per_gb": cpu.total_s / (volume / GB)}


def _alter_broker(wire: Wire, values: dict[str, str]) -> None:
    rows = [{"name": key, "config_operation": kinds.Operation.SET, "value": value} for key, value in values.items()]
    resource = {"resource_type": kinds.Resource.BROKER, "resource_name": "", "configs": rows}
    reply = wire.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    if reply.responses[0].error_code:
        raise LoadError(f"{values}: {reply.responses[0]}")


def _fill(broker: Broker, topic: str, size: int, records: int) -> None:
    value, keys = os.urandom(size - 30), records // TURNS
    rows = ((value, b"%016d" % (number * STRIDE % keys), 0) for number in range(records))
    send(large_batches(broker.librdkafka, 100_000), topic, rows)


def _wait(checkpoint: Path, topic: str, offset: int) -> None:
    """Returns when the checkpoint says that ``topic`` is compacted up to ``offset``."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        if any(line.startswith(f"{topic} 0 ") and int(line.split()[2]) >= offset for line in lines):
            return
        time.sleep(0.005)
    raise LoadError(f"{topic} is not compacted within {PATIENCE_S} s")


CASES = (compact_large, compact_small)
