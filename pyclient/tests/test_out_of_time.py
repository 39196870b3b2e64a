"""Calls keep the timeouts that an application gives, even if the broker is halted or dead.

All other timeouts are so long that a test that waited for one of them would not end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition, aio
from pyclient.errors import RequestTimedOut
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S, take

ENDLESS = {"request_timeout_ms": 3_600_000, "default_api_timeout_ms": 3_600_000}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Halts the process inside the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def place(paused_broker) -> TopicPartition:
    """Creates a partition with a record."""
    name = unique("late")
    with Producer(paused_broker.bootstrap) as producer:
        producer.send(name, b"0").result(PATIENCE_S)
    return TopicPartition(name, 0)


def reader(bootstrap: str, **settings: object) -> Consumer:
    return Consumer(bootstrap, auto_offset_reset="earliest", **ENDLESS, **settings)


def closed_with(caplog: pytest.LogCaptureFixture) -> str:
    """Returns the only line that a close has logged."""
    (told,) = [record.getMessage() for record in caplog.records if "closed" in record.getMessage()]
    return told


def test_calls_to_a_stopped_broker_time_out(paused_broker, place):
    with Admin(paused_broker.bootstrap, **ENDLESS) as admin, reader(paused_broker.bootstrap, group_id="g") as consumer:
        admin.describe_cluster()
        consumer.assign([place])
        take(consumer, 1)
        consumer.commit()
        with stopped(paused_broker.pid):
            for call in (
                lambda: admin.describe_topics([place.topic], timeout=0.2),
                lambda: admin.describe_cluster(timeout=0.2),
                lambda: consumer.commit({place: 0}, timeout=0.2),
                lambda: consumer.committed([place], timeout=0.2),
                lambda: consumer.beginning_offsets([place], timeout=0.2),
                lambda: consumer.end_offsets([place], timeout=0.2),
                lambda: consumer.offsets_for_times({place: 0}, timeout=0.2),
            ):
                with pytest.raises(RequestTimedOut):
                    call()


def test_asyncio_calls_time_out_at_a_stopped_broker(paused_broker, place):
    async def check() -> None:
        async with aio.Consumer(paused_broker.bootstrap, **ENDLESS) as consumer:
            assert await consumer.end_offsets([place], timeout=PATIENCE_S) == {place: 1}
            with stopped(paused_broker.pid):
                for call in (consumer.beginning_offsets, consumer.end_offsets):
                    with pytest.raises(RequestTimedOut):
                        await call([place], timeout=0.2)
                with pytest.raises(RequestTimedOut):
                    await consumer.offsets_for_times({place: 0}, timeout=0.2)

    asyncio.run(check())


def test_close_abandons_requests_that_a_stopped_broker_does_not_answer(paused_broker, place, group, caplog):
    consumer = reader(paused_broker.bootstrap, group_id=group, topics=[place.topic])
    take(consumer, 1)
    with caplog.at_level(logging.WARNING, "pyclient"), stopped(paused_broker.pid):
        consumer.close(timeout=0.5)
    told = closed_with(caplog)
    assert f"group {group}: the consumer is closed, but could not commit: " in told
    assert "could not leave: " in told


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_close_ends_after_the_broker_has_died(own_broker, group, protocol, caplog):
    consumer = reader(own_broker.bootstrap, group_id=group, group_protocol=protocol, topics=["t"])
    with Producer(own_broker.bootstrap) as producer:
        producer.send("t", b"0").result(PATIENCE_S)
    take(consumer, 1)
    own_broker.kill()
    with caplog.at_level(logging.WARNING, "pyclient"):
        consumer.close(0.5)
    assert "could not commit: " in closed_with(caplog)


def test_asyncio_close_abandons_requests_that_a_stopped_broker_does_not_answer(own_broker, group, caplog):
    async def check() -> None:
        settings = {"group_id": group, "auto_offset_reset": "earliest", **ENDLESS}
        async with aio.Producer(own_broker.bootstrap) as producer:
            await (await producer.send("t", b"0"))
        consumer = aio.Consumer(own_broker.bootstrap, topics=["t"], **settings)
        await consumer.connect(PATIENCE_S)
        while not await consumer.poll(timeout=0.2):
            pass
        own_broker.kill()
        await consumer.close(timeout=0.5)

    with caplog.at_level(logging.WARNING, "pyclient"):
        asyncio.run(check())
    assert "could not commit: " in closed_with(caplog)
