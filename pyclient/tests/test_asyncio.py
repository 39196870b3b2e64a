"""The asyncio interface: the same names, on the running loop."""

from __future__ import annotations

import asyncio
import re

import pytest

from pyclient import TopicPartition, aio
from pyclient.errors import BufferExhausted, ConnectionFailed, KafkaError, WakeupError
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S, SOON_S


async def take(consumer, count):
    found = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await consumer.poll(timeout=0.2)
    return found


def test_asyncio_sends_polls_and_returns_arrow(broker, new_topic):
    topic = new_topic(2)
    values = [b"%d" % number for number in range(1000)]

    async def work():
        async with aio.Producer(broker.bootstrap, compression_type="zstd") as producer:
            report = await producer.send(topic, value=b"first", partition=0)
            metadata = await report
            assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
            metadata = await producer.send_and_wait(topic, b"second", partition=0, timeout=PATIENCE_S)
            assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 1)
            assert await (await producer.send_many(topic, values, partition=1)) == 1000
        async with aio.Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(topic, 1)])
            assert [bytes(record.value) for record in await take(consumer, 1000)] == values
            consumer.seek(TopicPartition(topic, 1), 990)
            assert (await consumer.poll_arrow(timeout=PATIENCE_S)).column("value").to_pylist() == values[990:]
            await consumer.assign_range(TopicPartition(topic, 1), 5, 9)
            assert [bytes(record.value) for record in await take(consumer, 4)] == values[5:9]
            assert len(await consumer.poll()) == 0

    asyncio.run(work())


def test_send_and_wait_names_the_unreachable_broker_after_its_own_timeout():
    async def work():
        async with aio.Producer("127.0.0.1:1") as producer:
            told = r"1:1: connect failed.* \(still failing after 0\.\d+ s\)$"
            with pytest.raises(ConnectionFailed, match=told):
                await producer.send_and_wait("t", b"v", timeout=0.3)

    asyncio.run(work())


def test_flush_waits_until_all_callbacks_were_called(broker, topic):
    async def work():
        seen = []
        async with aio.Producer(broker.bootstrap, linger_ms=1000) as producer:
            for _ in range(100):
                await producer.send(topic, value=b"v", on_delivery=lambda *told: seen.append(told))
            await producer.flush()
        assert [metadata.offset for metadata, _ in seen] == list(range(100))

    asyncio.run(work())


def test_a_full_asyncio_producer_waits_and_lets_other_tasks_run(broker, topic):
    async def work():
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        async with aio.Producer(broker.bootstrap, buffer_memory=65_536, batch_size=8192) as producer:
            reports = [await producer.send(topic, value=bytes(1000)) for _ in range(500)]
            await asyncio.gather(*(_outcome(report) for report in reports))
        beside.cancel()
        assert turns

    asyncio.run(work())


async def send_much(producer):
    for _ in range(200):
        await producer.send("t", value=bytes(1000))


async def send_and_fail(producer, topic):
    async with producer.transaction():
        await producer.send(topic, value=b"gone")
        raise ZeroDivisionError


async def _outcome(report):
    return await report


def test_an_asyncio_send_fails_if_the_buffer_stays_full(own_broker):
    async def work():
        async with aio.Producer(
            own_broker.bootstrap, buffer_memory=65_536, max_block_ms=300, delivery_timeout_ms=40_000
        ) as producer:
            await producer.partitions_for("t", PATIENCE_S)
            await (await producer.send("t", value=b"known"))
            own_broker.kill()
            with pytest.raises(BufferExhausted):
                await send_much(producer)
            await producer.close(timeout=0)

    asyncio.run(work())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_asyncio_group_iterates_and_commits(broker, topic, group, protocol):
    async def work():
        async with aio.Producer(broker.bootstrap) as producer:
            await (await producer.send_many(topic, [b"%d" % number for number in range(20)]))
        settings = {"group_id": group, "auto_offset_reset": "earliest", "group_protocol": protocol}
        async with aio.Consumer(broker.bootstrap, topics=[topic], enable_auto_commit=False, **settings) as consumer:
            async with asyncio.timeout(PATIENCE_S):
                async for record in consumer:
                    if record.offset == 9:
                        break
            await consumer.commit()
        async with aio.Consumer(broker.bootstrap, topics=[topic], **settings) as consumer:
            assert (await take(consumer, 10))[0].offset == 10

    asyncio.run(work())


