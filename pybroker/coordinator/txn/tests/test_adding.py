"""Partitions of a transaction (semantic 37, fault 39)."""

from __future__ import annotations

import pytest

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.state import ONGOING
from pybroker.coordinator.txn.tests.driver import WALL, A, B, Driver
from pybroker.coordinator.txn.transaction import MAX_EPOCH
from pyclient.protocol import errors


def test_the_first_partition_begins_the_transaction() -> None:
    driver = Driver()
    producer = driver.init()
    driver.pass_ms(5)
    driver.add(producer, A)
    driver.pass_ms(5)
    driver.add(producer, B)
    assert driver.state.state is ONGOING
    assert driver.state.partitions == {A, B}
    assert (driver.state.started_ms, driver.state.updated_ms) == (WALL + 5, WALL + 10)


def test_adding_a_partition_twice_writes_nothing() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer, A, B)
    written = len(driver.log)
    driver.add(producer, B)
    assert len(driver.log) == written


def test_the_next_transaction_begins_without_partitions() -> None:
    driver = Driver()
    following = driver.transaction(driver.init())
    driver.add(following, B)
    assert driver.state.partitions == {B}


@pytest.mark.parametrize("version", [0, 2])
def test_nothing_is_added_while_markers_are_written(version: int) -> None:
    driver = Driver(level=version)
    producer = driver.init()
    driver.add(producer, version=version)
    driver.commit(producer, version=version)
    following = Producer(driver.state.producer_id, driver.state.epoch)
    with pytest.raises(errors.ConcurrentTransactions):
        driver.add(following, B, version=version)
    with pytest.raises(errors.ConcurrentTransactions):
        driver.verify(following, A)


def test_the_new_id_of_an_exhausted_one_waits_for_the_markers_of_the_old_one() -> None:
    driver = Driver()
    driver.init()
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH - 1)
    last = Producer(1000, MAX_EPOCH - 1)
    driver.add(last)
    following = driver.commit(last)
    for ask in (driver.add, driver.init, driver.commit, driver.abort):
        with pytest.raises(errors.ConcurrentTransactions):
            ask(following)
    driver.complete()
    driver.add(following)
    assert driver.verify(following, A) == [None]


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        (Producer(5, 0), errors.InvalidProducerIdMapping),
        (Producer(1000, 1), errors.ProducerFenced),
        (Producer(1000, -1), errors.ProducerFenced),
    ],
)
def test_only_the_owner_adds_and_asks(producer: Producer, error: type[Exception]) -> None:
    driver = Driver()
    driver.init()
    with pytest.raises(error):
        driver.add(producer)
    with pytest.raises(error):
        driver.verify(producer, A)


def test_an_unknown_id_has_no_owner() -> None:
    driver = Driver()
    with pytest.raises(errors.InvalidProducerIdMapping):
        driver.add(Producer(1, 0), id="unknown")
    with pytest.raises(errors.InvalidProducerIdMapping):
        driver.verify(Producer(1, 0), A, id="unknown")


def test_a_partition_outside_the_transaction_may_not_be_written() -> None:
    driver = Driver()
    producer = driver.init()
    assert driver.verify(producer, A) == ["TRANSACTION_ABORTABLE"]
    driver.add(producer, A)
    assert driver.verify(producer, A, B) == [None, "TRANSACTION_ABORTABLE"]


def test_partitions_survive_a_reload() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer, A, B)
    again = driver.reloaded()
    assert again.state == driver.state
    assert again.verify(producer, A, B) == [None, None]
