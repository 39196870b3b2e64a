"""Puts load on kafka-python."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from conformance.bench.workers import (
    LINGER_MS,
    POLLED,
    TOPIC,
    VALUE,
    WARM_UP,
    Case,
    Result,
    Stopwatch,
    consumed,
    main,
    one_at_a_time,
)


def produce(address: str, count: int) -> Result:
    producer = KafkaProducer(bootstrap_servers=address, linger_ms=LINGER_MS, batch_size=1_000_000)

    def send(records: int) -> None:
        for _ in range(records):
            producer.send(TOPIC, VALUE)
        producer.flush(60)

    send(int(count * WARM_UP))
    watch = Stopwatch()
    send(count)
    return watch.result()


def latency(address: str, count: int) -> Result:
    producer = KafkaProducer(bootstrap_servers=address, linger_ms=0)
    return one_at_a_time(lambda: producer.send(TOPIC, VALUE, partition=0).get(10), count)


def consume(address: str, count: int) -> Result:
    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(TOPIC, 0)])

    def take() -> int:
        return sum(len([row.value for row in rows]) for rows in consumer.poll(1000, max_records=POLLED).values())

    return consumed(take, count)


CASES: dict[str, Case] = {one.__name__: one for one in (produce, latency, consume)}

if __name__ == "__main__":
    main(CASES)
