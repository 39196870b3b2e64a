"""The sink's columns: errors name the column, and each row goes where its columns say, in order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType

from pyclient.errors import ConfigError
from pyclient.spark.sink.rows import rows_of

PAIR = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def schema(**fields):
    return StructType([StructField(name, kind) for name, kind in fields.items()])


class Sent:
    """A producer that records its calls."""

    def __init__(self):
        self.calls = []

    def send_many(self, topic, values, keys, *, partition, headers):
        columns = [None if each is None else each.to_pylist() for each in (values, keys, headers)]
        self.calls.append((topic, partition, *columns))
        return self


@pytest.mark.parametrize(
    ("fields", "topic", "said"),
    [
        ({"key": BinaryType()}, "t", "column value is missing: there are key"),
        ({"value": LongType()}, "t", "column value is bigint; it must be string or binary"),
        ({"value": StringType(), "key": IntegerType()}, "t", "column key is int; it must be string or binary"),
        ({"value": StringType()}, None, "give the option topic, or a column topic"),
        ({"value": StringType(), "topic": BinaryType()}, None, "column topic is binary; it must be string"),
        ({"value": StringType(), "partition": LongType()}, "t", "column partition is bigint; it must be integer"),
        ({"value": StringType(), "headers": StringType()}, "t", "column headers is string; it must be array<struct<"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "t", "column headers is array<string>"),
    ],
)
def test_an_error_names_the_wrong_column_and_its_required_type(fields, topic, said):
    with pytest.raises(ConfigError, match=said):
        rows_of(schema(**fields), topic)


def test_rows_of_one_topic_without_partitions_are_sent_in_one_call():
    rows = rows_of(schema(value=StringType(), key=BinaryType(), other=LongType()), "t")
    sent = Sent()
    batch = pa.record_batch({"value": ["a", "b"], "key": [b"1", None], "other": [1, 2]})
    assert rows.send(sent, batch) == [sent]
    assert sent.calls == [("t", None, ["a", "b"], [b"1", None], None)]


def test_rows_are_split_by_topic_and_partition_and_keep_their_order():
    fields = schema(value=StringType(), topic=StringType(), partition=IntegerType(), headers=ArrayType(PAIR))
    rows = rows_of(fields, None)
    sent = Sent()
    count = 1000
    batch = pa.record_batch(
        {
            "value": [str(number) for number in range(count)],
            "topic": ["xyz"[number % 3] for number in range(count)],
            "partition": pa.array([[None, 0, 1, 2][number % 4] for number in range(count)], pa.int32()),
            "headers": pa.array(
                [[{"key": "n", "value": b"%d" % number}] for number in range(count)],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    rows.send(sent, batch)
    assert len(sent.calls) == 12
    for topic, partition, values, _, headers in sent.calls:
        numbers = [int(value) for value in values]
        assert numbers == sorted(numbers)
        assert {("xyz"[number % 3], [None, 0, 1, 2][number % 4]) for number in numbers} == {(topic, partition)}
        assert [row[0]["value"] for row in headers] == [b"%d" % number for number in numbers]
    assert sum(len(call[2]) for call in sent.calls) == count


def test_the_option_topic_overrides_the_column():
    rows = rows_of(schema(value=StringType(), topic=StringType()), "mine")
    sent = Sent()
    rows.send(sent, pa.record_batch({"value": ["a"], "topic": [None]}))
    assert sent.calls[0][0] == "mine"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": ["a"], "topic": pa.array([None], pa.string())}, "column topic: null in the data"),
        ({"value": ["a"], "topic": ["t"], "partition": pa.array([-1], pa.int32())}, "column partition has -1"),
    ],
)
def test_an_invalid_value_in_a_row_is_an_error_that_names_the_column(columns, said):
    rows = rows_of(schema(value=StringType(), topic=StringType(), partition=IntegerType()), None)
    columns.setdefault("partition", pa.array([None], pa.int32()))
    with pytest.raises(ConfigError, match=said):
        rows.send(Sent(), pa.record_batch(columns))
