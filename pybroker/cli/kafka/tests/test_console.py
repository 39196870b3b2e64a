"""Lines as records and records as lines, as Kafka's console tools have them."""

from __future__ import annotations

import struct

import pytest

from cy.consume.records import Record
from pybroker.cli.common.verbs import Failure
from pybroker.cli.kafka.common.line_reader import LineReader
from pybroker.cli.kafka.common.message_formatter import formatter

KEYED = {"parse.key": "true"}
BOTH = {**KEYED, "parse.headers": "true"}


@pytest.mark.parametrize(
    ("known", "line", "record"),
    [
        ({}, b"a\tb", (b"a\tb", None, [])),
        (KEYED, b"k\tv\tw", (b"v\tw", b"k", [])),
        (KEYED, b"\tv", (b"v", b"", [])),
        ({**KEYED, "key.separator": "::"}, b"k::v", (b"v", b"k", [])),
        ({**KEYED, "null.marker": "NULL"}, b"NULL\tNULL", (None, None, [])),
        (BOTH, b"a:1,b:\tk\tv", (b"v", b"k", [("a", b"1"), ("b", b"")])),
        ({**BOTH, "null.marker": "-"}, b"-\tk\tv", (b"v", b"k", [])),
        ({**BOTH, "null.marker": "-"}, b"a:-\t-\tv", (b"v", None, [("a", None)])),
        ({**KEYED, "ignore.error": "true"}, b"no key", (b"no key", None, [])),
        ({**BOTH, "ignore.error": "true"}, b"lonely\tk\tv", (b"v", b"k", [("lonely", None)])),
    ],
)
def test_a_line_becomes_the_record_that_kafka_would_make(
    known: dict[str, str], line: bytes, record: tuple[object, ...]
) -> None:
    assert next(LineReader(known)([line]))[:3] == record


@pytest.mark.parametrize(("known", "line"), [(KEYED, b"no key"), (BOTH, b"a:1"), (BOTH, b"a\tk\tv")])
def test_a_line_without_its_separator_is_reported_by_number(known: dict[str, str], line: bytes) -> None:
    with pytest.raises(Failure, match=r"line 1: .*separator|line 1: headers.delimiter"):
        next(LineReader(known)([line]))


@pytest.mark.parametrize("mark", ["headers.delimiter", "headers.separator", "headers.key.separator"])
def test_equal_separators_are_refused(mark: str) -> None:
    others = {"headers.delimiter": ",", "headers.separator": ":", "headers.key.separator": ","}
    with pytest.raises(ValueError, match="both"):
        LineReader({mark: others[mark]})


RECORD = Record("t", 3, 42, 1700, b"key", None, [("h", b"1"), ("n", None)], leader_epoch=5)
EVERY = {
    f"print.{name}": "true"
    for name in ("timestamp", "partition", "offset", "epoch", "headers", "key", "value", "delivery")
}


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, b"null\n"),
        ({"print.value": "false"}, b""),
        ({"print.key": "true", "key.separator": "|", "null.literal": "-", "line.separator": ";"}, b"key|-;"),
        (
            EVERY,
            b"CreateTime:1700\tPartition:3\tOffset:42\tDelivery:NOT_PRESENT\tEpoch:5\th:1,n:null\tkey\tnull\n",
        ),
    ],
)
def test_a_record_is_printed_as_kafka_prints_it(known: dict[str, str], text: bytes) -> None:
    assert formatter(None, known)(RECORD) == text


def test_a_record_without_timestamp_headers_or_epoch_is_shown_as_in_kafka() -> None:
    bare = Record("t", 0, 0)
    wanted = {"print.timestamp": "true", "print.headers": "true", "print.epoch": "true", "print.value": "false"}
    assert formatter("org.apache.kafka.tools.consumer.DefaultMessageFormatter", wanted)(bare) == (
        b"NO_TIMESTAMP\tEpoch:NOT_PRESENT\tNO_HEADERS\n"
    )


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("Long", struct.pack(">q", -7), b"-7"),
        ("Integer", struct.pack(">i", 7), b"7"),
        ("Short", struct.pack(">h", 7), b"7"),
        ("Double", struct.pack(">d", 1.5), b"1.5"),
        ("Boolean", b"\1", b"true"),
        ("Bytes", b"a\x00\\", b"a\\x00\\x5C"),
        ("UUID", b"00000000-0000-0001-0000-000000000002", b"00000000-0000-0001-0000-000000000002"),
        ("String", "ü".encode(), "ü".encode()),
    ],
)
def test_simple_types_of_java_are_read(name: str, data: bytes, text: bytes) -> None:
    known = {"value.deserializer": f"org.apache.kafka.common.serialization.{name}Deserializer"}
    assert formatter(None, known)(Record("t", 0, 0, value=data)) == text + b"\n"


def test_bytes_that_are_not_a_number_fail_with_a_remedy() -> None:
    known = {"value.deserializer": "LongDeserializer"}
    with pytest.raises(Failure, match="another deserializer"):
        formatter(None, known)(Record("t", 0, 0, value=b"abc"))
