"""InitProducerId: fencing, resuming, exhausted epochs (semantic 34, faults 33 and 35)."""

from __future__ import annotations

import pytest

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.state import COMPLETE_ABORT, EMPTY, PREPARE_ABORT
from pybroker.coordinator.txn.tests.driver import A, Driver
from pybroker.coordinator.txn.transaction import MAX_EPOCH
from pyclient.protocol import errors


def test_the_first_owner_gets_epoch_0_of_a_new_id() -> None:
    driver = Driver()
    assert driver.init() == Producer(1000, 0)
    assert driver.init(id="y") == Producer(1001, 0)


def test_taking_over_bumps_the_epoch_and_fences_the_owner_before() -> None:
    driver = Driver()
    zombie = driver.init()
    assert driver.init() == Producer(1000, 1)
    with pytest.raises(errors.ProducerFenced):
        driver.add(zombie)
    with pytest.raises(errors.ProducerFenced):
        driver.commit(zombie)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    with pytest.raises(errors.InvalidTransactionTimeout):
        Driver().init(timeout_ms=timeout_ms)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_taking_over_aborts_the_open_transaction(level: int) -> None:
    driver = Driver(level=level)
    zombie = driver.init()
    driver.add(zombie, version=level)
    with pytest.raises(errors.ConcurrentTransactions):
        driver.init()
    [ending] = driver.endings
    assert (ending.committed, ending.producer_epoch, ending.partitions) == (False, 1, {A})
    assert driver.state.state is PREPARE_ABORT
    with pytest.raises(errors.ConcurrentTransactions):
        driver.init()
    driver.complete()
    assert driver.state.state is COMPLETE_ABORT
    assert driver.init() == Producer(1000, 2)
    with pytest.raises(errors.ProducerFenced):
        driver.add(zombie)


def test_a_producer_with_its_current_epoch_continues_in_the_next() -> None:
    driver = Driver()
    producer = driver.init()
    assert driver.init(producer) == Producer(1000, 1)


def test_a_repeated_resumption_has_the_same_outcome() -> None:
    driver = Driver()
    producer = driver.init()
    assert driver.init(producer) == driver.init(producer) == Producer(1000, 1)


def test_a_resumption_after_a_takeover_is_fenced() -> None:
    driver = Driver()
    producer = driver.init()
    driver.init()
    with pytest.raises(errors.ProducerFenced):
        driver.init(producer)


def test_a_resumption_with_another_id_is_fenced() -> None:
    driver = Driver()
    driver.init()
    with pytest.raises(errors.ProducerFenced):
        driver.init(Producer(7, 0))


def test_an_id_that_has_expired_starts_again_for_a_producer_that_resumes() -> None:
    assert Driver().init(Producer(7, 3)) == Producer(1000, 0)


def test_an_exhausted_epoch_leads_to_a_new_id() -> None:
    driver = Driver()
    driver.init()
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH - 1)
    assert driver.init() == Producer(1001, 0)


def test_a_repeated_resumption_over_an_exhausted_epoch_has_the_same_outcome() -> None:
    driver = Driver()
    driver.init()
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH - 1)
    producer = Producer(1000, MAX_EPOCH - 1)
    assert driver.init(producer) == driver.init(producer) == Producer(1001, 0)


def test_an_older_epoch_does_not_resume_over_an_exhausted_one() -> None:
    driver = Driver()
    driver.init()
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH - 1)
    with pytest.raises(errors.ProducerFenced):
        driver.init(Producer(1000, 5))


def test_a_refused_write_fences_no_producer() -> None:
    driver = Driver()
    producer = driver.init()
    driver.refuses = True
    with pytest.raises(errors.CoordinatorNotAvailable):
        driver.init()
    driver.refuses = False
    driver.add(producer)
    assert driver.commit(producer) == Producer(1000, 1)


def test_an_id_survives_a_reload() -> None:
    driver = Driver()
    producer = driver.init()
    again = driver.reloaded()
    assert (again.state.producer_id, again.state.epoch, again.state.state) == (*producer, EMPTY)
    assert again.state.timeout_ms == driver.state.timeout_ms
