"""Measures our client on the Python that runs it: ``python -m conformance.bench.client HOST:PORT RECORDS``.

The program prints as JSON the CPU time per record of 100 bytes, including this process's network thread. A busy machine
makes a run longer, but costs hardly more CPU.
"""

from __future__ import annotations

import json
import sys
import time

from pyclient import Admin, Consumer, Producer, TopicPartition

VALUE = b"v" * 100
POLL_RECORDS = 5000
PATIENCE_S = 600.0
TOPIC = "bench-client"


def send(bootstrap: str, records: int) -> float:
    """Measures the CPU seconds of one ``send`` per record, until the last record is acknowledged."""
    with Producer(bootstrap, linger_ms=20, batch_size=1 << 17) as producer:
        producer.partitions_for(TOPIC)
        began = time.process_time()
        for _ in range(records):
            producer.send(TOPIC, VALUE)
        producer.flush(PATIENCE_S)
        return time.process_time() - began


def send_many(bootstrap: str, records: int) -> float:
    """Measures the CPU seconds of one ``send_many`` of all records."""
    values = [VALUE] * records
    with Producer(bootstrap, linger_ms=20, batch_size=1 << 17) as producer:
        producer.partitions_for(TOPIC)
        began = time.process_time()
        producer.send_many(TOPIC, values).result(PATIENCE_S)
        return time.process_time() - began


def read(bootstrap: str, records: int) -> float:
    """Measures the CPU seconds of ``poll`` and of reading each value."""
    count = 0
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        began = time.process_time()
        while count < records:
            count += sum(1 for record in consumer.poll(1.0, POLL_RECORDS) if record.value)
        return time.process_time() - began


def main() -> None:
    """Runs the load and prints its figures."""
    bootstrap, records = sys.argv[1], int(sys.argv[2])
    with Admin(bootstrap) as admin:
        admin.create_topics(TOPIC, num_partitions=1)
    # this needs records, so `send` goes first
    cases = {"send": (send, records), "send_many": (send_many, 5 * records), "read": (read, records)}
    print(json.dumps({f"{name}_cpu_us": 1e6 * case(bootstrap, count) / count for name, (case, count) in cases.items()}))


if __name__ == "__main__":
    main()
