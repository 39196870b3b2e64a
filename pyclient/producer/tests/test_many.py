"""``send_many`` sends what it was given, whatever becomes of the list meanwhile."""

from __future__ import annotations

import threading

import pytest

from pyclient import Producer
from pyclient.config import PRODUCER, load
from pyclient.errors import ClientClosed
from pyclient.producer.base import many, pairs
from pyclient.producer.pipeline import Pipeline
from pyclient.tests.support import until

NOWHERE = "127.0.0.1:1"


def test_values_and_keys_are_those_of_the_call():
    values, keys = [b"a", b"b"], [b"1", b"2"]
    sent = many(Pipeline(load(PRODUCER, NOWHERE, None, {})), "t", values, keys)
    records = pairs(values, keys)
    values.clear()
    keys.append(b"3")
    assert sent == ((b"a", b"b"), (b"1", b"2"))
    assert records == [(b"a", b"1"), (b"b", b"2")]


class Growing:
    """Appends to the list that is being sent, and keeps the producer's memory full."""

    def __init__(self, values):
        self.values = values

    def on_send(self, record):
        self.values.extend([b"more"] * 1000)
        return record


def test_an_interceptor_may_change_the_list():
    values = [b"a", b"b"]
    with Producer(NOWHERE, interceptor_classes=[Growing(values)]) as producer:
        producer.set_partitions("t", 1)
        assert len(producer.send_many("t", values)) == 2
        producer.close(0)


def filled(producer, reports, ends):
    """Sends until it is told to end, and waits for room meanwhile."""
    try:
        while True:
            reports.append(producer.send("t", bytes(9000), partition=0))
    except ClientClosed as error:
        ends.append(error)


@pytest.mark.parametrize("attempt", range(5))
def test_what_was_accepted_is_done_when_the_producer_is_closed(attempt):
    producer = Producer(NOWHERE, buffer_memory=100_000, max_block_ms=60_000)
    producer.set_partitions("t", 1)
    reports, ends = [], []
    threads = [threading.Thread(target=filled, args=(producer, reports, ends)) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: producer._engine.sender.room_waiters)
    producer.close(0)
    for thread in threads:
        thread.join(60)
    assert len(ends) == 3
    assert all(isinstance(report.error, ClientClosed) for report in reports)
