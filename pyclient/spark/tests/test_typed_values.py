"""Values with a format become a struct column; invalid values are null or an error."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyclient.errors import ConfigError
from pyclient.spark.source.avro_values import AvroValues, fields_of
from pyclient.spark.source.json_values import JsonValues
from pyclient.spark.source.typed_values import BadValue, TypedValues, Values

NAMES = pa.struct([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.float64()))])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.text(),
        "l": st.none() | st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        "more": st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
    },
)


def column(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def typed(values: Values, *, prefix: str = "none", number: int | None = None, fails: bool = False) -> TypedValues:
    return TypedValues(values, prefix, number, fails)


def where(row: int) -> str:
    return f"row {row}"


@given(st.lists(st.none() | FIELDS, max_size=6), st.sampled_from((None, 1)))
def test_json_is_read_as_the_standard_library_reads_it(rows: list, indent: int | None) -> None:
    values = column(*(None if row is None else json.dumps(row, indent=indent).encode() for row in rows))
    expected = [None if row is None else {name: row.get(name) for name in ("a", "b", "l")} for row in rows]
    assert typed(JsonValues(NAMES), fails=True).of(values, where).to_pylist() == expected


WRONG = [
    b"",
    b"null",
    b"[1]",
    b"5",
    b'{"a":',
    b'{"a":1}{"a":2}',
    b'{"a":1} null',
    b'{"a":"x"}',
    b'{"a":1.5}',
    b"{]",
    b'{"b":"',
]


@pytest.mark.parametrize("bad", WRONG)
def test_an_invalid_value_is_null_or_an_error_and_does_not_affect_others(bad: bytes) -> None:
    values = column(b'{"a":1}', None, b'{"a":2}', bad, b'{"a":3}')
    found = typed(JsonValues(NAMES)).of(values, where).to_pylist()
    assert [row and row["a"] for row in found] == [1, None, 2, None, 3]
    with pytest.raises(BadValue, match=r"the value at row 3 cannot be read.*valueErrors=null"):
        typed(JsonValues(NAMES), fails=True).of(values, where)


@pytest.mark.parametrize("prefix", ["none", "registry"])
def test_a_batch_may_have_any_number_of_invalid_values(prefix: str, caplog: pytest.LogCaptureFixture) -> None:
    before = b"" if prefix == "none" else b"\0\0\0\0\x07"
    good = [None if number % 7 == 0 else {"a": number} for number in range(3000)]
    rows = [b"not json" if row is None else before + json.dumps(row).encode() for row in good]
    found = typed(JsonValues(NAMES), prefix=prefix).of(column(*rows), where).to_pylist()
    assert [row and {"a": row["a"]} for row in found] == good
    (told,) = caplog.messages
    assert "row 0 cannot be read" in told
    assert "nor can 428 behind it" in told


def test_a_string_that_is_not_utf_8_is_an_invalid_value() -> None:
    kind = pa.struct([("s", pa.string()), ("l", pa.list_(pa.struct([("s", pa.string())])))])
    values = column(b'{"s":"\xff"}', b'{"s":"\xc3\xa4"}', b'{"l":[{"s":"\xff"}]}')
    found = typed(JsonValues(kind)).of(values, where).to_pylist()
    assert found == [None, {"s": "ä", "l": None}, None]
    with pytest.raises(BadValue, match="the value at row 0 cannot be read"):
        typed(JsonValues(kind), fails=True).of(values, where)


def test_dates_and_times_in_json_are_iso_strings() -> None:
    kind = pa.struct([("t", pa.timestamp("us", "UTC")), ("s", pa.struct([("d", pa.date32())]))])
    values = column(b'{"t":"2024-01-02T03:04:05Z","s":{"d":"2024-02-29"}}', b'{"s":{"d":"2023-02-29"}}')
    assert typed(JsonValues(kind)).of(values, where).to_pylist() == [
        {"t": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "s": {"d": date(2024, 2, 29)}},
        None,
    ]


def test_the_schema_id_is_skipped_or_checked() -> None:
    seven, eight = b"\0\0\0\0\x07{}", b'\0\0\0\0\x08{"a":8}'
    values = column(seven, eight, None, b"\0\0", b"\x01\0\0\0\x07{}")
    found = typed(JsonValues(NAMES), prefix="registry").of(values, where)
    assert found.is_null().to_pylist() == [False, False, True, True, True]
    checked = typed(JsonValues(NAMES), prefix="registry", number=8).of(values, where)
    assert [row and row["a"] for row in checked.to_pylist()] == [None, 8, None, None, None]
    with pytest.raises(BadValue, match=r"row 0.* number 8 of a schema"):
        typed(JsonValues(NAMES), prefix="registry", number=8, fails=True).of(values, where)


AVRO = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "carrier", "type": "string"},
            {"name": "delay", "type": ["null", "long"]},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {
                "name": "legs",
                "type": {
                    "type": "array",
                    "items": {"type": "record", "name": "Leg", "fields": [{"name": "to", "type": "string"}]},
                },
            },
            {"name": "cost", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        ],
    }
)


@pytest.mark.parametrize(("kind", "good"), [(pa.string(), None), (pa.int32(), 7)])
def test_avro_that_does_not_fit_the_column_is_an_invalid_value(kind: pa.DataType, good: int | None) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    values = AvroValues(pa.struct([("a", kind)]), json.dumps(schema))
    buffers = [io.BytesIO() for _ in range(2)]
    for buffer, number in zip(buffers, (7, 2**40), strict=True):
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), {"a": number})
    rows = column(*(buffer.getvalue() for buffer in buffers))
    assert typed(values).of(rows, where).to_pylist() == [good and {"a": good}, None]
    with pytest.raises(BadValue, match=r"the value at row \d cannot be read"):
        typed(values, fails=True).of(rows, where)


def test_an_avro_schema_becomes_the_schema_of_the_column() -> None:
    fields = "`carrier` STRING, `delay` BIGINT, `day` DATE, `legs` ARRAY<STRUCT<`to` STRING>>, `cost` DECIMAL(9, 2)"
    assert fields_of(AVRO) == fields
    kind = pa.struct([("carrier", pa.string()), ("delay", pa.int64()), ("day", pa.date32())])
    row = {"carrier": "UA", "delay": None, "day": date(2013, 1, 1), "legs": [{"to": "SFO"}], "cost": Decimal("1.00")}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(AVRO)), row)
    values = column(out.getvalue(), None, out.getvalue()[:-3], out.getvalue() + b"x")
    found = typed(AvroValues(kind, AVRO)).of(values, where).to_pylist()
    assert found == [{name: row[name] for name in ("carrier", "delay", "day")}, None, None, None]


@pytest.mark.parametrize("schema", ["", "[]", '"int"', '{"type":"record"}', '{"type":"record","name":"R","fields":3}'])
def test_a_schema_that_is_not_an_avro_record_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="valueSchema is not an Avro schema"):
        fields_of(schema)


def test_a_union_of_several_types_is_refused() -> None:
    union = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "string"]}]}
    with pytest.raises(ConfigError, match="a column cannot have several types"):
        fields_of(json.dumps(union))
