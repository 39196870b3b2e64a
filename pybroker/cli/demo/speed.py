"""The speed of the client alone, without an application that creates and processes records."""

from __future__ import annotations

import time
from typing import NamedTuple

from pybroker.cli.demo.stage import Bars
from pyclient import Consumer, Producer, TopicPartition

TOPIC = "demo-again"
POLL_S = 1.0
POLL_RECORDS = 10_000
KEPT_BYTES = 32 << 20
"""How many bytes of values are kept, to be sent again."""
RESULT_S = 60.0


class Speed(NamedTuple):
    """Records and seconds, for one consumer that reads all, and for sending a part again with ``send_many``."""

    read: int
    read_s: float
    sent: int
    sent_s: float


def race(bootstrap: str, topic: str, bars: Bars) -> Speed:
    """Reads the topic from its beginning to its end, then sends values again. Raises KafkaError."""
    began = time.perf_counter()
    read, values = read_all(bootstrap, topic, bars)
    read_s = time.perf_counter() - began
    with Producer(bootstrap, linger_ms=5, batch_size=1 << 17) as producer:
        producer.partitions_for(TOPIC)
        began = time.perf_counter()
        producer.send_many(TOPIC, values).result(RESULT_S)
        return Speed(read, read_s, len(values), time.perf_counter() - began)


def read_all(bootstrap: str, topic: str, bars: Bars) -> tuple[int, list[bytes]]:
    """Reads the topic; returns its number of records, and the values of the first records."""
    count, size, kept = 0, 0, []
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            values = consumer.poll(POLL_S, POLL_RECORDS).values()
            count += len(values)
            bars["read again"] = count
            if size < KEPT_BYTES:
                kept += values
                size += sum(map(len, values))
    return count, kept
