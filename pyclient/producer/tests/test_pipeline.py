"""Interceptors, serializers, partitioner; settings that contradict each other."""

from __future__ import annotations

import pytest

from pyclient.config import PRODUCER, load
from pyclient.errors import ConfigError
from pyclient.producer.errors import SerializationError
from pyclient.producer.pipeline import Pipeline, ProducerRecord
from pyclient.producer.settings import read
from pyclient.serialization import JsonDeserializer, JsonSerializer, deserializer, serializer


def config(**settings):
    return load(PRODUCER, "h:1", None, settings)


class Stamping:
    """S19: an interceptor that puts the time before the value and counts. It is configured and closed."""

    def __init__(self):
        self.calls = []

    def configure(self, settings):
        self.calls.append(settings["client.id"])

    def on_send(self, record):
        record.value = b"12:00 " + record.value
        return record

    def on_acknowledgement(self, metadata, error):
        self.calls.append((metadata, error))

    def close(self):
        self.calls.append("close")


class Failing:
    def on_send(self, record):
        raise ValueError("no")


def test_interceptors_change_records_and_are_called_on_acknowledgement():
    stamping = Stamping()
    pipeline = Pipeline(config(interceptor_classes=[stamping, Failing()], client_id="me"))
    record = pipeline.intercept(ProducerRecord("t", b"v"))
    assert record.value == b"12:00 v"
    told = []
    pipeline.acknowledgement(lambda metadata, error: told.append(metadata))("m", None)
    pipeline.close()
    assert stamping.calls == ["me", ("m", None), "close"]
    assert told == ["m"]


def test_serializers_are_given_by_name_or_as_a_callable():
    pipeline = Pipeline(config(value_serializer="json", key_serializer=lambda topic, key: topic.encode() + key))
    assert pipeline.value("t", {"a": 1}) == b'{"a":1}'
    assert pipeline.key("t", b"k") == b"tk"
    assert pipeline.value("t", None) is None
    with pytest.raises(SerializationError):
        pipeline.value("t", object())


def test_json_and_text_are_deserialized_as_serialized():
    assert JsonDeserializer()("t", JsonSerializer()("t", {"a": [1, "ä"]})) == {"a": [1, "ä"]}
    assert deserializer("str")("t", serializer("str")("t", "ä")) == "ä"
    assert serializer(None) is None
    with pytest.raises(ConfigError):
        serializer("xml")


def test_avro_is_serialized_with_and_without_a_prefix():
    from pyclient.serialization import AvroDeserializer, AvroSerializer

    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    assert AvroDeserializer(schema)("t", AvroSerializer(schema)("t", {"a": 5})) == {"a": 5}
    data = AvroSerializer(schema, schema_id=9)("t", {"a": 5})
    assert data[:5] == b"\0\0\0\0\x09"
    assert AvroDeserializer(schemas={9: schema})("t", data) == {"a": 5}


@pytest.mark.parametrize(
    "settings",
    [
        {"enable_idempotence": True, "acks": "1"},
        {"transactional_id": "t", "enable_idempotence": False},
        {"transactional_id": "t", "acks": "1"},
        {"delivery_timeout_ms": 10, "request_timeout_ms": 30_000},
    ],
)
def test_contradicting_settings_are_refused(settings):
    with pytest.raises(ConfigError):
        read(config(**settings))


def test_default_idempotence_is_disabled_by_conflicting_settings():
    assert read(config()).idempotent
    assert not read(config(acks="1")).idempotent
    assert not read(config(max_in_flight_requests_per_connection=6)).idempotent


def test_the_default_level_of_lz4_is_the_fast_one():
    assert read(config(compression_type="lz4")).level is None
    assert read(config(compression_type="lz4", compression_lz4_level=3)).level == 3
