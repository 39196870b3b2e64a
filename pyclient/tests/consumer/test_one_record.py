"""One record after the other: ``get``, ``next``, and where an iteration ends."""

from __future__ import annotations

import asyncio

import pytest

from pyclient import Consumer, TopicPartition, aio
from pyclient.errors import WakeupError
from pyclient.tests.support import PATIENCE_S, until


@pytest.fixture
def filled(producer, topic):
    for number in range(5):
        producer.send(topic, b"%d" % number)
    producer.flush(PATIENCE_S)
    return topic


@pytest.fixture
def consumer(broker, filled):
    with Consumer(broker.bootstrap, topics=filled, auto_offset_reset="earliest", consumer_timeout_ms=500) as made:
        yield made


def test_get_returns_one_record_or_none(consumer):
    found = [consumer.get(timeout=PATIENCE_S) for _ in range(5)]
    assert [record.value for record in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert consumer.get(timeout=0.05) is None
    assert consumer.get(timeout=0) is None


def test_positions_and_commits_include_records_returned_by_get(broker, filled, group):
    place = TopicPartition(filled, 0)
    with Consumer(broker.bootstrap, group_id=group, topics=filled, auto_offset_reset="earliest") as consumer:
        for _ in range(3):
            consumer.get(timeout=PATIENCE_S)
        assert consumer.position(place) == 3
        consumer.commit()
        assert consumer.committed([place])[place].offset == 3
        consumer.get()
    with Consumer(broker.bootstrap, group_id=group, topics=filled, auto_offset_reset="earliest") as consumer:
        assert consumer.get(timeout=PATIENCE_S).value == b"4"


def test_get_next_and_iteration_continue_each_other(consumer):
    found = [consumer.get(timeout=PATIENCE_S), next(consumer)]
    for record in consumer:
        found.append(record)
        if len(found) == 3:
            break
    found.append(consumer.get())
    found += consumer.poll(timeout=PATIENCE_S)
    assert [record.offset for record in found] == list(range(5))


def test_get_after_a_seek_returns_the_record_at_that_offset(consumer, filled):
    consumer.get(timeout=PATIENCE_S)
    consumer.seek(TopicPartition(filled, 0), 3)
    assert consumer.get(timeout=PATIENCE_S).offset == 3


def test_wakeup_ends_get(consumer):
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.get()


def test_an_iteration_ends_after_consumer_timeout_ms_without_a_record(consumer):
    first = consumer.get(timeout=PATIENCE_S)
    assert [record.offset for record in [first, *consumer]] == list(range(5))
    with pytest.raises(StopIteration):
        next(consumer)


def test_an_iteration_over_a_range_ends_with_it(broker, filled):
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign_range(TopicPartition(filled, 0), 1, 4)
        assert [record.offset for record in consumer] == [1, 2, 3]
        assert consumer.get() is None


def test_at_end_returns_the_partitions_read_to_their_end(broker, producer, new_topic):
    topic = new_topic(2)
    for number in range(3):
        producer.send(topic, b"%d" % number, partition=1)
    producer.flush(PATIENCE_S)
    empty, full = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(broker.bootstrap, topics=topic, auto_offset_reset="earliest") as consumer:
        until(lambda: consumer.get(timeout=0.1))
        assert full not in consumer.at_end()
        until(lambda: consumer.get(timeout=0.1) is None and consumer.at_end() == {empty, full})
        producer.send(topic, b"more", partition=0).result(PATIENCE_S)
        until(lambda: consumer.current_lag(empty))
        assert consumer.at_end() == {full}


def test_asyncio_gets_one_record(broker, filled):
    async def check() -> None:
        settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 500}
        async with aio.Consumer(broker.bootstrap, topics=filled, **settings) as consumer:
            found = [await consumer.get(timeout=PATIENCE_S), await consumer.getone(), await anext(consumer)]
            found += [record async for record in consumer]
            assert [record.offset for record in found] == list(range(5))
            assert await consumer.get(timeout=0.05) is None
            assert consumer.at_end() == {TopicPartition(filled, 0)}

    asyncio.run(check())
