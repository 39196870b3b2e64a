"""A signal handler that raises within a call of a blocking client, at each place where a handler may run. The places
are counted, not timed.

Each record is there once or not at all. Locks are free afterwards, and a close that is called again completes.
"""

from __future__ import annotations

import itertools

import pytest

from pyclient import Admin, Consumer, Producer, TopicPartition
from pyclient.tests.interruptions.test_signals import raised_at
from pyclient.tests.support import PATIENCE_S, read_all, take, until

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 10}
SMALL = {"buffer_memory": 65_536, "batch_size": 16_384, "linger_ms": 1}
PADDING = bytes(20_000)


def interrupted(work, after, prepare=lambda: None):
    """Calls ``prepare()``, ``work()`` and ``after()`` again and again. Interrupts ``work`` at its first place, then at
    its second, and so on until it ends. Returns how often it was interrupted.
    """
    for step in itertools.count(1):
        prepare()
        _, was_interrupted = raised_at(step, work)
        after()
        if not was_interrupted:
            return step - 1


def has_ended(client):
    return client._runner._is_over


SENDS = {
    "send": {},
    "to a new topic": {},
    "serialized": {"value_serializer": bytes},
    "many": {},
    "without room": SMALL,
    "flush": {"linger_ms": 100_000},
    "result": {},
    "in a transaction": {"transactional_id": "interrupted"},
}


@pytest.mark.parametrize("way", SENDS)
def test_a_send_can_be_interrupted_at_any_instruction(broker, topic, way):
    """Accepted records are delivered once, in order."""
    numbers, accepted, producers = itertools.count(), [], []
    settings = {**SENDS[way], **QUICK}
    if "transactional_id" in settings:
        settings["transactional_id"] = topic

    def made():
        if way == "to a new topic" or not producers:
            producers.append(Producer(broker.bootstrap, **settings))

    def send():
        number = next(numbers)
        report = producers[-1].send(topic, b"%d" % number + (b" " + PADDING if way == "without room" else b""))
        accepted.append(number)
        return report

    def transaction(work):
        if way != "in a transaction":
            work()
            producers[-1].flush(PATIENCE_S)
            return
        with producers[-1].transaction():
            number = next(numbers)
            producers[-1].send(topic, b"%d" % number)
        accepted.append(number)

    def many():
        some = [next(numbers) for _ in range(3)]
        producers[-1].send_many(topic, [b"%d" % number for number in some])
        accepted.extend(some)

    def flush():
        send()
        send()
        producers[-1].flush(PATIENCE_S)

    calls = {
        "many": many,
        "without room": lambda: [send() for _ in range(4)],
        "flush": flush,
        "result": lambda: send().result(PATIENCE_S),
        "in a transaction": lambda: transaction(send),
    }

    def after():
        transaction(send)
        if way == "to a new topic":
            producers.pop().close()

    assert interrupted(calls.get(way, send), after, made) >= (way not in ("send", "many"))
    for producer in producers:
        producer.close()
    records = read_all(broker.bootstrap, topic, isolation_level="read_committed")
    found = [int(bytes(each.value).split()[0]) for each in records]
    assert found == sorted(set(found)), "doubled, or out of order"
    assert set(accepted) <= set(found), "lost"


@pytest.mark.parametrize("kind", ["admin", "producer", "transactional producer", "consumer", "member"])
def test_a_close_can_be_interrupted_at_any_instruction(broker, admin, topic, group, kind):
    """Sent records are delivered, the thread ends, and the member has left."""
    clients, sent = [], []

    def made():
        if kind == "admin":
            client = Admin(broker.bootstrap)
            client.describe_cluster()
        elif "producer" in kind:
            client = Producer(broker.bootstrap, transactional_id=None if kind == "producer" else topic, **QUICK)
            if client._settings.transactional_id is not None:
                client.begin_transaction()
            sent.append(client.send(topic, b"%d" % len(sent)))
        else:
            client = Consumer(broker.bootstrap, group_id=group, **QUICK)
            if kind == "member":
                client.subscribe(topic)
                client.poll(timeout=0)
            else:
                client.assign([TopicPartition(topic, 0)])
                client.poll(timeout=0)
        clients.append(client)

    def after():
        client = clients.pop()
        client.close()
        until(lambda: has_ended(client), "the end of its thread")
        if kind == "member":
            described = admin.describe_consumer_groups
            until(lambda: not described(group, check=False).get(group, _Nobody).members, "the end of its membership")

    assert interrupted(lambda: clients[-1].close(), after, made) > 5
    assert all(report.done for report in sent)


class _Nobody:
    members = ()


def test_a_commit_can_be_interrupted_at_any_instruction(broker, topic, group):
    """The next commit succeeds."""
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"v"] * 1000).result(PATIENCE_S)
    place = TopicPartition(topic, 0)
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "max_poll_records": 1}
    with Consumer(broker.bootstrap, group_id=group, **settings) as consumer:
        consumer.assign([place])

        def after():
            end = take(consumer, 1)[-1].offset + 1
            consumer.commit()
            assert consumer.committed([place])[place].offset == end

        take(consumer, 1)
        assert interrupted(consumer.commit, after) > 10
