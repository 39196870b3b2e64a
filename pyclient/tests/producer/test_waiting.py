"""Waits of the producer that could deadlock, and commits without a response."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from pyclient import Producer, aio
from pyclient.errors import KafkaError
from pyclient.tests.support import PATIENCE_S, read_all, until
from pyclient.tests.test_processes import in_child


def test_result_in_a_callback_raises_instead_of_deadlocking(producer, topic):
    told = []

    def on_delivery(metadata: object, error: object) -> None:
        try:
            producer.send(topic, value=b"second").result()
        except RuntimeError as refused:
            told.append(refused)

    producer.send(topic, value=b"first", on_delivery=on_delivery).result(PATIENCE_S)
    until(lambda: told, "the callback")
    assert "wait for itself" in str(told[0])
    producer.flush(PATIENCE_S)


def test_result_on_the_event_loop_raises_and_await_works(broker, topic):
    async def work() -> int:
        async with aio.Producer(broker.bootstrap) as producer:
            report = await producer.send(topic, value=b"v")
            with pytest.raises(RuntimeError, match="await"):
                report.result()
            many = await producer.send_many(topic, [b"v"])
            with pytest.raises(RuntimeError, match="await"):
                many.result()
            await many
            return (await report).offset + report.result().offset

    assert asyncio.run(work()) == 0


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_report_from_before_a_fork_raises_in_the_child(broker, topic):
    with Producer(broker.bootstrap, linger_ms=60_000) as producer:
        done = producer.send(topic, value=b"done")
        producer.flush(PATIENCE_S)
        open_report, many = producer.send(topic, value=b"v"), producer.send_many(topic, [b"v"] * 3)
        assert in_child(lambda: done.result().offset) == "0"
        assert in_child(open_report.result).startswith("ClientForked")
        assert in_child(many.result).startswith("ClientForked")
        producer.flush(PATIENCE_S)
        assert open_report.result(PATIENCE_S).offset == 1


class Shout:
    """An interceptor that changes values and counts acknowledged records."""

    acknowledged = 0

    def on_send(self, record):
        record.value = record.value.upper()
        return record

    def on_acknowledgement(self, metadata, error):
        self.acknowledged += error is None


def test_send_many_uses_interceptors_and_a_custom_partitioner(broker, new_topic):
    topic, shout, count = new_topic(3), Shout(), 30
    settings = {"interceptor_classes": [shout], "partitioner_class": lambda topic, key, value, count: int(key) % count}
    with Producer(broker.bootstrap, **settings) as producer:
        sent = producer.send_many(topic, [b"v%d" % n for n in range(count)], [b"%d" % n for n in range(count)])
        assert sent.result(PATIENCE_S) == count
        assert [sent[n].metadata.partition for n in range(count)] == [n % 3 for n in range(count)]
    records = read_all(broker.bootstrap, topic, 3)
    found = {bytes(record.key): (bytes(record.value), record.partition) for record in records}
    assert found == {b"%d" % n: (b"V%d" % n, n % 3) for n in range(count)}
    assert shout.acknowledged == count


def commit_in_vain(producer: Producer, pid: int, topic: str) -> None:
    """Commits a transaction of a stopped broker, which never answers."""
    with producer.transaction():
        producer.send(topic, value=b"perhaps").result(PATIENCE_S)
        os.kill(pid, signal.SIGSTOP)


def test_a_producer_continues_after_a_commit_without_an_answer(paused_broker):
    """The commit waits in the socket of the halted broker. Either the commit or the abort takes effect."""
    settings = {"transactional_id": "lost", "max_block_ms": 300, "request_timeout_ms": 300, "linger_ms": 0}
    with Producer(paused_broker.bootstrap, **settings) as producer:
        until(lambda: in_one_transaction(producer, "first-transaction"), "the first transaction")
        try:
            with pytest.raises(KafkaError) as told:
                commit_in_vain(producer, paused_broker.pid, "committed-in-vain")
        finally:
            os.kill(paused_broker.pid, signal.SIGCONT)
        assert told.value.retriable
        assert until(lambda: in_one_transaction(producer, "committed-in-vain"), "the next transaction")
    found = [
        bytes(record.value)
        for record in read_all(paused_broker.bootstrap, "committed-in-vain", isolation_level="read_committed")
    ]
    assert found in ([b"after"], [b"perhaps", b"after"])


def in_one_transaction(producer: Producer, topic: str) -> bool:
    """Runs a transaction. Returns False if the broker was not ready for it."""
    try:
        with producer.transaction():
            producer.send(topic, value=b"after").result(PATIENCE_S)
    except KafkaError as error:
        if not error.retriable:
            raise
        return False
    return True
