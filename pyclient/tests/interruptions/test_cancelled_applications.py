"""Whole applications of asyncio that are cancelled at each of their steps, from the first connection to the last close.

Another application takes over at once, because the cancelled one has left its group, and processes the remaining
records. No record is skipped, and with transactions none is processed twice.
"""

from __future__ import annotations

import asyncio

import pytest

from pyclient import Producer, TopicPartition, aio
from pyclient.tests.interruptions.steps import at_each_step, run
from pyclient.tests.support import PATIENCE_S, read_all

COUNT, BATCH = 5, 2
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 10}
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture
def source(broker, topic):
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(COUNT)]).result(PATIENCE_S)
    return TopicPartition(topic, 0)


@pytest.fixture
def member(broker, protocol):
    """Returns the settings of a member that leaves at once, so that no other member waits for it."""
    settings = {"group_protocol": protocol, "auto_offset_reset": "earliest", "max_poll_records": BATCH}
    return {"bootstrap_servers": broker.bootstrap, **settings, **QUICK}


class Committing:
    """A listener that commits the processed records of a revoked partition."""

    consumer: aio.Consumer

    def __init__(self, done):
        self.done = done

    async def on_partitions_assigned(self, partitions):
        await asyncio.sleep(0)

    async def on_partitions_revoked(self, partitions):
        if self.done:
            await self.consumer.commit(dict.fromkeys(partitions, self.done[-1] + 1))


@BOTH
@pytest.mark.parametrize("commits", ["by itself", "after each batch"])
def test_a_group_member_cancelled_at_any_step_reads_each_record(member, group, source, commits):
    done = []
    by_itself = commits == "by itself"

    async def application():
        """Processes all records and ends. Each record takes a step."""
        name, listener = f"{group}-{len(done)}", None if by_itself else Committing(done[-1])
        settings = {**member, "group_id": name, "enable_auto_commit": by_itself}
        async with aio.Consumer(config=settings, topics=source.topic, listener=listener) as consumer:
            if listener is not None:
                listener.consumer = consumer
            while consumer.positions().get(source, (0,))[0] < COUNT:
                for record in await consumer.poll(timeout=0.05):
                    await asyncio.sleep(0)
                    done[-1].append(record.offset)
                if not by_itself:
                    await consumer.commit()

    async def cancelled():
        done.append([])
        await application()

    async def after():
        before = len(done[-1])
        await asyncio.wait_for(application(), PATIENCE_S)
        rest = done[-1][before:]
        assert done[-1][:before] == list(range(before))
        assert rest == list(range(COUNT))[COUNT - len(rest) :]
        assert set(done[-1]) == set(range(COUNT)), "a record was passed over"

    async def work():
        assert await at_each_step(cancelled, after) > COUNT

    run(work)


@BOTH
def test_a_transactional_copy_cancelled_at_any_step_is_exactly_once(broker, member, group, source, new_topic, protocol):
    target, runs = new_topic(), []

    async def application():
        name = f"{group}-{len(runs)}"
        settings = {**member, "group_id": name, "enable_auto_commit": False}
        async with (
            aio.Consumer(config=settings, topics=source.topic) as consumer,
            aio.Producer(broker.bootstrap, transactional_id=name, **QUICK) as producer,
        ):
            while consumer.positions().get(source, (0,))[0] < COUNT:
                records = await consumer.poll(timeout=0.05)
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, b"%d %d" % (len(runs), record.offset))
                    await producer.send_offsets(consumer.positions(), consumer.group_metadata())

    async def cancelled():
        runs.append(None)
        await application()

    async def after():
        await asyncio.wait_for(application(), PATIENCE_S)

    async def work():
        assert await at_each_step(cancelled, after) > COUNT

    run(work)
    found = [bytes(each.value) for each in read_all(broker.bootstrap, target, isolation_level="read_committed")]
    assert found == [b"%d %d" % (each, offset) for each in range(1, len(runs) + 1) for offset in range(COUNT)]
