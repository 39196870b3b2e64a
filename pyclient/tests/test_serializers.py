"""Serializers with one argument or two, and the error if one fails."""

from __future__ import annotations

import asyncio
import json
import pickle
from decimal import Decimal
from functools import partial

import msgspec
import pytest

from pyclient import ConfigError, Consumer, Producer, aio
from pyclient.arguments import takes_topic
from pyclient.consumer import DeserializationError
from pyclient.errors import KafkaError
from pyclient.producer.errors import SerializationError
from pyclient.tests.support import PATIENCE_S, take

NOWHERE = "127.0.0.1:1"


class OfTwo:
    def __call__(self, topic, value):
        return f"{topic}:{value}".encode()


class OfOne:
    def __call__(self, value):
        return b"%d" % value


class KafkaPythons:
    """A serializer with kafka-python's interface."""

    def serialize(self, topic, value):
        return f"{topic}:{value}".encode()


class Confluents:
    """A serializer with confluent-kafka's interface."""

    def __call__(self, obj, ctx):
        return b""


@pytest.mark.parametrize(
    "function",
    [
        lambda value: value,
        lambda value, indent=None: value,
        lambda value=None: value,
        lambda raw=b"", strict=True: raw,
        lambda raw=b"", *rest: raw,
        Decimal,
        json.dumps,
        json.loads,
        pickle.loads,
        str.encode,
        bytes.decode,
        int,
        str,
        float,
        msgspec.json.Encoder().encode,
        partial(json.dumps, indent=1),
        OfOne(),
    ],
)
def test_a_serializer_with_one_argument_gets_the_value(function):
    assert not takes_topic(function, "value.serializer")


@pytest.mark.parametrize(
    "function",
    [
        lambda topic, value: value,
        lambda topic, value, more=1: value,
        lambda topic, value=None: value,
        lambda topic="", value=None: value,
        lambda *both: both,
        lambda topic, *rest: rest,
        OfTwo(),
        KafkaPythons().serialize,
    ],
)
def test_a_serializer_with_two_arguments_gets_topic_and_value(function):
    assert takes_topic(function, "value.serializer")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: b"", r"takes \(\)"),
        (lambda topic, headers, value: value, r"takes \(topic, headers, value\)"),
        (lambda value, *, schema: value, r"takes \(value, \*, schema\)"),
        (lambda value, topic: value, r"takes \(value, topic\)"),
        (Confluents(), r"takes \(obj, ctx\)"),
        (OfOne, "is a class: pass an instance"),
        (max, "has no signature that shows its arguments"),
        (5, "cannot be called"),
        ("xml", "not one of bytes, str, json"),
    ],
)
def test_a_serializer_with_a_wrong_signature_is_refused_at_creation(function, told):
    for kind, key in ((Producer, "value_serializer"), (Consumer, "value_deserializer")):
        with pytest.raises(ConfigError, match=rf"^value\.(de)?serializer: .*{told}"):
            kind(NOWHERE, **{key: function})


def test_serializers_written_for_other_clients_work(broker, topic):
    settings = {"value_serializer": lambda value: json.dumps(value).encode(), "key_serializer": str.encode}
    with Producer(broker.bootstrap, **settings) as producer:
        producer.send(topic, {"a": 1}, "k")
        producer.send(topic, None, None)
    settings = {"value_deserializer": lambda data: json.loads(data.decode()), "key_deserializer": bytes.decode}
    with Consumer(broker.bootstrap, topics=topic, auto_offset_reset="earliest", **settings) as consumer:
        assert [(record.key, record.value) for record in take(consumer, 2)] == [("k", {"a": 1}), (None, None)]


def test_serializers_with_kafkas_interface_work(broker, topic):
    with Producer(broker.bootstrap, value_serializer=KafkaPythons(), key_serializer=OfTwo()) as producer:
        producer.send(topic, "v", "k")
    settings = {"value_deserializer": lambda topic, data: (topic, data)}
    with Consumer(broker.bootstrap, topics=topic, auto_offset_reset="earliest", **settings) as consumer:
        (record,) = take(consumer, 1)
    assert (record.key, record.value) == (f"{topic}:k".encode(), (topic, f"{topic}:v".encode()))


def test_asyncio_clients_accept_serializers_with_one_argument(broker, topic):
    async def check() -> None:
        async with aio.Producer(broker.bootstrap, value_serializer=OfOne()) as producer:
            await (await producer.send(topic, 7))
        settings = {"auto_offset_reset": "earliest", "value_deserializer": int}
        async with aio.Consumer(broker.bootstrap, topics=topic, **settings) as consumer:
            assert (await consumer.get(timeout=PATIENCE_S)).value == 7

    asyncio.run(check())


def test_the_error_of_a_failing_serializer_names_the_topic():
    told = pytest.raises(SerializationError, match=r"t: the value, of type object, could not be serialized: .*not JSON")
    with Producer(NOWHERE, value_serializer=lambda value: json.dumps(value).encode()) as producer, told:
        producer.send("t", object())


@pytest.mark.parametrize("part", ["key", "value"])
def test_the_error_of_a_failing_deserializer_names_the_record_and_reading_continues(broker, producer, topic, part):
    for data in (b"1", b"no number", b"3"):
        producer.send(topic, data, data)
    producer.flush(PATIENCE_S)
    settings = {"auto_offset_reset": "earliest", f"{part}_deserializer": int}
    with Consumer(broker.bootstrap, topics=topic, **settings) as consumer:
        told = rf"^{topic}-0, offset 1: the {part} could not be deserialized: ValueError: invalid literal"
        records = take(consumer, 3)
        for _ in range(2):
            with pytest.raises(DeserializationError, match=told) as caught:
                getattr(records[1], part)
        assert [getattr(records[at], part) for at in (0, 2)] == [1, 3]
        assert consumer.positions()[min(consumer.assignment())].offset == 3
    error = caught.value
    assert (error.part, error.topic, error.partition, error.offset) == (part, topic, 0, 1)
    assert isinstance(error.__cause__, ValueError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_error_of_records_values_names_the_record(broker, producer, topic):
    producer.send(topic, b"no number").result(PATIENCE_S)
    settings = {"auto_offset_reset": "earliest", "value_deserializer": int}
    told = pytest.raises(DeserializationError, match=f"^{topic}-0, offset 0: the value")
    with Consumer(broker.bootstrap, topics=topic, **settings) as consumer, told:
        consumer.poll(timeout=PATIENCE_S).values()


def test_the_error_of_a_refused_batch_names_partition_and_size(broker, producer, new_topic):
    topic = new_topic(1, {"max.message.bytes": "1000"})
    with pytest.raises(KafkaError, match=rf"^{topic}-0: a batch of 1 record and 2\d\d\d bytes .*: ") as caught:
        producer.send(topic, b"x" * 2000).result(PATIENCE_S)
    assert caught.value.name == "MESSAGE_TOO_LARGE"
