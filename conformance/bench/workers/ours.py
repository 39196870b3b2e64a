"""Puts load on our SDK as a user does; only this process imports it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import uvloop

from conformance.bench.workers import (
    LINGER_MS,
    MANY,
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
    quantiles,
    wide_topics,
)
from pyclient import Consumer, Producer, TopicPartition, aio

SECURITY = by_tls("ssl.truststore.location")
#: The peers get the same settings: batches of up to a megabyte, a queue of a million records, fetches of 8 MB.
PRODUCER = {"linger_ms": LINGER_MS, "batch_size": 1_000_000, "buffer_memory": 256 << 20, **SECURITY}
CONSUMER = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "max_partition_fetch_bytes": 8_000_000,
    "fetch_max_bytes": 64_000_000,
    **SECURITY,
}
ARROW_ROWS = 100_000


def _producer(address: str, **settings: object) -> Any:
    return Producer(address, config=PRODUCER, **settings)


def _measured(send: Callable[[int], object], flush: Callable[[], object], count: int) -> Result:
    send(int(count * WARM_UP))
    flush()
    watch = Stopwatch()
    send(count)
    flush()
    return watch.result()


def produce(address: str, count: int) -> Result:
    with _producer(address) as producer:
        send = producer.send

        def send_all(records: int) -> None:
            for _ in range(records):
                send(TOPIC, value=VALUE)

        return _measured(send_all, producer.flush, count)


def produce_callback(address: str, count: int) -> Result:
    delivered = 0

    def on_delivery(metadata: object, error: object) -> None:
        nonlocal delivered
        delivered += error is None

    with _producer(address) as producer:
        send = producer.send

        def send_all(records: int) -> None:
            for _ in range(records):
                send(TOPIC, value=VALUE, on_delivery=on_delivery)

        result = _measured(send_all, producer.flush, count)
    if delivered != count + int(count * WARM_UP):
        raise RuntimeError(f"{delivered} records were delivered")
    return result


def _produce_many(address: str, count: int, values: object) -> Result:
    with _producer(address) as producer:
        def send_all(records: int) -> None:
            for _ in range(max(1, records // MANY)):
                producer.send_many(TOPIC, values)

        return _measured(send_all, producer.flush, count)


def produce_many(address: str, count: int) -> Result:
    return _produce_many(address, count, [VALUE] * MANY)


def produce_arrow(address: str, count: int) -> Result:
    import pyarrow

    return _produce_many(address, count, pyarrow.array([VALUE] * MANY, pyarrow.binary()))


def produce_each(address: str, count: int) -> Result:
    """Produces one record to each partition of a wide topic with the default settings."""
    with Producer(address) as producer:
        watch = Stopwatch()
        for topic, partitions in wide_topics(count).items():
            for partition in range(partitions):
                producer.send(topic, value=VALUE, partition=partition)
        producer.flush()
        return watch.result()


def latency(address: str, count: int) -> Result:
    with _producer(address, linger_ms=0) as producer:
        return one_at_a_time(lambda: producer.send(TOPIC, value=VALUE, partition=0).result(timeout=10), count)


def _partitions() -> list[Any]:
    return [TopicPartition(TOPIC, 0)]


def _consumer(address: str) -> Any:
    consumer = Consumer(address, CONSUMER)
    consumer.assign(_partitions())
    return consumer


def consume(address: str, count: int) -> Result:
    with _consumer(address) as consumer:

        def take() -> int:
            records = consumer.poll(timeout=10)
            for record in records:
                record.value  # noqa: B018 — it is decoded when it is asked for
            return len(records)

        return consumed(take, count)


def consume_untouched(address: str, count: int) -> Result:
    """Consumes without reading the records."""
    with _consumer(address) as consumer:
        return consumed(lambda: len(consumer.poll(timeout=10)), count)


def consume_one_by_one(address: str, count: int) -> Result:
    with _consumer(address) as consumer:
        following = iter(consumer).__next__

        def take() -> int:
            return 0 if following().value is None else 1

        return consumed(take, count)


def consume_arrow(address: str, count: int) -> Result:
    with _consumer(address) as consumer:
        return consumed(lambda: int(consumer.poll_arrow(max_rows=ARROW_ROWS).num_rows), count)


async def _aio_send(address: str, count: int) -> Result:
    async with aio.Producer(address, config=PRODUCER) as producer:

        async def send_all(records: int) -> None:
            for _ in range(records):
                await producer.send(TOPIC, value=VALUE)
            await producer.flush()

        await send_all(int(count * WARM_UP))
        watch = Stopwatch()
        await send_all(count)
        return watch.result()


async def _aio_getmany(address: str, count: int) -> Result:
    async with aio.Consumer(address, CONSUMER) as consumer:
        await consumer.assign(_partitions())

        async def take(left: int) -> None:
            while left > 0:
                left -= len([record.value for record in await consumer.poll(timeout=10)])

        await take(int(count * WARM_UP))
        watch = Stopwatch()
        await take(count)
        return watch.result()


async def _aio_latency(address: str, count: int) -> Result:
    async with aio.Producer(address, linger_ms=0) as producer:
        delays = []
        for _ in range(count + int(count * WARM_UP)):
            start = time.perf_counter()
            await (await producer.send(TOPIC, value=VALUE, partition=0))
            delays.append(time.perf_counter() - start)
    return quantiles(delays[-count:])


def _on_uvloop(case: Callable[[str, int], Any]) -> Case:
    return lambda address, count: uvloop.run(case(address, count))


CASES: dict[str, Case] = {
    one.__name__: one
    for one in (
        produce,
        produce_callback,
        produce_many,
        produce_arrow,
        produce_each,
        latency,
        consume,
        consume_untouched,
        consume_one_by_one,
        consume_arrow,
    )
}
CASES |= {
    "aio_send": _on_uvloop(_aio_send),
    "aio_getmany": _on_uvloop(_aio_getmany),
    "aio_latency": _on_uvloop(_aio_latency),
}

if __name__ == "__main__":
    main(CASES)
