"""Puts load on aiokafka, on uvloop where it is installed (as ours does), else on asyncio's own loop."""

from __future__ import annotations

import asyncio
import time

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from conformance.bench.workers import (
    LINGER_MS,
    POLLED,
    TOPIC,
    VALUE,
    WARM_UP,
    Case,
    Result,
    Stopwatch,
    main,
    quantiles,
)


async def _send(address: str, count: int) -> Result:
    async with AIOKafkaProducer(
        bootstrap_servers=address, linger_ms=LINGER_MS, max_batch_size=1_000_000
    ) as producer:
        for _ in range(int(count * WARM_UP)):
            await producer.send(TOPIC, VALUE)
        await producer.flush()
        watch = Stopwatch()
        for _ in range(count):
            await producer.send(TOPIC, VALUE)
        await producer.flush()
        return watch.result()


async def _getmany(address: str, count: int) -> Result:
    async with AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])

        async def take(records: int) -> None:
            while records > 0:
                for rows in (await consumer.getmany(timeout_ms=1000, max_records=POLLED)).values():
                    records -= len([row.value for row in rows])

        await take(int(count * WARM_UP))
        watch = Stopwatch()
        await take(count)
        return watch.result()


async def _latency(address: str, count: int) -> Result:
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        delays = []
        for _ in range(count + int(count * WARM_UP)):
            start = time.perf_counter()
            await producer.send_and_wait(TOPIC, VALUE, partition=0)
            delays.append(time.perf_counter() - start)
    return quantiles(delays[-count:])


CASES: dict[str, Case] = {
    "aio_send": lambda address, count: uvloop.run(_send(address, count)),
    "aio_getmany": lambda address, count: uvloop.run(_getmany(address, count)),
    "aio_latency": lambda address, count: uvloop.run(_latency(address, count)),
    "aio_send_asyncio": lambda address, count: asyncio.run(_send(address, count)),
}

if __name__ == "__main__":
    main(CASES)
