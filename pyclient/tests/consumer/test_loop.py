"""The asyncio consumer leaves the loop to others while it has records, and while it has none."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from pyclient import Consumer, Producer, TopicPartition, aio
from pyclient.consumer import IllegalState, asynchronous
from pyclient.tests.support import PATIENCE_S, patiently

COUNT = 2_000


@contextlib.asynccontextmanager
async def turns():
    """Counts the iterations of the event loop."""
    found = [0]

    async def count():
        while True:
            found[0] += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    try:
        yield found
    finally:
        task.cancel()


class Clock:
    """Stands for ``time`` in the consumer. It advances while the application works."""

    now = 0.0

    def monotonic(self):
        return self.now

    def work(self):
        """Works for longer than polls may block the loop."""
        self.now += 0.01


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(asynchronous, "time", made)
    return made


@pytest.fixture
def place(broker, topic):
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"v"] * COUNT).result(PATIENCE_S)
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("how", ["poll", "iteration", "arrow"])
def test_the_event_loop_runs_while_records_are_buffered(broker, place, clock, how):
    """The application works for 10 ms on each batch, and waits for nothing meanwhile."""

    async def work():
        async with aio.Consumer(broker.bootstrap, auto_offset_reset="earliest", max_poll_records=100) as consumer:
            await consumer.assign([place])
            while not (await consumer.poll()):
                pass
            async with turns() as found:
                await asyncio.sleep(0)
                before = found[0]
                batches = 0
                if how == "iteration":
                    async for record in consumer:
                        if record.offset % 100 == 0:
                            clock.work()
                            batches += 1
                        if record.offset == COUNT - 1:
                            break
                else:
                    while batches < 10:
                        await (consumer.poll() if how == "poll" else consumer.poll_arrow(100))
                        clock.work()
                        batches += 1
                assert found[0] - before >= batches - 1

    asyncio.run(work())


def test_the_event_loop_runs_while_polls_return_nothing(broker, topic):
    async def work():
        async with aio.Consumer(broker.bootstrap) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            async with turns() as found:
                for _ in range(100):
                    assert not await consumer.poll(timeout=0)
                assert found[0] >= 100

    asyncio.run(work())


def test_a_poll_that_is_cancelled_skips_no_record(broker, place, clock):
    """Each poll is either cancelled at once or returns records. The consumer skips none."""

    async def work():
        found = []
        async with aio.Consumer(broker.bootstrap, auto_offset_reset="earliest", max_poll_records=7) as consumer:
            await consumer.assign([place])
            for _ in patiently(lambda found=found: f"only {len(found)} records came"):
                if len(found) >= 300:
                    break
                poll = asyncio.create_task(consumer.poll())
                await asyncio.sleep(0)
                if len(found) % 2:
                    clock.work()
                poll.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    found += [record.offset for record in await poll]
        assert found == list(range(len(found)))

    asyncio.run(work())


@pytest.mark.parametrize("most", [0, -1])
def test_a_poll_with_max_records_0_is_refused(broker, place, most):
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign([place])
        with pytest.raises(ValueError, match="less than 1"):
            consumer.poll(max_records=most)
        with pytest.raises(ValueError, match="less than 1"):
            consumer.poll_arrow(most)

    async def work():
        async with aio.Consumer(broker.bootstrap) as consumer:
            await consumer.assign([place])
            with pytest.raises(ValueError, match="less than 1"):
                await consumer.poll(max_records=most)

    asyncio.run(work())


def test_a_poll_without_a_subscription_is_refused(broker, place, group):
    with Consumer(broker.bootstrap, group_id=group) as consumer:
        with pytest.raises(IllegalState, match=r"without a subscription"):
            consumer.poll(timeout=0.5)
        consumer.subscribe([place.topic])
        assert consumer.poll(timeout=0) is not None
        consumer.unsubscribe()
        with pytest.raises(IllegalState, match=r"without a subscription"):
            consumer.poll(timeout=0.5)
        consumer.assign([])
        with pytest.raises(IllegalState, match=r"without a subscription"):
            consumer.poll(timeout=0.5)

    async def work():
        async with aio.Consumer(broker.bootstrap) as consumer:
            with pytest.raises(IllegalState, match=r"without a subscription"):
                await consumer.poll(timeout=0.5)

    asyncio.run(work())
