"""A consumer without a group reads all partitions of its topics, and commits nothing."""

from __future__ import annotations

import asyncio
import re

import pytest

from pyclient import Consumer, Producer, TopicPartition, aio
from pyclient.consumer.errors import IllegalState
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S, take, until

QUICK = {"metadata_max_age_ms": 100}


def fill(producer: Producer, topic: str, *values: bytes, partition: int | None = None) -> None:
    for value in values:
        producer.send(topic, value, partition=partition)
    producer.flush(PATIENCE_S)


def values_of(records) -> list[bytes]:
    return sorted(record.value for record in records)


def is_placed(consumer: Consumer, *partitions: TopicPartition) -> bool:
    """Returns whether the consumer has positions in these partitions, so that it reads records written from now on."""
    consumer.poll(timeout=0.05)
    return consumer.positions().keys() >= set(partitions)


def places(topic: str, count: int = 1) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def test_all_partitions_of_the_topics_are_read(broker, producer, new_topic):
    first, second = new_topic(3), new_topic(1)
    for partition in range(3):
        fill(producer, first, b"%d" % partition, partition=partition)
    fill(producer, second, b"3")
    with Consumer(broker.bootstrap, topics=[first, second], auto_offset_reset="earliest") as consumer:
        assert values_of(take(consumer, 4)) == [b"0", b"1", b"2", b"3"]
        assert consumer.assignment() == {*places(first, 3), *places(second)}
        assert consumer.subscription() == {first, second}


def test_only_later_records_are_read_by_default(broker, producer, topic):
    fill(producer, topic, b"before")
    with Consumer(broker.bootstrap, topics=topic) as consumer:
        until(lambda: is_placed(consumer, *places(topic)))
        fill(producer, topic, b"after")
        assert values_of(take(consumer, 1)) == [b"after"]


@pytest.mark.parametrize("policy", ["latest", "earliest"])
def test_partitions_that_are_added_later_are_read_from_their_first_record(broker, producer, admin, topic, policy):
    with Consumer(broker.bootstrap, topics=topic, auto_offset_reset=policy, **QUICK) as consumer:
        until(lambda: is_placed(consumer, *places(topic)))
        admin.create_partitions({topic: 2})
        with Producer(broker.bootstrap) as other:
            until(lambda: len(other.partitions_for(topic)) == 2)
            fill(other, topic, b"new", partition=1)
        assert values_of(take(consumer, 1)) == [b"new"]


def test_topics_created_later_are_read_from_their_first_record(broker, producer, admin):
    topic = unique("later")
    with Consumer(broker.bootstrap, topics=topic, allow_auto_create_topics=False, **QUICK) as consumer:
        until(lambda: consumer.poll(timeout=0.05) or topic in consumer._core.membership._absent, "the cluster's word")
        admin.create_topics(topic, num_partitions=1)
        fill(producer, topic, b"first")
        assert values_of(take(consumer, 1)) == [b"first"]


def test_a_topic_created_again_is_read_from_its_first_record(broker, producer, admin, topic):
    fill(producer, topic, b"old")
    with Consumer(broker.bootstrap, topics=topic, auto_offset_reset="earliest",
                  allow_auto_create_topics=False, **QUICK) as consumer:
        assert values_of(take(consumer, 1)) == [b"old"]
        admin.delete_topics(topic)
        until(lambda: topic not in admin.list_topics())
        admin.create_topics(topic, num_partitions=1)
        with Producer(broker.bootstrap) as other:
            fill(other, topic, b"new 1", b"new 2")
        assert values_of(take(consumer, 2)) == [b"new 1", b"new 2"]


def test_a_pattern_also_reads_topics_created_later(broker, producer, admin):
    stem = unique("some")
    admin.create_topics(f"{stem}-a", num_partitions=1)
    fill(producer, f"{stem}-a", b"a")
    pattern = re.compile(f"{stem}-.*")
    with Consumer(broker.bootstrap, topics=pattern, auto_offset_reset="earliest", **QUICK) as consumer:
        assert values_of(take(consumer, 1)) == [b"a"]
        admin.create_topics(f"{stem}-b", num_partitions=1)
        fill(producer, f"{stem}-b", b"b")
        assert values_of(take(consumer, 1)) == [b"b"]
        assert consumer.subscription() == {f"{stem}-a", f"{stem}-b"}


