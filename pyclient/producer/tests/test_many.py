"""``send_many`` sends the list as it was at the time of the call."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from pyclient import Admin, Producer
from pyclient.config import PRODUCER, load
from pyclient.errors import ClientClosed
from pyclient.producer.base import header_column, many, triples
from pyclient.producer.pipeline import Pipeline
from pyclient.tests.brokers import broker, unique  # noqa: F401
from pyclient.tests.support import read_all, until

NOWHERE = "127.0.0.1:1"


def test_values_and_keys_are_those_at_the_time_of_the_call():
    values, keys = [b"a", b"b"], [b"1", b"2"]
    sent = many(Pipeline(load(PRODUCER, NOWHERE, None, {})), "t", values, keys)
    records = triples(values, keys, None)
    values.clear()
    keys.append(b"3")
    assert sent == ((b"a", b"b"), (b"1", b"2"))
    assert records == [(b"a", b"1", None), (b"b", b"2", None)]


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
    """Sends until the producer is closed, and waits for memory meanwhile."""
    try:
        while True:
            reports.append(producer.send("t", bytes(9000), partition=0))
    except ClientClosed as error:
        ends.append(error)


@pytest.mark.parametrize("attempt", range(5))
def test_accepted_records_are_delivered_or_failed_when_the_producer_is_closed(attempt):
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


def test_headers_of_rows_come_back_with_their_rows(broker):  # noqa: F811
    """The headers are a column of lists, or a slice of one; rows have keys or none."""
    kind = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    rows = [[("a", b"1"), ("ä", None)], None, [], [("b", b"")]] * 50
    headers = pa.array([None, *rows], kind).slice(1)
    values = pa.array([b"%d" % number for number in range(len(rows))])
    topic = unique("headers")
    with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        admin.create_topics(topic, num_partitions=1)
        producer.send_many(topic, values, headers=headers).result(60)
        producer.send_many(topic, values, values, headers=headers).result(60)
    found = [list(record.headers) for record in read_all(broker.bootstrap, topic)]
    assert found == [row or [] for row in rows] * 2


def test_headers_need_columns_of_the_same_length():
    headers = pa.array([[("a", b"1")]], pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])))
    assert header_column(headers, pa.array([b"1"]))[0] == b"\x02\x02a\x021"
    with pytest.raises(TypeError, match="values that are an Arrow array"):
        header_column(headers, [b"1"])
    with pytest.raises(ValueError, match="got 2 values, but headers for 1"):
        header_column(headers, pa.array([b"1", b"2"]))
    nameless = pa.array([[(None, b"1")]], headers.type)
    with pytest.raises(ValueError, match="row 0: a header has no name"):
        header_column(nameless, pa.array([b"1"]))
