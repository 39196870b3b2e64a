"""What replication costs: 1 KB records in batches of up to 1 MB to 4 partitions, three replicas, acks=all."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from conformance.bench.cases import GB, KIB, Figures, LoadError, Scale, claim_memory
from conformance.bench.cluster.trio import Trio

PARTITIONS = 4
RECORD = bytes(range(256)) * 4


def replicate(trio: Trio, scale: Scale) -> Figures:
    """CPU of all brokers per GB that the producer wrote (each is stored three times), and its throughput."""
    claim_memory()
    return write(trio, scale)


def write(trio: Trio, scale: Scale) -> Figures:
    """The load of ``replicate``, into whatever memory there is."""
    topic = trio.new_topic(PARTITIONS, min_insync_replicas=2)
    producer = Producer(
        {
            "bootstrap.servers": trio.bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512 * KIB,
        }
    )
    before, start = trio.cpu_s(), time.monotonic()
    for number in range(scale.replicated_records):
        while True:
            try:
                producer.produce(topic, RECORD, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(120):
        raise LoadError("records were not acknowledged within 120 s")
    seconds = time.monotonic() - start
    cpu_s = trio.cpu_s() - before
    volume = scale.replicated_records * len(RECORD) / GB
    return {"replicate_cpu_s_per_gb": cpu_s / volume, "replicate_mb_s": volume * 1000 / seconds}