def test_by_default_a_topic_that_matches_later_is_read_from_its_first_record(broker, producer, admin):
    stem = unique("some")
    first, second = f"{stem}-a", f"{stem}-b"
    admin.create_topics(first, num_partitions=1)
    fill(producer, first, b"before")
    with Consumer(broker.bootstrap, topics=re.compile(f"{stem}-.*")) as consumer:
        until(lambda: is_placed(consumer, *places(first)))
        admin.create_topics(second, num_partitions=1)
        fill(producer, second, b"new")
        consumer.list_topics()  # only now it learns of the topic
        until(lambda: set(places(second)) <= consumer.positions().keys())
        fill(producer, second, b"newer")
        assert take(consumer, 1)[0].value == b"new"


def test_a_topic_that_is_subscribed_again_is_read_from_its_end(broker, producer, new_topic):
    first, second = new_topic(), new_topic()
    fill(producer, first, b"before")
    with Consumer(broker.bootstrap, topics=first) as consumer:
        for topic in (first, second, first):
            consumer.subscribe([topic])
            until(lambda topic=topic: is_placed(consumer, *places(topic)))
        fill(producer, first, b"after")
        assert values_of(take(consumer, 1)) == [b"after"]


def test_two_consumers_without_a_group_each_read_all_records(broker, producer, topic):
    fill(producer, topic, b"1", b"2")
    for _ in range(2):
        with Consumer(broker.bootstrap, topics=topic, auto_offset_reset="earliest") as consumer:
            assert values_of(take(consumer, 2)) == [b"1", b"2"]


def test_a_consumer_without_a_group_can_resubscribe_and_assign(broker, producer, new_topic):
    first, second = new_topic(), new_topic()
    fill(producer, first, b"first")
    fill(producer, second, b"second")
    with Consumer(broker.bootstrap, topics=first, auto_offset_reset="earliest") as consumer:
        assert values_of(take(consumer, 1)) == [b"first"]
        consumer.subscribe([second])
        assert values_of(take(consumer, 1)) == [b"second"]
        assert consumer.assignment() == set(places(second))
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.assign(places(first))
        consumer.seek_to_beginning()
        assert values_of(take(consumer, 1)) == [b"first"]


def test_the_listener_is_called_with_the_partitions(broker, admin, topic):
    told = []

    class Listener:
        def on_partitions_assigned(self, partitions):
            told.append(("assigned", set(partitions)))

        def on_partitions_revoked(self, partitions):
            told.append(("revoked", set(partitions)))

    with Consumer(broker.bootstrap, topics=topic, listener=Listener(), **QUICK) as consumer:
        until(lambda: consumer.poll(timeout=0.05) or told)
        admin.create_partitions({topic: 2})
        until(lambda: consumer.poll(timeout=0.05) or len(told) == 2)
    both = set(places(topic, 2))
    assert told == [("assigned", both - {TopicPartition(topic, 1)}), ("assigned", {TopicPartition(topic, 1)}),
                    ("revoked", both)]


def test_calls_that_need_a_group_are_refused(broker, topic):
    with Consumer(broker.bootstrap, topics=topic) as consumer:
        for call in (
            consumer.commit,
            consumer.commit_async,
            consumer.group_metadata,
            lambda: consumer.committed(places(topic)),
        ):
            with pytest.raises(IllegalState, match=r"group\.id is missing"):
                call()


def test_an_asyncio_consumer_reads_topics_without_a_group(broker, producer, new_topic):
    topic = new_topic(2)
    for partition in range(2):
        fill(producer, topic, b"%d" % partition, partition=partition)

    async def check() -> None:
        async with aio.Consumer(broker.bootstrap, topics=topic, auto_offset_reset="earliest") as consumer:
            found = []
            async with asyncio.timeout(PATIENCE_S):
                async for record in consumer:
                    found.append(record)
                    if len(found) == 2:
                        break
            assert values_of(found) == [b"0", b"1"]
            with pytest.raises(IllegalState, match=r"group\.id is missing"):
                await consumer.commit()
            with pytest.raises(IllegalState, match=r"group\.id is missing"):
                consumer.commit_async()

    asyncio.run(check())
