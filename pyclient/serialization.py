"""Serializers and deserializers for keys and values: text, JSON (msgspec), Avro (fastavro), or your own.

A serializer is called as ``serializer(value) -> bytes`` or ``serializer(topic, value) -> bytes``, a deserializer as
``deserializer(data) -> value`` or ``deserializer(topic, data) -> value``. Its signature decides which, when the client
is created. Neither is called with None (a tombstone).

Avro with ``schema_id`` is Confluent's wire format: a zero byte, the schema's id as int32, the data.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from pyclient.arguments import takes_topic
from pyclient.errors import ConfigError

Serializer = Callable[[str, Any], bytes]
Deserializer = Callable[[str, bytes], Any]
PREFIX_SIZE = 5


def serialize_text(topic: str, value: str) -> bytes:
    """Encodes a text in UTF-8."""
    return value.encode()


def deserialize_text(topic: str, data: bytes) -> str:
    """Decodes a text in UTF-8."""
    return bytes(data).decode()


def _json_functions() -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Returns the JSON functions of msgspec if it is installed, otherwise those of the standard library."""
    try:
        import msgspec
    except ImportError:
        return (
            lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(),
            json.loads,
        )
    return msgspec.json.encode, msgspec.json.decode


class JsonSerializer:
    """Serializes values as JSON in UTF-8. Accepts what msgspec accepts: dataclasses, datetimes, Struct …"""

    def __init__(self) -> None:
        self._encode = _json_functions()[0]

    def __call__(self, topic: str, value: Any) -> bytes:
        return self._encode(value)


class JsonDeserializer:
    """Deserializes JSON in UTF-8."""

    def __init__(self) -> None:
        self._decode = _json_functions()[1]

    def __call__(self, topic: str, data: bytes) -> Any:
        return self._decode(bytes(data))


class AvroSerializer:
    """Serializes values as Avro without a file header. ``schema`` is JSON, as text or parsed. ``schema_id`` adds the
    registry's prefix. Needs fastavro (``pip install fastavro``).
    """

    def __init__(self, schema: Mapping[str, Any] | str, *, schema_id: int | None = None) -> None:
        self._avro = _fastavro()
        self._schema = self._avro.parse_schema(_parsed(schema))
        self._prefix = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4)

    def __call__(self, topic: str, value: Any) -> bytes:
        out = io.BytesIO()
        out.write(self._prefix)
        self._avro.schemaless_writer(out, self._schema, value)
        return out.getvalue()


class AvroDeserializer:
    """Deserializes Avro without a file header. ``schema`` is the writer's schema. For data with the registry's prefix,
    give ``schemas`` instead: a function or mapping from the id in the prefix to the schema.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | str | None = None,
        *,
        schemas: Callable[[int], Any] | Mapping[int, Any] | None = None,
    ) -> None:
        if (schema is None) == (schemas is None):
            raise ConfigError("AvroDeserializer needs either schema or schemas")
        self._avro = _fastavro()
        self._schema = None if schema is None else self._avro.parse_schema(_parsed(schema))
        self._find = schemas.__getitem__ if isinstance(schemas, Mapping) else schemas
        self._known: dict[int, Any] = {}

    def __call__(self, topic: str, data: bytes) -> Any:
        if self._find is None:
            return self._avro.schemaless_reader(io.BytesIO(data), self._schema)
        if len(data) < PREFIX_SIZE or data[0] != 0:
            raise ValueError(f"the data ({len(data)} bytes) do not begin with the prefix 00 and a schema id")
        schema_id = int.from_bytes(data[1:PREFIX_SIZE])
        schema = self._known.get(schema_id)
        if schema is None:
            schema = self._avro.parse_schema(_parsed(self._find(schema_id)))
            self._known[schema_id] = schema
        return self._avro.schemaless_reader(io.BytesIO(data[PREFIX_SIZE:]), schema)


def _parsed(schema: Any) -> Any:
    return json.loads(schema) if isinstance(schema, str) else schema


def _fastavro() -> Any:
    try:
        import fastavro  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ConfigError("Avro needs fastavro: pip install fastavro") from error
    return fastavro


def serializer(given: Any, what: str = "serializer") -> Serializer | None:
    """Returns the serializer for a value of the key ``*.serializer`` as a function of (topic, value). The value is
    None (bytes), 'str', 'json', a callable with one or two arguments, or an object with ``serialize``. Raises
    ConfigError.
    """
    names = {"str": lambda: serialize_text, "json": JsonSerializer}
    return _of_two(_named(given, names, what, "serialize"), what)


def deserializer(given: Any, what: str = "deserializer") -> Deserializer | None:
    """Returns the deserializer for a value of the key ``*.deserializer`` as a function of (topic, data). The value is
    None (bytes), 'str', 'json', a callable with one or two arguments, or an object with ``deserialize``. Raises
    ConfigError.
    """
    return _of_two(named_deserializer(given, what), what)


def named_deserializer(given: Any, what: str) -> Callable[..., Any] | None:
    """Like ``deserializer``, but returns the callable unchanged; ``takes_topic`` decides how it is called."""
    return _named(given, {"str": lambda: deserialize_text, "json": JsonDeserializer}, what, "deserialize")


def _of_two(function: Callable[..., Any] | None, what: str) -> Callable[[str, Any], Any] | None:
    if function is None or takes_topic(function, what):
        return function
    return lambda topic, value: function(value)


def _named(given: Any, names: Mapping[str, Callable[[], Any]], what: str, method: str) -> Callable[..., Any] | None:
    if given is None or given == "bytes":
        return None
    if isinstance(given, str):
        make = names.get(given)
        if make is None:
            raise ConfigError(f"{what}: {given!r} is not one of bytes, {', '.join(names)}")
        given = make()
    function: Callable[..., Any] | None = given if callable(given) else getattr(given, method, None)
    if function is None:
        raise ConfigError(f"{what}: {given!r} cannot be called")
    return function
