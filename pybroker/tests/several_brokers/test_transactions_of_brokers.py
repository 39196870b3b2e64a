"""Transactions whose coordinator, partitions and groups are on different brokers; coordinators that move."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from pybroker.cluster.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pybroker.coordinator.partitioner import partition_for
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_replication import create, three
from pybroker.tests.waiting import PATIENCE_S

pytestmark = pytest.mark.nightly

T = TypeVar("T")


LIMIT_S = 150.0
#: Without it librdkafka 2.16 may hang in ``send_offsets_to_transaction`` after a restart, beyond its own time-out.
KEEPING = {"metadata.recovery.strategy": "none"}


async def elsewhere(work: Callable[[], T]) -> T:
    """Returns the result of ``work`` on a separate thread, because librdkafka may never return.

    Raises:
        TimeoutError: it did not end in time.
    """
    done: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wait_for(asyncio.wrap_future(done), LIMIT_S)


def bootstrap(cluster: Cluster) -> str:
    return ",".join("{}:{}".format(*broker.addresses()[0]) for broker in cluster.brokers.values())


def controller(cluster: Cluster) -> Broker:
    return next(broker for broker in cluster.brokers.values() if broker.controller.is_controller)


async def internal_topics(cluster: Cluster) -> None:
    for name in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC):
        await controller(cluster).controller.auto_creation.ensure_internal(name)
    for broker in cluster.brokers.values():
        await cluster.until(lambda broker=broker: broker.metadata.image.topic(OFFSETS_TOPIC))


def coordinator(cluster: Cluster, transactional_id: str) -> int:
    topic = controller(cluster).metadata.image.topic(TRANSACTIONS_TOPIC)
    assert topic is not None
    return topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader


def producer(cluster: Cluster, transactional_id: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap(cluster), "transactional.id": transactional_id, **KEEPING})


def committed(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    """Returns the values that a read_committed consumer finds in partition 0, once there are ``count``."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap(cluster), "group.id": "reader"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


async def topics_on_each(cluster: Cluster) -> None:
    for leader, others in ((1, (2, 3)), (2, (3, 1)), (3, (1, 2))):
        await create(controller(cluster), leader, *others, topic=f"t{leader}")
    for broker in cluster.brokers.values():
        await cluster.until(lambda broker=broker: broker.metadata.image.topic("t3"))


def test_s42_a_transaction_over_partitions_of_all_brokers_is_seen_as_a_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await three(cluster)
            await internal_topics(cluster)
            await topics_on_each(cluster)

            def work() -> None:
                client = producer(cluster, "x")
                client.init_transactions(60)
                for number in range(5):
                    client.begin_transaction()
                    for leader in (1, 2, 3):
                        client.produce(f"t{leader}", b"%d" % number, partition=0)
                    if number == 3:
                        client.flush(60)
                        client.abort_transaction(60)
                    else:
                        client.commit_transaction(60)

            await elsewhere(work)
            for leader in (1, 2, 3):
                found = await elsewhere(lambda leader=leader: committed(cluster, f"t{leader}", 4))
                assert found == [b"0", b"1", b"2", b"4"]

    in_loop(scenario)


def test_case_36_the_next_coordinator_completes_what_the_last_one_has_prepared(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await three(cluster)
            await internal_topics(cluster)
            await topics_on_each(cluster)
            where = coordinator(cluster, "x")
            client = await elsewhere(lambda: producer(cluster, "x"))
            # nobody receives its markers, so that the transaction stays prepared
            cluster.brokers[where].transactions._sender.close()
            cluster.brokers[where].transactions._sender.send = lambda *_: None  # type: ignore[method-assign]

            def work() -> None:
                client.init_transactions(60)
                client.begin_transaction()
                for leader in (1, 2, 3):
                    client.produce(f"t{leader}", b"once", partition=0)
                client.commit_transaction(60)

            await elsewhere(work)
            await cluster.kill(where)
            for leader in (1, 2, 3):
                assert await elsewhere(lambda leader=leader: committed(cluster, f"t{leader}", 1)) == [b"once"]

    in_loop(scenario)


def test_s60_committed_offsets_survive_the_coordinator_of_the_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await three(cluster)
            await internal_topics(cluster)
            await topics_on_each(cluster)
            topic = controller(cluster).metadata.image.topic(OFFSETS_TOPIC)
            assert topic is not None
            where = topic.partitions[partition_for("g", len(topic.partitions))].leader
            settings = {"bootstrap.servers": bootstrap(cluster), "group.id": "g"}
            consumer = await elsewhere(lambda: Consumer(settings))
            offsets = [TopicPartition("t1", 0, 7)]
            await elsewhere(lambda: consumer.commit(offsets=offsets, asynchronous=False))
            await cluster.kill(where)
            found = await elsewhere(lambda: consumer.committed([TopicPartition("t1", 0)], timeout=60))
            assert [each.offset for each in found] == [7]
            await elsewhere(consumer.close)

    in_loop(scenario)


@pytest.mark.campaign  # librdkafka 2.16 hangs in one of some ten runs
def test_s45_consume_transform_produce_is_exactly_once_while_brokers_die(tmp_path: Path) -> None:
    count = 60

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await three(cluster)
            await internal_topics(cluster)
            await topics_on_each(cluster)
            await elsewhere(lambda: fill(cluster, "t1", count))
            copying = asyncio.ensure_future(elsewhere(lambda: copy(cluster, "t1", "t2", count)))
            for victim in (1, 2, 3):
                await asyncio.sleep(0.3)
                await cluster.kill(victim)
                await asyncio.sleep(0.3)
                await cluster.start(victim)
            await copying
            found = await elsewhere(lambda: committed(cluster, "t2", count))
            assert found == [b"%d" % number for number in range(count)]

    in_loop(scenario)


def fill(cluster: Cluster, topic: str, count: int) -> None:
    client = Producer({"bootstrap.servers": bootstrap(cluster), "enable.idempotence": True})
    for number in range(count):
        client.produce(topic, b"%d" % number, partition=0)
    assert client.flush(60) == 0


def copy(cluster: Cluster, source: str, target: str, count: int) -> None:
    """Copies record by record, each in a transaction with its offset. Starts again if a transaction fails."""
    at_end = False
    while not at_end:
        client = producer(cluster, "copier")
        settings = {"bootstrap.servers": bootstrap(cluster), "group.id": "copiers", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, **KEEPING, "enable.auto.commit": False})
        try:
            client.init_transactions(60)
            [position] = consumer.committed([TopicPartition(source, 0)], timeout=60)
            consumer.assign([TopicPartition(source, 0, max(0, position.offset))])
            at_end = position.offset == count
            while not at_end:
                message = consumer.poll(1.0)
                if message is None or message.error() is not None:
                    continue
                client.begin_transaction()
                client.produce(target, message.value(), partition=0)
                offsets = [TopicPartition(source, 0, message.offset() + 1)]
                client.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
                client.commit_transaction(60)
                at_end = message.offset() + 1 == count
        except KafkaException:
            pass
        finally:
            consumer.close()
