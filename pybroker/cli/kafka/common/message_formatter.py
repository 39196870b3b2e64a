"""Writes records as kafka-console-consumer does: Kafka's formatters and their properties.

    print.timestamp  print.partition  print.offset  print.epoch  print.headers  print.key   false
    print.value                                                                             true
    key.separator=\\t  line.separator=\\n  headers.separator=,  null.literal=null
    key.deserializer  value.deserializer  headers.deserializer: Kafka's classes for simple types


``LoggingMessageFormatter`` and ``NoOpMessageFormatter`` exist as well. ``OffsetsMessageFormatter``,
``GroupMetadataMessageFormatter`` and ``TransactionLogMessageFormatter`` write a JSON document per record of Kafka's own
topics.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from pybroker.cli.common.verbs import Failure, suggestion
from pybroker.cli.kafka.common.options import is_true

if TYPE_CHECKING:
    from cy.consume.records import Record

Write = Callable[["Record"], bytes]
Read = Callable[[bytes], bytes]
TIME_TYPES = {0: b"CreateTime:", 1: b"LogAppendTime:"}


def number_of(format: str) -> Read:
    """Returns a function that reads a number in Java's binary form and writes it as Java does."""
    packed = struct.Struct(format)

    def read(data: bytes) -> bytes:
        if len(data) != packed.size:
            raise ValueError(f"{len(data)} bytes are not a number, which has {packed.size}")
        return str(packed.unpack(data)[0]).encode()

    return read


def bytes_of(data: bytes) -> bytes:
    """Formats bytes as Kafka's ``Bytes`` does: all but printable ASCII as ``\\xNN``."""
    return b"".join(b"%c" % each if 32 <= each < 127 and each != 92 else b"\\x%02X" % each for each in data)


DESERIALIZERS: Mapping[str, Read] = {
    "StringDeserializer": bytes,
    "ByteArrayDeserializer": bytes,
    "BytesDeserializer": bytes_of,
    "ShortDeserializer": number_of(">h"),
    "IntegerDeserializer": number_of(">i"),
    "LongDeserializer": number_of(">q"),
    "FloatDeserializer": number_of(">f"),
    "DoubleDeserializer": number_of(">d"),
    "BooleanDeserializer": lambda data: b"true" if data != b"\0" else b"false",
    "UUIDDeserializer": lambda data: str(UUID(data.decode())).encode(),
}


def formatter(name: str | None, known: Mapping[str, str]) -> Write:
    """Returns a function that writes a record. Raises ValueError for an unknown class."""
    from pybroker.cli.common.records import internal_records as known_records

    groups, transactions = known_records.GROUP_TYPES, known_records.TRANSACTION_TYPES
    makers: dict[str, Callable[[Mapping[str, str]], Write]] = {
        "DefaultMessageFormatter": default,
        "LoggingMessageFormatter": default,
        "NoOpMessageFormatter": lambda known: lambda record: b"",
        "OffsetsMessageFormatter": lambda known: internal(groups, known_records.OFFSET_COMMITS),
        "GroupMetadataMessageFormatter": lambda known: internal(groups, known_records.GROUP_METADATA),
        "TransactionLogMessageFormatter": lambda known: internal(transactions, transactions),
    }
    if name is None:
        return default(known)
    simple = name.replace("$", ".").rpartition(".")[2]
    if simple not in makers:
        raise ValueError(f"Java classes cannot be used: {suggestion(simple, makers)}")
    return makers[simple](known)


def internal(types: dict[int, str], wanted: Container[int]) -> Write:
    """Returns a function that writes records of these types, and leaves out others."""
    from pybroker.cli.common.records.internal_records import decode

    def write(record: Record) -> bytes:
        found = decode(types, record.key, record.value)
        if found is None or found.type not in wanted:
            return b""
        line = json.dumps({"key": found.key, "value": found.value}, separators=(",", ":"), ensure_ascii=False)
        return line.encode() + b"\n"

    return write


def deserializer(known: Mapping[str, str], part: str) -> Read:
    """Returns a function that makes text of a key, a value or a header. Raises ValueError for an unknown class."""
    name = known.get(f"{part}.deserializer")
    if name is None:
        return bytes
    simple = name.rpartition(".")[2]
    if simple not in DESERIALIZERS:
        near = suggestion(simple, DESERIALIZERS)
        raise ValueError(f"{part}.deserializer={name}: Java classes cannot be used: {near}")
    return DESERIALIZERS[simple]


def default(known: Mapping[str, str]) -> Write:
    """Returns Kafka's DefaultMessageFormatter with these properties."""
    between, end = known.get("key.separator", "\t").encode(), known.get("line.separator", "\n").encode()
    parts = [part for name, part in columns(known).items() if is_true(known, f"print.{name}", name == "value")]
    if not parts:
        return lambda record: b""

    def write(record: Record) -> bytes:
        return between.join([part(record) for part in parts]) + end

    return write


def columns(known: Mapping[str, str]) -> dict[str, Write]:
    """Returns the function of each ``print.<name>``, in Kafka's order."""
    null = known.get("null.literal", "null").encode()
    comma = known.get("headers.separator", ",").encode()
    key, value, header = (deserializer(known, part) for part in ("key", "value", "headers"))

    def shown(read: Read, data: bytes | None) -> bytes:
        try:
            return null if data is None else read(data)
        except ValueError as error:
            raise Failure(f"a record cannot be shown: {error}: another deserializer?") from error

    return {
        "timestamp": timestamp,
        "partition": lambda record: b"Partition:%d" % record.partition,
        "offset": lambda record: b"Offset:%d" % record.offset,
        "delivery": lambda record: b"Delivery:NOT_PRESENT",
        "epoch": lambda record: (
            b"Epoch:%d" % record.leader_epoch if record.leader_epoch >= 0 else b"Epoch:NOT_PRESENT"
        ),
        "headers": lambda record: (
            comma.join([name.encode() + b":" + shown(header, data) for name, data in record.headers]) or b"NO_HEADERS"
        ),
        "key": lambda record: shown(key, record.key),
        "value": lambda record: shown(value, record.value),
    }


def timestamp(record: Record) -> bytes:
    return b"NO_TIMESTAMP" if record.timestamp < 0 else TIME_TYPES[record.timestamp_type] + b"%d" % record.timestamp
