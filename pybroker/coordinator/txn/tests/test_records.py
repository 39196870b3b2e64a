"""Records of __transaction_state, and their description as text."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.coordinator.shard import Record
from pybroker.coordinator.txn import describing, records
from pybroker.coordinator.txn.describing import Filter, read_states
from pybroker.coordinator.txn.state import COMES_FROM, LABELS, ONGOING, TransactionState
from pybroker.coordinator.txn.tests.driver import WALL, A, B, Driver
from pybroker.coordinator.txn.transaction import Transaction
from pybroker.topic_partition import TopicPartition

FULL = Transaction(
    "x", 7, 3, 60_000, ONGOING, 2, 6, 8, -1, frozenset({A, B, TopicPartition("a", 9)}), 1, 2
)


def test_a_transaction_is_read_back_from_its_record() -> None:
    key, value = records.record(FULL, 1)
    assert records.read_key(key) == "x"
    assert value is not None
    assert records.read_value("x", value) == FULL


def test_the_old_format_has_no_transactions_v2() -> None:
    _, value = records.record(FULL, 0)
    assert value is not None
    assert value[:2] == bytes(2)
    old = FULL._replace(version=0, previous_producer_id=-1, next_producer_id=-1)
    assert records.read_value("x", value) == old


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_the_feature_says_which_format_is_written(level: int, version: int) -> None:
    driver = Driver(level=level)
    driver.init()
    value = driver.log[0].value
    assert value is not None
    assert int.from_bytes(value[:2], "big") == version


def test_the_bytes_are_those_of_kafka() -> None:
    """Kafka's TransactionLog writes key version 0, and value version 1 with tags 0 and 2."""
    driver = Driver()
    producer = driver.init()
    driver.add(producer)
    key, value = driver.log[1]
    assert key.hex() == "0000" "0001" + b"x".hex()
    assert value is not None
    assert value.hex() == (
        "0001" + f"{1000:016x}" "0000" + f"{60_000:08x}" "01"
        "02" "02" + b"a".hex() + "02" "00000000" "00"
        + f"{WALL:016x}" * 2 + "02" "00" "08" + f"{1000:016x}" "02" "02" "0002"
    )  # fmt: skip


@pytest.mark.parametrize(
    "record", [Record(b"\0\1\0\1x", b""), Record(b"", b""), Record(b"\0\0\0\1y", b"\0\x09")]
)
def test_records_of_the_future_are_skipped(record: Record) -> None:
    driver = Driver()
    driver.init()
    assert Driver([*driver.log, record]).list() == ["x"]


def test_the_names_of_states_are_kafkas() -> None:
    assert list(LABELS.values()) == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip


def test_no_state_leads_to_one_that_the_table_forbids() -> None:
    for state in TransactionState:
        for following in TransactionState:
            at = FULL._replace(state=state)
            if state in COMES_FROM[following]:
                assert at._to(following).state is following
            else:
                with pytest.raises(ValueError, match="x: "):
                    at._to(following)


def test_a_description_has_partitions_by_topic() -> None:
    told = describing.describe(FULL)
    assert [(topic.topic, topic.partitions) for topic in told.topics] == [("a", [0, 9]), ("b", [1])]
    assert (told.transaction_state, told.producer_id, told.producer_epoch) == ("Ongoing", 7, 3)
    assert (told.transaction_timeout_ms, told.transaction_start_time_ms) == (60_000, 1)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["going", "idle"]),
        ({"states": frozenset({ONGOING})}, ["going"]),
        ({"states": frozenset()}, []),
        ({"producer_ids": frozenset({1001})}, ["idle"]),
        ({"duration_ms": 99}, ["going", "idle"]),
        ({"duration_ms": 100}, ["idle"]),
    ],
)
def test_transactions_are_listed_by_filter(wanted: dict[str, Any], found: list[str]) -> None:
    driver = Driver()
    driver.add(driver.init(id="going"), id="going")
    driver.init(id="idle")
    driver.pass_ms(100)
    assert driver.list(Filter(**wanted)) == found


def test_unknown_states_in_a_filter_are_returned() -> None:
    assert read_states([]) == (None, [])
    assert read_states(["Ongoing", "Nonsense"]) == (frozenset({ONGOING}), ["Nonsense"])
    assert read_states(["Nonsense"]) == (frozenset(), ["Nonsense"])
