"""Timeouts of transactions and expiry of transactional ids (fault 35)."""

from __future__ import annotations

import pytest

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.shard import EXPIRE_AT_ONCE, IdsWanted
from pybroker.coordinator.txn.state import COMPLETE_ABORT, ONGOING, PREPARE_ABORT
from pybroker.coordinator.txn.tests.driver import A, Driver
from pybroker.coordinator.txn.transaction import MAX_EPOCH
from pyclient.protocol import errors

WEEK_MS = 604_800_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(level: int) -> None:
    driver = Driver(level=level)
    producer = driver.init(timeout_ms=1_000)
    driver.add(producer, version=level)
    driver.pass_ms(12_000)
    [ending] = driver.endings
    assert (ending.committed, ending.producer_epoch, ending.partitions) == (False, 1, {A})
    assert driver.state.state is PREPARE_ABORT
    with pytest.raises(errors.ConcurrentTransactions if level == 2 else errors.ProducerFenced):
        driver.commit(producer, version=level & 2)
    driver.complete()
    assert driver.state.state is COMPLETE_ABORT
    with pytest.raises(errors.InvalidTxnState if level == 2 else errors.ProducerFenced):
        driver.commit(producer, version=level & 2)
    assert driver.init() == Producer(1000, 2)


def test_a_transaction_within_its_timeout_goes_on() -> None:
    driver = Driver()
    producer = driver.init(timeout_ms=60_000)
    driver.add(producer)
    driver.pass_ms(59_000)
    assert driver.state.state is ONGOING
    driver.commit(producer)


def test_a_shard_without_transactions_looks_for_none() -> None:
    driver = Driver()
    driver.transaction(driver.init())
    driver.pass_ms(30_000)
    deadline_ms = driver.shard.timers.next_deadline_ms
    assert deadline_ms is not None
    assert deadline_ms >= HOUR_MS


def test_an_abort_that_is_refused_is_tried_again() -> None:
    driver = Driver()
    driver.add(driver.init(timeout_ms=1_000))
    driver.refuses = True
    driver.pass_ms(20_000)
    assert driver.endings == []
    driver.refuses = False
    driver.pass_ms(20_000)
    assert len(driver.endings) == 1


def test_a_transaction_timeout_continues_under_the_next_coordinator() -> None:
    driver = Driver()
    driver.add(driver.init(timeout_ms=1_000))
    again = driver.reloaded()
    again.pass_ms(12_000)
    assert len(again.endings) == 1


def test_a_timeout_with_an_exhausted_epoch_waits_for_a_new_id() -> None:
    driver = Driver(ids=1)
    driver.init(timeout_ms=1_000)
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH - 1)
    driver.add(Producer(1000, MAX_EPOCH - 1))
    driver.pass_ms(12_000)
    assert any(isinstance(effect, IdsWanted) for effect in driver.effects)
    assert driver.endings == []
    driver.ids.lay_by(2000)
    driver.pass_ms(200)
    assert driver.endings[0].producer_epoch == MAX_EPOCH
    driver.complete()
    assert (driver.state.producer_id, driver.state.epoch) == (2000, 0)


def test_a_timed_out_transaction_with_the_last_epoch_is_aborted_in_that_epoch() -> None:
    driver = Driver()
    driver.init(timeout_ms=1_000)
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH)
    driver.add(Producer(1000, MAX_EPOCH))
    driver.pass_ms(12_000)
    assert driver.endings[0].producer_epoch == MAX_EPOCH


def test_ids_that_nobody_uses_expire() -> None:
    driver = Driver(timeout_check_interval_ms=HOUR_MS)
    driver.init(id="unused")
    producer = driver.init()
    driver.pass_ms(WEEK_MS - HOUR_MS)
    driver.transaction(producer)
    driver.pass_ms(2 * HOUR_MS)
    assert driver.list() == ["x"]
    assert driver.reloaded().list() == ["x"]
    assert driver.init(id="unused") == Producer(1002, 0)


def test_an_id_with_a_transaction_does_not_expire() -> None:
    driver = Driver(timeout_check_interval_ms=4 * WEEK_MS)
    driver.add(driver.init())
    driver.pass_ms(2 * WEEK_MS)
    assert driver.list() == ["x"]


def test_many_ids_expire_bit_by_bit() -> None:
    driver = Driver(ids=EXPIRE_AT_ONCE + 10, timeout_check_interval_ms=HOUR_MS)
    for number in range(EXPIRE_AT_ONCE + 5):
        driver.init(id=f"id{number}")
    driver.pass_ms(WEEK_MS + HOUR_MS)
    assert driver.list() == []
