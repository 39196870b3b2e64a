"""Measures the cost of replication: 1 KB records in batches of up to 1 MB to 4 partitions, three replicas, acks=all."""

from __future__ import annotations

import time

from conformance.bench.cases import GB, RECORD, Figures, Scale, claim_memory, large_batches, send
from conformance.bench.cluster.trio import Trio

PARTITIONS = 4


def replicate(trio: Trio, scale: Scale) -> Figures:
    """Returns the CPU of all brokers per GB that the producer wrote (each is stored three times), and its throughput.
    """
    claim_memory()
    return write(trio, scale)


def write(trio: Trio, scale: Scale) -> Figures:
    """Runs the load of ``replicate`` without claiming memory first."""
    topic = trio.new_topic(PARTITIONS, min_insync_replicas=2)
    producer = large_batches({"bootstrap.servers": trio.bootstrap})
    before, start = trio.cpu_s(), time.monotonic()
    send(producer, topic, ((RECORD, None, number % PARTITIONS) for number in range(scale.replicated_records)))
    seconds = time.monotonic() - start
    cpu_s = trio.cpu_s() - before
    volume = scale.replicated_records * len(RECORD) / GB
    return {"replicate_cpu_s_per_gb": cpu_s / volume, "replicate_mb_s": volume * 1000 / seconds}
