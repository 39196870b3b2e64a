"""Changes of a group's protocol that are refused, because their records cannot be written or would be too large."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cy.batch import Builder
from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer import records
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import ClassicFacts
from pybroker.coordinator.group.consumer.migration import downgrading
from pybroker.coordinator.group.consumer.tests.driver import LEAVE, Client, Driver, image_of
from pybroker.coordinator.group.consumer.tests.test_migration import ALL, Classic, classic_group, metadata
from pyclient.protocol import errors


def test_a_downgrade_that_cannot_be_written_changes_nothing() -> None:
    driver = Driver()
    old = Classic(driver, classic_group(driver), ALL)
    Client(driver, "new").come()
    driver.refuse = errors.CoordinatorNotAvailable
    assert driver.beat("new", LEAVE).code == errors.CoordinatorNotAvailable.code
    driver.refuse = None
    assert isinstance(driver.shard.groups["g"], ConsumerGroup)
    assert set(driver.consumers().members) == {old.id, "new"}
    driver.pass_ms(1)


@pytest.mark.parametrize("returns", [False, True])
def test_a_group_whose_classic_record_would_not_fit_into_a_batch_stays_a_consumer_group(returns: bool) -> None:
    driver = Driver()
    old = Classic(driver, classic_group(driver), ALL)
    driver.come("new", instance_id="i")
    driver.largest_batch = 100
    if returns:
        joined = driver.join(instance="i", protocols={"range": metadata("t")})
        assert joined.answer.error_code == 0
    else:
        assert driver.beat("new", LEAVE, instance_id="i").code == 0
    group = driver.consumers()
    assert set(group.members) == {old.id, joined.answer.member_id} if returns else {old.id}
    assert group.classic_members == len(group.members)
    for _ in range(3):
        old.beat()
    assert (old.beat(), driver.consumers().epoch) == (errors.NONE, old.generation)


def test_an_upgrade_that_cannot_be_written_changes_nothing() -> None:
    driver = Driver()
    member_id = classic_group(driver)
    driver.refuse = errors.CoordinatorNotAvailable
    assert driver.come("new").code == errors.CoordinatorNotAvailable.code
    driver.refuse = None
    assert isinstance(driver.shard.groups["g"], ClassicGroup)
    assert driver.heartbeat(member_id, 1).code == 0


def test_a_classic_join_that_cannot_be_written_leaves_no_deadline() -> None:
    driver = Driver()
    member_id = classic_group(driver)
    driver.come("new")
    driver.refuse = errors.CoordinatorNotAvailable
    for id, version in (("", 3), (member_id, 9)):
        joined = driver.join(id, protocols={"range": metadata("u")}, rebalance_ms=5_000, version=version)
        assert joined.code == errors.CoordinatorNotAvailable.code
    driver.refuse = None
    assert driver.shard.consumers.context.timeouts._sessions["g"].keys() == {member_id, "new"}
    driver.pass_ms(9_000)
    assert member_id in driver.consumers().members, "nobody waits for its sync"
    driver.pass_ms(1_001)
    assert member_id not in driver.consumers().members, "its session has ended"


def test_a_static_member_whose_wait_a_refused_upgrade_ends_is_evicted_when_it_is_silent() -> None:
    driver = Driver()
    member_id = classic_group(driver, instance="i")
    assert driver.join(session_ms=1_800_000).code == errors.MemberIdRequired.code
    waiting = driver.join(member_id, instance="i", protocols={"range": metadata("t", "u")})
    assert waiting.waits, "for the client of the reserved id"
    driver.pass_ms(11_000)
    driver.refuse = errors.CoordinatorNotAvailable
    driver.come("new")
    driver.refuse = None
    assert waiting.code == errors.CoordinatorNotAvailable.code
    driver.pass_ms(10_001)
    assert not driver.group().members


def test_the_record_of_a_classic_group_is_not_built_only_to_see_that_it_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each leaving member would take the time to copy the other members' metadata, up to 16 MB."""
    driver = Driver()
    driver.come("new")
    driver.join(protocols={"range": metadata("t" * 200), "none": b""}, version=3)
    driver.largest_batch = 200
    monkeypatch.delattr(downgrading, "_record")
    assert driver.beat("new", LEAVE).code == errors.NONE
    assert isinstance(driver.shard.groups["g"], ConsumerGroup)


@pytest.mark.parametrize(("largest", "kind"), [(22_000, ConsumerGroup), (30_000, ClassicGroup)])
def test_all_records_of_a_join_that_downgrades_a_group_fit_into_a_batch(largest: int, kind: type) -> None:
    driver = Driver(image_of(t=1000))
    member = Client(driver, "new", instance_id="i").come("u")
    driver.beat("new", member.epoch, instance_id="i", subscribed_topic_names=["t"], has={})
    written = len(driver.log)
    driver.largest_batch = largest
    assert driver.join(instance="i", protocols={"range": metadata("t")}).code == errors.NONE
    assert isinstance(driver.shard.groups["g"], kind)
    batch = Builder()
    for key, value in driver.log[written:]:
        batch.append(0, key, value)
    assert batch.size <= largest


def test_a_loaded_group_without_a_common_protocol_stays_a_consumer_group() -> None:
    driver = Driver()
    driver.come("new")
    for _ in range(2):
        assert driver.join(protocols={"x": metadata("t")}, version=3).code == errors.NONE
    *_, last = driver.consumers().members.values()
    driver.log.append(records.member_record("g", replace(last, classic=ClassicFacts(10_000, (("y", metadata("t")),)))))
    loaded = driver.again()
    assert loaded.beat("new", LEAVE).code == errors.NONE
    assert loaded.consumers().classic_members == len(loaded.consumers().members) == 2
