"""Callbacks of the application may raise anything or block the client's thread: the client still works, and calls end.
"""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition, aio
from pyclient.core.threads import runner
from pyclient.errors import KafkaError, RequestTimedOut
from pyclient.tests.support import PATIENCE_S, in_time, take

RAISED = pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])


@RAISED
def test_a_delivery_callback_may_raise_anything(broker, topic, error):
    told = []

    def fail(*_):
        told.append(None)
        raise error

    with Producer(broker.bootstrap, linger_ms=100) as producer:
        producer.partitions_for(topic)
        for _ in range(3):
            producer.send(topic, b"v", on_delivery=fail)
        assert in_time(producer.flush) is None
        assert len(told) == 3
        assert producer.send(topic, b"after").result(PATIENCE_S).offset == 3
        assert in_time(producer.flush) is None


@RAISED
def test_on_commit_may_raise_anything(broker, topic, group, error):
    place = TopicPartition(topic, 0)
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"1", b"2"]).result(PATIENCE_S)
    told = threading.Event()

    def fail(*_):
        told.set()
        raise error

    with Consumer(broker.bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        take(consumer, 2)
        consumer.commit_async({place: 1}, fail)
        assert told.wait(PATIENCE_S)
        consumer.commit({place: 2})
        assert not consumer.poll(timeout=0.2)
        assert consumer.committed([place])[place].offset == 2


def test_sys_exit_in_a_callback_ends_the_event_loop_of_the_application(broker, topic):
    """asyncio's own callbacks do so, too. The producer finishes its work in that iteration first."""

    async def work():
        async with aio.Producer(broker.bootstrap) as producer:
            report = await producer.send(topic, b"v", on_delivery=lambda *_: exit(3))
            await report
            await asyncio.wait_for(asyncio.Event().wait(), PATIENCE_S)

    with pytest.raises(SystemExit, match="3"):
        asyncio.run(work())


def test_a_call_times_out_although_a_callback_blocks_the_thread(broker, topic, monkeypatch):
    monkeypatch.setattr(runner, "GRACE_S", 0.5)
    called, released, ended = threading.Event(), threading.Event(), threading.Event()

    def hold_up(*_):
        called.set()
        released.wait(PATIENCE_S)
        ended.set()

    with Producer(broker.bootstrap) as producer:
        producer.partitions_for(topic)
        producer.send(topic, b"v", on_delivery=hold_up)
        assert called.wait(PATIENCE_S)
        with pytest.raises(RequestTimedOut, match="is blocked by a callback"):
            producer.partitions_for(topic, timeout=0.5)
        assert not ended.is_set()
        released.set()
        assert producer.send(topic, b"v").result(PATIENCE_S).offset == 1


def test_a_logging_handler_may_send_records(monkeypatch):
    """The send waits for metadata and holds the handler's lock. The client's thread waits for this lock to log an
    error.
    """
    monkeypatch.setattr(runner, "GRACE_S", 0.5)

    class ToKafka(logging.Handler):
        def emit(self, record):
            producer.send("logs", record.getMessage().encode())

    logger = logging.getLogger("pyclient")
    handler = ToKafka()
    level = logger.level
    with Producer("127.0.0.1:1", max_block_ms=500) as producer:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            assert isinstance(in_time(lambda: logger.warning("first")), KafkaError)
            assert isinstance(in_time(lambda: logger.warning("second")), KafkaError)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
        assert in_time(producer.close) is None


def closed_by(client, call):
    """Returns the error that ``client.close()`` raises in the callback passed to ``call``. Then this thread closes the
    client.
    """
    told, called = [], threading.Event()

    def close(*_):
        try:
            client.close()
        except Exception as error:
            told.append(error)
        finally:
            called.set()

    try:
        call(close)
        assert called.wait(PATIENCE_S)
    finally:
        client.close()
    return told[0]


def test_a_close_refused_inside_a_callback_loses_no_record(broker, topic):
    producer = Producer(broker.bootstrap, linger_ms=60_000)
    reports = []

    def call(close):
        producer.partitions_for(topic)
        producer.send(topic, b"first", on_delivery=close)
        producer.flush()
        reports.extend(producer.send(topic, b"later") for _ in range(100))

    assert "wait for itself" in str(closed_by(producer, call))
    assert [report.result(PATIENCE_S).offset for report in reports] == list(range(1, 101))


def test_a_consumer_whose_close_was_refused_in_a_callback_can_leave_its_group(admin, broker, topic, group):
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"v").result(PATIENCE_S)
    consumer = Consumer(broker.bootstrap, group_id=group, topics=topic, auto_offset_reset="earliest")

    def call(close):
        take(consumer, 1)
        consumer.commit_async(on_commit=close)

    assert "wait for itself" in str(closed_by(consumer, call))
    assert not admin.describe_consumer_groups([group])[group].members


def test_an_admin_whose_close_was_refused_in_a_callback_still_works(broker):
    client = Admin(broker.bootstrap)

    def call(close):
        client._runner.call(close)

    def check(close):
        call(close)
        assert client.describe_cluster().brokers

    assert "wait for itself" in str(closed_by(client, check))
