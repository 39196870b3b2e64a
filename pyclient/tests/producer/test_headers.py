"""Headers of records, in every form that an application may give them."""

from __future__ import annotations

import asyncio
from types import MappingProxyType

import pytest

from pyclient import Producer, aio
from pyclient.tests.support import PATIENCE_S, read_all

PAIRS = [("a", b"1"), ("b", None)]
FORMS = {
    "a generator": lambda: (pair for pair in PAIRS),
    "zip": lambda: zip(("a", "b"), (b"1", None), strict=True),
    "map": lambda: map(tuple, PAIRS),
    "a mapping": lambda: MappingProxyType(dict(PAIRS)),
    "a dict": lambda: dict(PAIRS),
    "items": lambda: dict(PAIRS).items(),
    "a tuple": lambda: tuple(PAIRS),
}


def headers_of(broker, topic):
    return [[(name, value and bytes(value)) for name, value in record.headers] for record in read_all(broker, topic)]


@pytest.mark.parametrize("form", FORMS)
def test_each_record_keeps_its_headers_whatever_type_they_are_given_as(broker, topic, form):
    with Producer(broker.bootstrap) as producer:
        for _ in range(3):
            producer.send(topic, b"v", headers=FORMS[form]())
    assert headers_of(broker.bootstrap, topic) == [PAIRS] * 3


def test_records_that_wait_for_room_keep_their_headers(broker, topic):
    with Producer(broker.bootstrap, buffer_memory=40_000, batch_size=4000) as producer:
        for _ in range(500):
            producer.send(topic, bytes(1000), headers=iter(PAIRS))
    assert headers_of(broker.bootstrap, topic) == [PAIRS] * 500


class Tracing:
    """An interceptor that reads the headers, and replaces them by a generator."""

    def on_send(self, record):
        seen = list(record.headers)
        record.headers = (pair for pair in [*seen, ("trace", b"t")])
        return record


def test_an_interceptor_may_read_headers_and_return_an_iterator(broker, topic):
    with Producer(broker.bootstrap, interceptor_classes=[Tracing()]) as producer:
        for _ in range(2):
            producer.send(topic, b"v", headers=iter(PAIRS))
    assert headers_of(broker.bootstrap, topic) == [[*PAIRS, ("trace", b"t")]] * 2


def test_headers_that_are_iterators_arrive_from_asyncio(broker, topic):
    async def work():
        async with aio.Producer(broker.bootstrap, buffer_memory=40_000, batch_size=4000) as producer:
            for _ in range(200):
                await producer.send(topic, bytes(1000), headers=iter(PAIRS))
            await producer.flush(PATIENCE_S)

    asyncio.run(work())
    assert headers_of(broker.bootstrap, topic) == [PAIRS] * 200


def test_headers_that_are_not_pairs_are_refused(broker, producer, topic):
    producer.send(topic, b"known").result(PATIENCE_S)
    with pytest.raises(TypeError, match="headers are int"):
        producer.send(topic, b"v", headers=5)
