"""The producer against a broker: ours, or Kafka's (PYCLIENT_BROKER=kafka)."""

from __future__ import annotations

import asyncio

import pytest

from pyclient import Admin, Producer, TopicPartition, aio
from pyclient.errors import (
    BufferExhausted,
    ClientClosed,
    ConnectionFailed,
    KafkaError,
)
from pyclient.producer.errors import RecordTooLarge, TransactionAborted, TransactionError
from pyclient.tests.brokers import broker as broker
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S, until


@pytest.fixture
def topic(broker):
    name = unique("produced")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(name, num_partitions=3)
    return name


def send_many_times(producer, topic, times):
    for _ in range(times):
        producer.send(topic, b"v" * 100)


def failed_transaction(producer, topic):
    """Returns the report of a record whose transaction an exception ended."""
    report = None
    try:
        with producer.transaction():
            report = producer.send(topic, b"v", partition=2)
            raise KeyError
    except KeyError:
        return report


def ends(broker, topic):
    with Admin(broker.bootstrap) as admin:
        found = admin.list_offsets({TopicPartition(topic, number): -1 for number in range(3)})
        return [found[TopicPartition(topic, number)].offset for number in range(3)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_reports_have_the_brokers_offsets_for_every_codec(broker, topic, codec):
    with Producer(broker.bootstrap, compression_type=codec) as producer:
        reports = [producer.send(topic, b"v" * 100, partition=1) for _ in range(50)]
        assert [report.result(PATIENCE_S).offset for report in reports] == list(range(50))
    assert ends(broker, topic) == [0, 50, 0]


def test_records_are_sent_by_result_callback_and_fire_and_forget(broker, topic):
    told = []
    with Producer(broker.bootstrap, linger_ms=1) as producer:
        producer.send(topic, b"forget", partition=0)
        assert producer.send(topic, b"wait", partition=0).result(PATIENCE_S).offset == 1
        producer.send(topic, b"call", partition=0, on_delivery=lambda *outcome: told.append(outcome))
        producer.flush(PATIENCE_S)
        assert [(metadata.offset, error) for metadata, error in told] == [(2, None)]


def test_send_many_sends_values_with_and_without_keys(broker, topic):
    with Producer(broker.bootstrap) as producer:
        assert producer.send_many(topic, [b"v"] * 5000).result(PATIENCE_S) == 5000
        keys = [b"%d" % (number % 20) for number in range(1000)]
        deliveries = producer.send_many(topic, [b"v"] * 1000, keys)
        assert deliveries.result(PATIENCE_S) == 1000
        assert deliveries[0].partition == deliveries[20].partition
    assert sum(ends(broker, topic)) == 6000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_setting_of_acks_delivers_a_record(broker, topic, acks):
    with Producer(broker.bootstrap, acks=acks) as producer:
        metadata = producer.send(topic, b"v", partition=0).result(PATIENCE_S)
    assert metadata.offset == (-1 if acks == "0" else 0)


def test_send_raises_errors_at_once(broker, topic):
    with Producer(broker.bootstrap, max_block_ms=10_000) as producer:
        with pytest.raises(RecordTooLarge, match=r"larger than max\.request\.size=1048576 or buffer\.memory=") as told:
            producer.send(topic, b"v" * 2_000_000)
        assert "raise this setting of the producer" in str(told.value)
        assert "max.message.bytes" in str(told.value)
        with pytest.raises(KafkaError, match="no partition 3"):
            producer.send(topic, b"v", partition=3)
        with pytest.raises(KafkaError, match="no partition -1; leave it out, and the producer chooses one"):
            producer.send(topic, b"v", partition=-1)
        with pytest.raises(KafkaError):
            producer.send("not a name", b"v")
    with pytest.raises(ClientClosed):
        producer.send(topic, b"v")


def test_a_batch_beyond_the_topics_limit_is_split(broker):
    name = unique("narrow")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(name, num_partitions=1, configs={"max.message.bytes": "5000"})
    with Producer(broker.bootstrap, batch_size=50_000, linger_ms=50) as producer:
        reports = [producer.send(name, b"v" * 100) for _ in range(300)]
        assert [report.result(PATIENCE_S).offset for report in reports] == list(range(300))
        with pytest.raises(KafkaError) as error:
            producer.send(name, b"v" * 6000).result(PATIENCE_S)
        assert error.value.name == "MESSAGE_TOO_LARGE"
        assert ": raise the topic's max.message.bytes, by `pybroker config set topic`, or" in str(error.value)
        assert producer.send(name, b"v").result(PATIENCE_S).offset == 300


def test_connect_and_send_fail_if_no_broker_can_be_reached():
    with Producer("127.0.0.1:1", max_block_ms=300) as producer:
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
            producer.connect(0.3)
        with pytest.raises((ConnectionFailed, TimeoutError)):
            producer.send("t", b"v")


def test_send_waits_for_full_memory_and_then_fails(broker, topic):
    settings = {"buffer_memory": 40_000, "linger_ms": 60_000, "delivery_timeout_ms": 120_000}
    with Producer(broker.bootstrap, **settings) as producer:
        send_many_times(producer, topic, 2000)  # waits for room, which full batches give
        producer.flush(PATIENCE_S)
    assert sum(ends(broker, topic)) == 2000
    with Producer(broker.bootstrap, max_block_ms=500, **settings) as producer:
        producer.partitions_for(topic, PATIENCE_S)
        producer._engine.client.post = lambda *request, **options: None
        with pytest.raises(BufferExhausted):
            send_many_times(producer, topic, 1000)
        producer.close(0)


def test_transactions_commit_and_abort(broker, topic):
    """Records that still linger are not sent if their transaction is aborted."""
    with Producer(broker.bootstrap, transactional_id=unique("txn"), linger_ms=10_000) as producer:
        with pytest.raises(TransactionError):
            producer.send(topic, b"v")
        with producer.transaction():
            committed = producer.send(topic, b"v", partition=0)
            producer.send_many(topic, [b"v"] * 10, partition=1)
        assert committed.result(0).offset == 0
        aborted = failed_transaction(producer, topic)
        assert isinstance(aborted.error, TransactionAborted)
        with producer.transaction():
            producer.send_offsets({TopicPartition(topic, 0): 7}, unique("group"))
            producer.send(topic, b"v", partition=0)
    assert ends(broker, topic)[0] >= 2


def test_send_raises_once_the_transaction_has_failed(broker):
    name = unique("small")
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(name, configs={"max.message.bytes": "1000"})
    with Producer(broker.bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        with pytest.raises(KafkaError):
            producer.send(name, bytes(5000)).result(PATIENCE_S)
        with pytest.raises(TransactionError, match="has failed"):
            producer.send(name, b"v")
        producer.abort_transaction()
        with producer.transaction():
            report = producer.send(name, b"v")
        assert report.result(0).offset >= 0


def test_a_second_producer_fences_the_first(broker, topic):
    name = unique("txn")
    with Producer(broker.bootstrap, transactional_id=name) as first:
        first.begin_transaction()
        first.send(topic, b"v").result(PATIENCE_S)
        with Producer(broker.bootstrap, transactional_id=name) as second:
            with second.transaction():
                second.send(topic, b"v")
            with pytest.raises(KafkaError):
                first.commit_transaction()


def test_another_producer_ends_a_transaction_by_id_and_epoch(broker, topic):
    name = unique("txn")
    with Producer(broker.bootstrap, transactional_id=name) as worker:
        worker.begin_transaction()
        worker.send(topic, b"v", partition=0).result(PATIENCE_S)
        producer_id, epoch = worker.producer_id
        with Producer(broker.bootstrap, transactional_id=name) as driver:
            driver.end_transaction(producer_id, epoch, True)
        with Admin(broker.bootstrap) as admin:
            tp = TopicPartition(topic, 0)
            until(lambda: admin.list_offsets({tp: -1}, isolation_level="read_committed")[tp].offset >= 1, "the marker")


def test_the_asyncio_producer_delivers_records(broker, topic):
    async def main():
        async with aio.Producer(broker.bootstrap) as producer:
            report = await producer.send(topic, b"v", partition=0)
            assert (await report).offset == 0
            for _ in range(5000):
                await producer.send(topic, b"v" * 100, partition=1)
            await producer.flush()
            assert await (await producer.send_many(topic, [b"v"] * 10)) == 10
        async with aio.Producer(broker.bootstrap, transactional_id=unique("txn")) as producer:
            async with producer.transaction():
                report = await producer.send(topic, b"v", partition=2)
            assert (await report).partition == 2

    asyncio.run(main())


def forget(producer, topic):
    """Forgets a topic, as the client does after metadata.max.idle.ms without use."""

    async def now():
        producer._engine.client.forget([topic])

    producer._runner.run(now(), within=PATIENCE_S)


def test_a_topic_unused_for_long_is_written_with_its_current_partitions(broker):
    topic = unique("grown")
    with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        admin.create_topics(topic, num_partitions=1)
        assert producer.send(topic, b"v", key=b"key").result(PATIENCE_S).offset == 0
        forget(producer, topic)
        admin.create_partitions({topic: 50})
        until(lambda: len(admin.describe_topics([topic])[topic].partitions) == 50, "the growth")
        assert producer.send(topic, b"v", key=b"key").result(PATIENCE_S).partition == 31
        assert producer.send(topic, b"v", partition=0).result(PATIENCE_S).offset == 1


def test_a_forgotten_topic_that_has_fewer_partitions_now_is_written(broker):
    topic = unique("shrunk")
    with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        admin.create_topics(topic, num_partitions=6)
        producer.send(topic, b"v", partition=5).result(PATIENCE_S)
        forget(producer, topic)
        admin.delete_topics(topic)
        until(lambda: topic not in admin.list_topics(), "the deletion")
        admin.create_topics(topic, num_partitions=1)
        assert [producer.send(topic, b"v", key=b"%d" % n).result(PATIENCE_S).partition for n in range(6)] == [0] * 6