def test_listener_may_be_coroutines(broker, topic, group):
    async def work():
        told = []

        class Listener:
            async def on_partitions_assigned(self, partitions):
                await asyncio.sleep(0)
                told.append(("assigned", set(partitions)))

            async def on_partitions_revoked(self, partitions):
                await consumer.commit()
                told.append(("revoked", set(partitions)))

        async with aio.Consumer(broker.bootstrap, group_id=group) as consumer:
            await consumer.subscribe(re.compile(re.escape(topic)), listener=Listener())
            async with asyncio.timeout(PATIENCE_S):
                while not told:
                    await consumer.poll(timeout=0.1)
        assert told == [(kind, {TopicPartition(topic, 0)}) for kind in ("assigned", "revoked")]

    asyncio.run(work())


def test_asyncio_transactions_commit_offsets(broker, new_topic, group):
    source, target = new_topic(), new_topic()

    async def work():
        async with (
            aio.Producer(broker.bootstrap, transactional_id=unique("txn")) as producer,
            aio.Consumer(broker.bootstrap, topics=[source], group_id=group, auto_offset_reset="earliest") as consumer,
            aio.Consumer(broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as reader,
        ):
            async with producer.transaction():
                await producer.send_many(source, [b"1", b"2"])
            records = await take(consumer, 2)
            with pytest.raises(ZeroDivisionError):
                await send_and_fail(producer, target)
            async with producer.transaction():
                for record in records:
                    await producer.send(target, value=bytes(record.value))
                await producer.send_offsets(consumer.positions(), consumer.group_metadata())
            await reader.assign([TopicPartition(target, 0)])
            assert [bytes(record.value) for record in await take(reader, 2)] == [b"1", b"2"]
            place = TopicPartition(source, 0)
            assert (await consumer.committed([place]))[place].offset == consumer.positions()[place].offset

    asyncio.run(work())


def test_wakeup_and_cancellation_end_a_poll(broker, topic):
    async def work():
        async with aio.Consumer(broker.bootstrap) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            asyncio.get_running_loop().call_later(SOON_S, consumer.wakeup)
            with pytest.raises(WakeupError):
                await consumer.poll()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.poll(), 0.1)
            async with aio.Producer(broker.bootstrap) as producer:
                await (await producer.send(topic, value=b"v"))
            assert bytes((await take(consumer, 1))[0].value) == b"v"

    asyncio.run(work())


def test_errors_are_raised_by_the_await(broker, new_topic):
    topic = new_topic(1, {"max.message.bytes": "1000"})

    async def work():
        async with aio.Producer(broker.bootstrap) as producer:
            report = await producer.send(topic, value=bytes(5000))
            with pytest.raises(KafkaError):
                await report
        async with aio.Admin(broker.bootstrap) as admin:
            with pytest.raises(KafkaError):
                await admin.create_topics(topic)

    asyncio.run(work())


def test_close_leaves_no_task_and_no_timer(broker, topic, group):
    """No task and no timer is left on an application's loop."""

    async def work():
        async with aio.Producer(broker.bootstrap) as producer:
            await (await producer.send(topic, value=b"v"))
        async with aio.Consumer(broker.bootstrap, topics=[topic], group_id=group) as consumer:
            await consumer.poll(timeout=0.2)
        async with aio.Admin(broker.bootstrap) as admin:
            await admin.list_topics()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(work())
