"""Offsets committed in transactions: when they take effect, and which reads wait for them (KIP-447)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pybroker.coordinator.group.offsets import UNSTABLE
from pybroker.coordinator.group.shard import OffsetsAsked
from pybroker.coordinator.group.tests.driver import QUICK, Driver
from pybroker.coordinator.shard import Producer
from pyclient.protocol import errors

FIRST = Producer(7, 0)
OTHER = Producer(8, 0)


def test_an_offset_counts_when_its_transaction_is_committed() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    assert driver.committed() == {}
    driver.end(FIRST, committed=True)
    assert driver.committed() == {("t", 0): 5}
    assert Driver(log=driver.log).committed() == {("t", 0): 5}


def test_an_offset_of_an_aborted_transaction_never_counts() -> None:
    driver = Driver()
    driver.commit({("t", 0): 3})
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    driver.end(FIRST, committed=False)
    assert driver.committed(stable=True) == {("t", 0): 3}
    assert Driver(log=driver.log).committed() == {("t", 0): 3}


def test_a_client_that_wants_stable_offsets_has_to_wait_for_the_transaction() -> None:
    driver = Driver()
    driver.commit({("t", 0): 3, ("t", 1): 4})
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    assert driver.committed(stable=True) == {("t", 0): "?", ("t", 1): 4}
    assert driver.committed() == {("t", 0): 3, ("t", 1): 4}
    driver.end(FIRST, committed=True)
    assert driver.committed(stable=True) == {("t", 0): 5, ("t", 1): 4}


def test_an_offset_that_is_asked_by_name_is_unstable_before_it_was_ever_committed() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    asked = OffsetsAsked("g", [("t", [0, 1])], True)
    [(_, offsets)] = driver.send(lambda result: driver.shard.fetch(asked, result)).answer
    assert offsets[0] is UNSTABLE
    assert offsets[1].offset == -1


def test_a_loaded_shard_knows_which_transactions_are_open() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    driver.commit_in_transaction({("t", 0): 6}, OTHER)
    loaded = Driver(log=driver.log)
    loaded.end(FIRST, committed=True)
    asked = OffsetsAsked("g", [("t", [0])], True)
    [(_, offsets)] = loaded.send(lambda result: loaded.shard.fetch(asked, result)).answer
    assert offsets[0] is UNSTABLE
    loaded.end(OTHER, committed=True)
    assert loaded.committed(stable=True) == {("t", 0): 6}


def test_the_offset_that_was_written_last_counts_whatever_the_order_of_markers() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    driver.commit_in_transaction({("t", 0): 6}, OTHER)
    driver.end(OTHER, committed=True)
    driver.end(FIRST, committed=True)
    assert driver.committed() == {("t", 0): 6}
    driver.commit_in_transaction({("t", 0): 7}, FIRST)
    driver.commit({("t", 0): 8})
    driver.end(FIRST, committed=True)
    assert driver.committed() == {("t", 0): 8}
    assert Driver(log=driver.log).committed() == {("t", 0): 8}


def test_a_marker_of_the_next_epoch_ends_the_transaction_too() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST, version=5)
    driver.end(Producer(7, 1), committed=True)
    assert driver.committed(stable=True) == {("t", 0): 5}


def test_a_deleted_group_loses_its_pending_offsets() -> None:
    driver = Driver()
    driver.commit({("t", 0): 3})
    driver.commit_in_transaction({("t", 0): 5, ("u", 0): 6}, FIRST)
    assert driver.delete().code == errors.NONE
    driver.end(FIRST, committed=True)
    assert driver.committed() == {}
    assert Driver(log=driver.log).committed() == {}


def test_deleted_offsets_are_not_brought_back_by_a_commit() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    driver.delete_offsets("t")
    driver.end(FIRST, committed=True)
    assert driver.committed() == {}


def test_offsets_of_deleted_topics_are_not_brought_back_by_a_commit() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5, ("u", 0): 6}, FIRST)
    driver.send(lambda result: driver.shard.forget_topics({"t": bytes(16)}, result))
    driver.end(FIRST, committed=True)
    assert driver.committed() == {("u", 0): 6}


def test_pending_offsets_do_not_expire_and_keep_their_group() -> None:
    driver = Driver(replace(QUICK, offsets_retention_ms=100, offsets_check_interval_ms=1_000))
    driver.commit({("t", 0): 3, ("t", 1): 3})
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    driver.commit_in_transaction({("t", 0): 5}, OTHER, group="h")
    driver.pass_ms(2_000)
    assert driver.committed() == {("t", 0): 3}
    assert set(driver.shard.groups) == {"g", "h"}
    for producer in (FIRST, OTHER):
        driver.end(producer, committed=False)
    driver.pass_ms(2_000)
    assert driver.shard.groups == {}


def test_members_must_be_of_the_generation_that_they_name() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    offsets = {("t", 0): 5}
    codes = [
        driver.commit_in_transaction(offsets, FIRST, *who).code
        for who in [(member, 1), (member, 2), ("nobody", 1), ("", 1), (member, -1)]
    ]
    assert codes == [
        errors.NONE,
        errors.IllegalGeneration.code,
        errors.UnknownMemberId.code,
        errors.UnknownMemberId.code,
        errors.IllegalGeneration.code,
    ]


def test_a_fenced_static_member_cannot_commit() -> None:
    driver = Driver()
    [member] = driver.stable(1, instance="i")
    offsets = {("t", 0): 5}
    driver.join(instance="i")
    fenced = driver.commit_in_transaction(offsets, FIRST, member, 1, instance="i")
    assert fenced.code == errors.FencedInstanceId.code
    unknown = driver.commit_in_transaction(offsets, FIRST, member, 1, instance="j")
    assert unknown.code == errors.UnknownMemberId.code


def test_old_clients_may_commit_to_a_group_with_members_without_naming_one() -> None:
    driver = Driver()
    driver.stable(1)
    assert driver.commit_in_transaction({("t", 0): 5}, FIRST, version=0).code == errors.NONE
    assert driver.commit({("t", 0): 5}).code == errors.UnknownMemberId.code


def test_a_rebalance_does_not_stop_a_transaction() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.join(member, protocols={"range": b"new"})
    generation = driver.group().generation
    assert driver.commit({("t", 0): 5}, member, generation).code == errors.RebalanceInProgress.code
    held = driver.commit_in_transaction({("t", 0): 5}, FIRST, member, generation)
    assert held.code == errors.NONE


@pytest.mark.parametrize(("version", "error"), [(5, errors.IllegalGeneration), (6, errors.GroupIdNotFound)])
def test_a_generation_of_a_group_that_is_gone_is_refused(version: int, error: type[errors.KafkaError]) -> None:
    driver = Driver()
    gone = driver.commit_in_transaction({("t", 0): 5}, FIRST, "m", 3, version=version)
    assert gone.code == error.code


def test_too_long_metadata_is_refused_and_nothing_is_held() -> None:
    driver = Driver()
    ticket = driver.commit_in_transaction({("t", 0): 5}, FIRST, metadata="x" * 4_097)
    [topic] = ticket.answer.topics
    assert topic.partitions[0].error_code == errors.OffsetMetadataTooLarge.code
    assert driver.log == []


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(("bumps", "marker_epoch"), [(False, 0), (False, 1), (True, 1)])
def test_a_verified_transaction_must_be_verified_again_after_its_end(
    committed: bool, bumps: bool, marker_epoch: int
) -> None:
    driver = Driver()
    guard = driver.shard.guard(FIRST, bumps_epochs=bumps)
    driver.end(Producer(FIRST.id, marker_epoch), committed=committed)
    late = driver.commit_in_transaction({("t", 0): 5}, FIRST, guard=guard)
    assert late.code == errors.InvalidTxnState.code
    assert driver.committed(stable=True) == {}


def test_the_marker_of_the_transaction_before_does_not_end_the_next_one() -> None:
    """With transactions v2, the marker of epoch 0 has epoch 1, in which the next transaction has already begun."""
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST, version=5)
    following = Producer(FIRST.id, 1)
    guard = driver.shard.guard(following, bumps_epochs=True)
    driver.end(following, committed=True)
    held = driver.commit_in_transaction({("t", 0): 6}, following, guard=guard, version=5)
    assert held.code == errors.NONE
    assert driver.committed() == {("t", 0): 5}
    driver.end(Producer(FIRST.id, 2), committed=True)
    assert driver.committed() == {("t", 0): 6}


def test_an_open_transaction_needs_no_admission_but_another_epoch_does() -> None:
    driver = Driver()
    driver.commit_in_transaction({("t", 0): 5}, FIRST)
    assert driver.shard.guard(FIRST, bumps_epochs=False) is None
    assert driver.shard.guard(Producer(7, 1), bumps_epochs=False) is not None


def test_guards_are_forgotten_with_their_requests() -> None:
    driver = Driver()
    for number in range(100):
        producer = Producer(number, 0)
        guard = driver.shard.guard(producer, bumps_epochs=True)
        assert guard is not None
        driver.shard.drop_guard(producer, guard)
    assert driver.shard._guards == {}
