"""EndTxn (semantics 35 and 36, faults 37 and 38)."""

from __future__ import annotations

import pytest

from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.shard import NOBODY
from pybroker.coordinator.txn.state import COMPLETE_ABORT, COMPLETE_COMMIT, PREPARE_COMMIT
from pybroker.coordinator.txn.tests.driver import A, B, Driver
from pybroker.coordinator.txn.transaction import MAX_EPOCH, NO_ID
from pyclient.protocol import errors

BOTH = pytest.mark.parametrize("committed", [True, False])


@BOTH
def test_v1_ends_in_the_same_epoch_and_returns_no_producer(committed: bool) -> None:
    driver = Driver(level=0)
    producer = driver.init()
    driver.add(producer, A, B, version=0)
    assert driver.end(producer, committed, version=0) == NOBODY
    [ending] = driver.endings
    assert ending == ("x", 1000, 0, committed, 0, {A, B})
    driver.complete()
    assert driver.state.state is (COMPLETE_COMMIT if committed else COMPLETE_ABORT)
    driver.add(producer, version=0)


@BOTH
def test_v2_continues_in_the_epoch_of_the_marker(committed: bool) -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer)
    assert driver.end(producer, committed) == Producer(1000, 1)
    assert driver.endings == [("x", 1000, 1, committed, 2, {A})]
    driver.complete()
    assert driver.state.epoch == 1
    assert not driver.state.partitions


@pytest.mark.parametrize("version", [0, 2])
@BOTH
def test_a_retry_in_the_state_that_it_led_to_succeeds(version: int, committed: bool) -> None:
    driver = Driver(level=version)
    producer = driver.init()
    following = driver.transaction(producer, committed, version=version)
    written = len(driver.log)
    assert driver.end(producer, committed, version=version) == (following if version else NOBODY)
    assert len(driver.log) == written


@pytest.mark.parametrize("version", [0, 2])
@BOTH
def test_a_retry_while_markers_are_written_is_told_to_wait(version: int, committed: bool) -> None:
    driver = Driver(level=version)
    producer = driver.init()
    driver.add(producer, version=version)
    driver.end(producer, committed, version=version)
    with pytest.raises(errors.ConcurrentTransactions):
        driver.end(producer, committed, version=version)
    with pytest.raises(errors.ConcurrentTransactions):
        driver.end(producer, not committed, version=version)


def test_a_producer_that_ends_the_next_transaction_while_markers_are_written_has_to_wait() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer)
    following = driver.commit(producer)
    with pytest.raises(errors.ConcurrentTransactions):
        driver.abort(following)
    driver.complete()
    assert driver.abort(following) == Producer(1000, 2)


@pytest.mark.parametrize("version", [0, 2])
@BOTH
def test_an_end_with_the_other_outcome_is_not_a_retry(version: int, committed: bool) -> None:
    driver = Driver(level=version)
    producer = driver.init()
    driver.transaction(producer, committed, version=version)
    with pytest.raises(errors.InvalidTxnState):
        driver.end(producer, not committed, version=version)


@pytest.mark.parametrize("version", [0, 2])
def test_a_commit_of_nothing_is_refused(version: int) -> None:
    driver = Driver(level=version)
    producer = driver.init()
    with pytest.raises(errors.InvalidTxnState):
        driver.commit(producer, version=version)


def test_v1_refuses_an_abort_of_nothing() -> None:
    driver = Driver(level=0)
    producer = driver.init()
    with pytest.raises(errors.InvalidTxnState):
        driver.abort(producer, version=0)


def test_v2_aborts_a_transaction_that_never_began() -> None:
    driver = Driver()
    producer = driver.init()
    following = driver.abort(producer)
    assert following == Producer(1000, 1)
    assert driver.endings == [("x", 1000, 1, False, 2, frozenset())]
    driver.complete()
    following = driver.transaction(following)
    assert driver.abort(following) == Producer(1000, 3)


def test_v2_refuses_a_second_commit() -> None:
    driver = Driver()
    following = driver.transaction(driver.init())
    with pytest.raises(errors.InvalidTxnState):
        driver.commit(following)


@BOTH
def test_an_end_that_comes_after_the_next_begin_is_rejected_by_its_epoch(committed: bool) -> None:
    """Fault 38: the delayed request must not end the next transaction."""
    driver = Driver()
    producer = driver.init()
    following = driver.transaction(producer, committed)
    driver.add(following)
    with pytest.raises(errors.ProducerFenced):
        driver.end(producer, committed)
    assert len(driver.endings) == 1


@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_id_is_refused(version: int) -> None:
    driver = Driver(level=version)
    driver.init()
    with pytest.raises(errors.InvalidProducerIdMapping):
        driver.commit(Producer(5, 0), version=version)
    with pytest.raises(errors.InvalidProducerIdMapping):
        driver.commit(Producer(5, 0), version=version, id="unknown")


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("epoch", [0, 2])
def test_another_epoch_is_fenced(version: int, epoch: int) -> None:
    driver = Driver(level=version)
    driver.init()
    producer = driver.init()
    driver.add(producer, version=version)
    with pytest.raises(errors.ProducerFenced):
        driver.commit(Producer(producer.id, epoch), version=version)


@BOTH
def test_an_exhausted_epoch_ends_in_a_new_id(committed: bool) -> None:
    driver = Driver()
    driver.init()
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH - 1)
    last = Producer(1000, MAX_EPOCH - 1)
    driver.add(last)
    assert driver.end(last, committed) == Producer(1001, 0)
    [ending] = driver.endings
    assert (ending.producer_id, ending.producer_epoch) == (1000, MAX_EPOCH)
    assert (driver.state.producer_id, driver.state.next_producer_id) == (1000, 1001)
    driver.complete()
    assert (driver.state.producer_id, driver.state.epoch) == (1001, 0)
    assert driver.state.next_producer_id == NO_ID
    assert driver.end(last, committed) == Producer(1001, 0)
    driver.transaction(Producer(1001, 0))


def test_the_new_id_of_an_exhausted_one_survives_a_reload() -> None:
    driver = Driver()
    driver.init()
    driver.shard.transactions["x"] = driver.state._replace(epoch=MAX_EPOCH - 1)
    last = Producer(1000, MAX_EPOCH - 1)
    driver.add(last)
    driver.commit(last)
    again = driver.reloaded(ids=0)
    assert again.endings == driver.endings
    again.complete()
    assert again.commit(last) == Producer(1001, 0)


def test_an_ending_is_completed_once() -> None:
    driver = Driver()
    following = driver.transaction(driver.init())
    driver.add(following)
    written = len(driver.log)
    driver.complete()
    assert len(driver.log) == written


def test_the_next_coordinator_completes_a_prepared_transaction() -> None:
    """Fault 36: the coordinator is killed between Prepare and the markers."""
    driver = Driver()
    producer = driver.init()
    driver.add(producer, A, B)
    driver.commit(producer)
    again = driver.reloaded()
    assert again.state.state is PREPARE_COMMIT
    assert again.endings == driver.endings
    again.complete()
    assert again.state.state is COMPLETE_COMMIT
    assert again.reloaded().endings == []


def test_a_refused_write_ends_nothing() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer)
    driver.refuses = True
    with pytest.raises(errors.CoordinatorNotAvailable):
        driver.commit(producer)
    driver.refuses = False
    assert driver.endings == []
    assert driver.abort(producer) == Producer(1000, 1)
