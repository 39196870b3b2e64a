"""Callbacks are called with (metadata, error); a callback that was written for another client is refused, and never
called in the wrong way.
"""

from __future__ import annotations

import asyncio
from functools import partial
from unittest.mock import Mock

import pytest

from cy.produce.callback_order import check_order
from pyclient import Consumer, Producer, aio
from pyclient.tests.support import PATIENCE_S, until


class Deliveries:
    """Methods and objects as callbacks."""

    def ours(self, metadata, error):
        pass

    def confluents(self, err, msg):
        pass

    @staticmethod
    def static(err, msg):
        pass

    @classmethod
    def of_class(cls, err, msg):
        pass


class Called:
    def __call__(self, err, msg):
        pass


class Seeing:
    """An interceptor, which makes the producer wrap the callback."""

    def on_send(self, record):
        return record

    def on_acknowledgement(self, metadata, error):
        pass


class CalledRight:
    def __call__(self, metadata, error):
        pass


def with_more(number, metadata, error):
    pass


def confluents_with_more(number, err, msg):
    pass


RIGHT = [
    lambda metadata, error: None,
    lambda m, e: None,
    lambda _, error: None,
    lambda _, __: None,
    lambda record_metadata, kafka_error, number=3: None,
    lambda msg, err: None,
    lambda *told: None,
    lambda metadata, *rest: None,
    Deliveries().ours,
    CalledRight(),
    partial(with_more, 1),
    partial(with_more, number=1),
    Mock(),
    [].__iadd__,
    print,
]
REVERSED = [
    lambda err, msg: None,
    lambda error, metadata: None,
    lambda err, _: None,
    lambda _, msg: None,
    lambda e, m: None,
    lambda kafka_error, message, number=3: None,
    lambda exc, record: None,
    lambda exception, report: None,
    lambda err, *rest, **more: None,
    Deliveries().confluents,
    Deliveries.static,
    Deliveries.of_class,
    Called(),
    partial(confluents_with_more, 1),
    partial(confluents_with_more, number=1),
]


@pytest.mark.parametrize("callback", RIGHT)
def test_a_callback_that_takes_metadata_and_error_is_accepted(callback):
    for _ in range(2):
        check_order(callback)


@pytest.mark.parametrize("callback", REVERSED)
def test_a_callback_that_takes_the_error_first_is_refused_each_time(callback):
    for _ in range(2):
        with pytest.raises(TypeError, match=r"is called with \(metadata, error\): .* confluent-kafka's order"):
            check_order(callback)


@pytest.mark.parametrize(
    ("callback", "told"),
    [
        (lambda metadata: None, r"takes \(metadata\)"),
        (lambda: None, r"takes \(\)"),
        (lambda metadata, error, number: None, r"takes \(metadata, error, number\)"),
        (5, "is int, and cannot be called"),
    ],
)
def test_a_callback_with_a_wrong_signature_is_refused(callback, told):
    with pytest.raises(TypeError, match=told):
        check_order(callback)


@pytest.mark.parametrize("settings", [{}, {"value_serializer": "str"}, {"interceptor_classes": [Seeing()]}])
def test_a_callback_in_wrong_order_is_refused_before_its_record_is_sent(broker, topic, settings):
    value = "v" if "value_serializer" in settings else b"v"
    with Producer(broker.bootstrap, **settings) as producer:
        for _ in range(2):  # before the topic is known, and after
            with pytest.raises(TypeError, match="confluent-kafka's order"):
                producer.send(topic, value, on_delivery=lambda err, msg: None)
            told = Mock(return_value=None)
            producer.send(topic, value, on_delivery=told)
            until(lambda told=told: told.called)
    assert told.call_args.args[0].offset == 1


def test_asyncio_refuses_a_callback_in_wrong_order(broker, topic):
    async def check() -> None:
        async with aio.Producer(broker.bootstrap) as producer:
            for _ in range(2):
                with pytest.raises(TypeError, match="confluent-kafka's order"):
                    await producer.send(topic, b"v", on_delivery=lambda err, msg: None)
                metadata = await (await producer.send(topic, b"v"))
        assert metadata.offset == 1

    asyncio.run(check())


def test_an_on_commit_callback_in_wrong_order_is_refused(broker, topic, group):
    with Consumer(broker.bootstrap, group_id=group) as consumer:
        with pytest.raises(TypeError, match=r"on_commit is called with \(offsets, error\)"):
            consumer.commit_async(on_commit=lambda err, partitions: None)
        told = []
        consumer.commit_async({}, on_commit=lambda offsets, error: told.append(error))
        assert until(lambda: told) == [None]
        consumer.close(PATIENCE_S)
