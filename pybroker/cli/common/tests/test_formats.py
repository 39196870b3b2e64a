"""Rows, records and places as text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from cy.consume.records import Record
from pybroker.cli import consume
from pybroker.cli.common import places
from pybroker.cli.common.output import show
from pybroker.cli.common.records import record_documents, record_format
from pybroker.cli.kafka.common.json_files import partitions_of_file
from pybroker.cli.kafka.common.reset_plans import target
from pyclient import TopicPartition

ROWS = [("a,b", 1, None, (1, 2), True), ("c", 20, "ü", (), False)]
COLUMNS = ("name", "size", "text", "ids", "flag")


def shown(output: str) -> str:
    with CliRunner().isolation() as streams:
        show(output, COLUMNS, ROWS)
        return streams[0].getvalue().decode()


def test_a_table_is_aligned_with_numbers_to_the_right() -> None:
    assert shown("table").splitlines() == [
        "NAME  SIZE  TEXT  IDS  FLAG",
        "a,b      1  -     1,2  yes",
        "c       20  ü     -    no",
    ]


def test_csv_quotes_and_leaves_nothing_empty() -> None:
    assert shown("csv") == 'name,size,text,ids,flag\n"a,b",1,,"1,2",yes\nc,20,ü,,no\n'


def test_jsonl_is_a_document_per_line() -> None:
    assert shown("jsonl").splitlines()[1] == '{"name": "c", "size": 20, "text": "ü", "ids": [], "flag": false}'


def test_names_are_the_first_column() -> None:
    assert shown("name") == "a,b\nc\n"


RECORD = Record("t", 3, 42, 1700, b"key", None, [("h", b"1"), ("n", None)])


def test_records_as_a_table_have_heads_and_a_dash_for_nothing() -> None:
    heads, line = consume.writer("table", None, "", ["t", "flights"])
    longer = Record("flights", 0, 1234567, 1700000000000, b"a longer key", b"v", [])
    assert [each.decode() for each in (heads, line(RECORD), line(longer), line(RECORD))] == [
        "TOPIC    PARTITION  OFFSET      TIMESTAMP  KEY  VALUE\n",
        "t                3      42           1700  key  -\n",
        "flights          0  1234567  1700000000000  a longer key  v\n",
        "t                3       42           1700  key           -\n",
    ]
    assert consume.writer("csv", None, "", ["t"])[1](RECORD) == b"t,3,42,1700,key,\n"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"%t[%p] %o %T %k %s %h\n", b"t[3] 42 1700 key NULL h=1,n=NULL\n"),
        (r"%K %S %%\x41\t\\", b"3 -1 %A\t\\"),
        ("%R", b"\xff\xff\xff\xff"),
        (r"\q", rb"\q"),
        ("é%o", "é42".encode()),
    ],
)
def test_a_format_writes_as_kcat_does(pattern: str, text: bytes) -> None:
    assert record_format.compiled(pattern, b"NULL")(RECORD) == text


@pytest.mark.parametrize("pattern", ["%x", "100%"])
def test_a_format_with_an_unknown_letter_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a letter of -f"):
        record_format.compiled(pattern)


@pytest.mark.parametrize("value", [b"text", None, b"", b"\xff\x00", "ü".encode()])
def test_a_record_is_read_back_from_its_json_document(value: bytes | None) -> None:
    import json

    record = Record("t", 1, 2, 3, value, value, [("a", value), ("a", b"2")])
    found = record_documents.given(json.dumps(record_documents.document(record)).encode())
    assert found == (value, value, [("a", value), ("a", b"2")], 1, 3, "t")


@pytest.mark.parametrize("line", [b"", b"3", b"{}", b'{"value": {"base64": "?"}}', b'{"value": "", "partition": "x"}'])
def test_a_document_that_is_not_a_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        record_documents.given(line)


@pytest.mark.parametrize(
    ("text", "spot"),
    [
        ("beginning", (places.EARLIEST, 0)),
        ("end", (places.LATEST, 0)),
        ("42", (places.OFFSET, 42)),
        ("-5", (places.FROM_END, 5)),
        ("@1700", (places.TIME, 1700)),
        ("1970-01-01T00:00:01+00:00", (places.TIME, 1000)),
        ("1960-01-01", (places.TIME, 0)),
    ],
)
def test_an_offset_or_time_to_read_from_is_parsed(text: str, spot: tuple[str, int]) -> None:
    assert places.parse(text) == spot


def test_a_negative_time_to_read_from_is_refused() -> None:
    with pytest.raises(ValueError, match="a time in ms since 1970 must not be below 0, as -1 is"):
        places.parse("@-1")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1970-01-01T05:00:00.000", 18_000_000), ("1970-01-01T05:00+01:00", 14_400_000), ("1960-01-01T00:00", 0)],
)
def test_a_date_that_kafka_consumer_groups_takes_is_utc_without_a_zone(
    text: str, ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert target({"to_datetime": text}) == places.Spot(places.TIME, ms)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_files_of_plans_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    offsets, partitions = tmp_path / "plan.csv", tmp_path / "plan.json"
    offsets.write_text("t,0,5\n", encoding="utf-8-sig")
    partitions.write_text('{"partitions": [{"topic": "é"}]}', encoding="utf-8-sig")
    assert target({"from_file": str(offsets)}) == {None: {TopicPartition("t", 0): 5}}
    assert partitions_of_file(str(partitions)) == [{"topic": "é"}]
