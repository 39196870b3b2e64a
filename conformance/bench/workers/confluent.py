"""Puts load on confluent-kafka (librdkafka)."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from conformance.bench.workers import (
    KIB,
    LINGER_MS,
    MANY,
    POLLED,
    TOPIC,
    VALUE,
    WARM_UP,
    Case,
    Result,
    Stopwatch,
    by_tls,
    consumed,
    main,
    one_at_a_time,
)

SECURITY = by_tls("ssl.ca.location")
#: By default a consumer stalls a second whenever its queue is full. Larger fetches and queues do not make it faster.
TUNED = {
    "queued.max.messages.kbytes": 512 * KIB,
    "fetch.max.bytes": 64_000_000,
    "fetch.queue.backoff.ms": 1,
}


class RefusedError(RuntimeError):
    """The broker did not acknowledge all records."""


def _producer(address: str, linger_ms: float = LINGER_MS) -> Producer:
    return Producer(
        {"bootstrap.servers": address, "linger.ms": linger_ms, "queue.buffering.max.messages": 1_000_000, **SECURITY}
    )


def _flush(producer: Producer) -> None:
    if producer.flush(60):
        raise RefusedError("records were not acknowledged within 60 s")


def _produce(producer: Producer, count: int) -> None:
    for _ in range(count):
        while True:
            try:
                producer.produce(TOPIC, VALUE)
                break
            except BufferError:
                producer.poll(0.01)
    _flush(producer)


def produce(address: str, count: int) -> Result:
    producer = _producer(address)
    _produce(producer, int(count * WARM_UP))
    watch = Stopwatch()
    _produce(producer, count)
    return watch.result()


def produce_callback(address: str, count: int) -> Result:
    producer = _producer(address)
    delivered = 0

    def on_delivery(error: object, message: Message) -> None:
        nonlocal delivered
        delivered += error is None

    def send(records: int) -> None:
        for number in range(records):
            while True:
                try:
                    producer.produce(TOPIC, VALUE, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.01)
            if number % 1000 == 0:
                producer.poll(0)
        _flush(producer)

    send(int(count * WARM_UP))
    delivered = 0
    watch = Stopwatch()
    send(count)
    result = watch.result()
    if delivered != count:
        raise RefusedError(f"{delivered} of {count} records were delivered")
    return result


def produce_many(address: str, count: int) -> Result:
    producer = _producer(address)

    def send(records: int) -> None:
        rows: list[dict[str, Any]] = [{"value": VALUE} for _ in range(MANY)]
        for _ in range(max(1, records // MANY)):
            left = rows
            while left:
                left = left[producer.produce_batch(TOPIC, left) :]
                if left:
                    producer.poll(0.01)
        _flush(producer)

    send(int(count * WARM_UP))
    watch = Stopwatch()
    send(count)
    return watch.result()


def latency(address: str, count: int) -> Result:
    producer = _producer(address, 0)
    acknowledged: list[object] = []

    def on_delivery(error: object, message: Message) -> None:
        acknowledged.append(error)

    def send() -> None:
        acknowledged.clear()
        producer.produce(TOPIC, VALUE, partition=0, on_delivery=on_delivery)
        while not acknowledged:
            producer.poll(1)

    return one_at_a_time(send, count)


def _consumer(address: str, settings: dict[str, Any]) -> Consumer:
    group = {"group.id": "g", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, **group, **SECURITY, **settings})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    return consumer


def _consume(address: str, count: int, settings: dict[str, Any]) -> Result:
    consumer = _consumer(address, settings)

    def take() -> int:
        messages = consumer.consume(POLLED, 10)
        for message in messages:
            message.value()
        return len(messages)

    return consumed(take, count)


def consume(address: str, count: int) -> Result:
    return _consume(address, count, TUNED)


def consume_default(address: str, count: int) -> Result:
    return _consume(address, count, {})


def consume_untouched(address: str, count: int) -> Result:
    """Consumes without reading the records."""
    consumer = _consumer(address, TUNED)
    return consumed(lambda: len(consumer.consume(POLLED, 10)), count)


def consume_one_by_one(address: str, count: int) -> Result:
    consumer = _consumer(address, TUNED)

    def take() -> int:
        message = consumer.poll(10)
        return 0 if message is None or message.value() is None else 1

    return consumed(take, count)


CASES: dict[str, Case] = {
    one.__name__: one
    for one in (
        produce,
        produce_callback,
        produce_many,
        latency,
        consume,
        consume_default,
        consume_untouched,
        consume_one_by_one,
    )
}

if __name__ == "__main__":
    main(CASES)
