"""Paused partitions keep their buffered records and do not block other partitions."""

from __future__ import annotations

from pyclient import Consumer, Producer, TopicPartition
from pyclient.tests.support import patiently

PARTITIONS = 12
RECORDS = 20
SIZE = 50_000


def test_a_partition_is_read_however_many_others_are_paused(broker, new_topic):
    """A pool of workers pauses each partition while a worker processes its records."""
    topic = new_topic(PARTITIONS)
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Producer(broker.bootstrap) as producer:
        for number in range(RECORDS):
            for place in places:
                producer.send(topic, b"%03d" % number + bytes(SIZE), partition=place.partition)
    with Consumer(broker.bootstrap, auto_offset_reset="earliest", queued_max_bytes=3_000_000) as consumer:
        consumer.assign(places)
        found: dict[TopicPartition, list[int]] = {place: [] for place in places}
        patience = patiently(lambda: f"{sum(map(bool, found.values()))} of {PARTITIONS} gave records")

        def poll() -> None:
            next(patience)
            for record in consumer.poll(timeout=0.1, max_records=2):
                found[TopicPartition(record.topic, record.partition)].append(int(bytes(record.value)[:3]))

        while not all(found.values()):
            poll()
            consumer.pause([place for place in places if found[place]])
        consumer.resume(places)
        while sum(map(len, found.values())) < PARTITIONS * RECORDS:
            poll()
    assert found == {place: list(range(RECORDS)) for place in places}
