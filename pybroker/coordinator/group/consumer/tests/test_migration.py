"""Groups that change their protocol while members run, and members of both in one group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pybroker.coordinator.group.classic import ClassicGroup
from pybroker.coordinator.group.consumer import heartbeating, records
from pybroker.coordinator.group.consumer.group import ConsumerGroup
from pybroker.coordinator.group.consumer.member import MemberState
from pybroker.coordinator.group.consumer.settings import ConsumerSettings
from pybroker.coordinator.group.consumer.tests.driver import (
    LEAVE,
    LEAVE_STATIC,
    Client,
    Driver,
    Has,
    image_of,
)
from pybroker.coordinator.group.consumer.timeouts import Wait
from pybroker.coordinator.group.joining import Caller
from pybroker.coordinator.shard import Record
from pyclient.protocol import JoinGroup, errors
from pyclient.protocol.records import ConsumerProtocolAssignment, ConsumerProtocolSubscription

ALL = {"t": {0, 1, 2, 3}}
PART = ConsumerProtocolSubscription.TopicPartition


def metadata(*topics: str, has: Has | None = None) -> bytes:
    """Returns the subscription of a classic consumer."""
    owned = [PART(topic=topic, partitions=sorted(each)) for topic, each in (has or {}).items()]
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=owned)
    return ConsumerProtocolSubscription.encode(1, message)


def assignment(has: Has) -> bytes:
    """Returns the assignment of a leader."""
    part = ConsumerProtocolAssignment.TopicPartition
    parts = [part(topic=topic, partitions=sorted(each)) for topic, each in has.items()]
    return ConsumerProtocolAssignment.encode(1, ConsumerProtocolAssignment(assigned_partitions=parts))


def read(data: bytes) -> Has:
    """Parses an assignment as a classic consumer does."""
    message = ConsumerProtocolAssignment.decode(data)
    return {each.topic: set(each.partitions) for each in message.assigned_partitions}


def classic_group(driver: Driver, **options: Any) -> str:
    """Makes a stable classic group, whose only member has all partitions. Returns the member's id."""
    member_id, joined = driver.member(protocols={"range": metadata("t")}, **options)
    driver.pass_ms(10)
    generation = joined.answer.generation_id
    driver.sync(member_id, generation, {member_id: assignment(ALL)})
    assert driver.group().state == "Stable"
    return member_id


class Classic:
    """A classic member of a consumer group. It rejoins when its heartbeat requires it."""

    def __init__(self, driver: Driver, member_id: str, has: Has, generation: int = 1) -> None:
        self.driver = driver
        self.id = member_id
        self.has = has
        self.generation = generation

    def beat(self) -> int:
        code = self.driver.heartbeat(self.id, self.generation).code
        if code == errors.RebalanceInProgress.code:
            self.rejoin()
        return code

    def rejoin(self) -> None:
        joined = self.driver.join(self.id, protocols={"range": metadata("t", has=self.has)}).answer
        assert (joined.error_code, joined.members, joined.protocol_name) == (0, [], "range")
        self.generation = joined.generation_id
        self.has = read(self.driver.sync(self.id, self.generation).answer.assignment)


def test_the_first_consumer_upgrades_the_group_and_no_member_loses_a_partition() -> None:
    driver = Driver()
    member_id = classic_group(driver)
    new = Client(driver, "new").come()
    group = driver.consumers()
    assert (group.epoch, group.classic_members, new.has) == (2, 1, {})
    assert driver.has(member_id) == ALL
    assert driver.describe().members[0].member_type == 0


def test_classic_and_consumer_members_share_a_group() -> None:
    driver = Driver()
    old = Classic(driver, classic_group(driver), ALL)
    new = Client(driver, "new").come()
    for _ in range(6):
        old.beat()
        new.beat()
    assert driver.consumers().state == "Stable"
    assert (len(old.has["t"]), len(new.has["t"])) == (2, 2)
    assert old.has["t"] | new.has["t"] == {0, 1, 2, 3}
    assert old.beat() == errors.NONE


def test_the_group_becomes_classic_again_when_its_last_consumer_leaves() -> None:
    driver = Driver()
    old = Classic(driver, classic_group(driver), ALL)
    driver.commit({("t", 0): 5}, old.id, 1)
    new = Client(driver, "new").come()
    for _ in range(6):
        old.beat()
        new.beat()
    driver.beat("new", LEAVE)
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state == "PreparingRebalance"
    assert driver.heartbeat(old.id, group.generation).code == errors.RebalanceInProgress.code
    joined = driver.join(old.id, protocols={"range": metadata("t")}).answer
    assert joined.leader == old.id
    driver.sync(old.id, joined.generation_id, {old.id: assignment(ALL)})
    assert group.state == "Stable"
    assert driver.committed() == {("t", 0): 5}
    loaded = driver.again().shard.groups["g"]
    assert isinstance(loaded, ClassicGroup)
    assert loaded.generation == joined.generation_id


def test_a_downgraded_group_is_loaded_with_the_partitions_of_its_members() -> None:
    driver = Driver()
    old = Classic(driver, classic_group(driver), ALL)
    new = Client(driver, "new").come()
    for _ in range(6):
        old.beat()
        new.beat()
    driver.beat("new", LEAVE)
    loaded = driver.again()
    group = loaded.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    [member] = group.members
    assert read(member.assignment) == old.has


def test_members_in_a_classic_rebalance_keep_waiting_if_an_upgrade_is_refused() -> None:
    driver = Driver()
    member_id = classic_group(driver)
    other = driver.join(protocols={"range": metadata("t")}, version=3)
    assert driver.come("x", subscribed_topic_regex="(").code == errors.InvalidRegularExpression.code
    assert other.waits
    leader = driver.join(member_id, protocols={"range": metadata("t")})
    assert leader.code == other.code == errors.NONE
    synced = driver.sync(other.answer.member_id, leader.answer.generation_id)
    assert driver.come("x", subscribed_topic_regex="(").code == errors.InvalidRegularExpression.code
    assert synced.waits
    driver.sync(member_id, leader.answer.generation_id, {member_id: assignment(ALL)})
    assert synced.code == errors.NONE
    assert not driver.shard.consumers.context.timeouts._sessions


def test_members_in_a_classic_rebalance_keep_waiting_if_the_group_is_too_full_to_upgrade() -> None:
    driver = Driver(settings=ConsumerSettings(max_size=2))
    member_id = classic_group(driver)
    other = driver.join(protocols={"range": metadata("t")}, version=3)
    assert driver.come("x").code == errors.GroupMaxSizeReached.code
    assert other.waits
    assert driver.join(member_id, protocols={"range": metadata("t")}).code == errors.NONE
    assert other.code == errors.NONE


def test_members_in_a_classic_rebalance_must_join_again_after_an_upgrade() -> None:
    driver = Driver()
    member_id = classic_group(driver)
    _, joining = driver.member(protocols={"range": metadata("t")})
    assert joining.waits
    assert driver.come("new").code == 0
    assert joining.code == errors.RebalanceInProgress.code
    assert len(driver.consumers().members) == 3
    assert member_id in driver.consumers().members


@pytest.mark.parametrize(
    "settings", [ConsumerSettings(may_upgrade=False), ConsumerSettings(max_size=0)]
)
def test_a_group_that_may_not_be_upgraded_stays_classic(settings: ConsumerSettings) -> None:
    driver = Driver(settings=settings)
    classic_group(driver)
    assert driver.come("new").code == errors.GroupIdNotFound.code
    assert isinstance(driver.shard.groups["g"], ClassicGroup)


def test_a_group_of_another_type_or_of_a_custom_assignor_is_not_upgraded() -> None:
    driver = Driver()
    driver.member(protocol_type="connect", protocols={"x": b""}, group="workers")
    driver.pass_ms(10)
    assert driver.come("new", group="workers").code == errors.GroupIdNotFound.code
    member_id, joined = driver.member(protocols={"mine": metadata("t")})
    driver.pass_ms(10)
    own = ConsumerProtocolAssignment.encode(1, ConsumerProtocolAssignment(user_data=b"mine"))
    driver.sync(member_id, joined.answer.generation_id, {member_id: own})
    assert driver.come("new").code == errors.GroupIdNotFound.code


def test_classic_members_may_join_a_consumer_group() -> None:
    driver = Driver()
    new = Client(driver, "new").come()
    asked = driver.join(protocols={"range": metadata("t")})
    assert asked.code == errors.MemberIdRequired.code
    old = Classic(driver, asked.answer.member_id, {})
    old.rejoin()
    for _ in range(6):
        new.beat()
        old.beat()
    assert old.has["t"] | new.has["t"] == {0, 1, 2, 3}
    assert driver.consumers().state == "Stable"


def test_a_classic_member_that_repeats_a_protocol_supports_it_once() -> None:
    """Otherwise members without a common protocol could join, and the last other member could not leave."""
    driver = Driver()
    driver.come("new")
    protocol = JoinGroup.Request.JoinGroupRequestProtocol

    def join(*names: str) -> int:
        request = JoinGroup.Request(
            group_id="g",
            session_timeout_ms=45_000,
            protocol_type="consumer",
            protocols=[protocol(name=name, metadata=metadata("t")) for name in names],
        )
        return driver.send(lambda result: driver.shard.join(request, Caller(0, "c", "h"), result)).code

    assert (join("x", "x", "y"), join("y")) == (errors.NONE, errors.NONE)
    assert join("x") == errors.InconsistentGroupProtocol.code
    assert driver.beat("new", LEAVE).code == errors.NONE
    assert isinstance(driver.shard.groups["g"], ClassicGroup)


def test_classic_members_may_not_join_where_migration_is_off_or_protocols_differ() -> None:
    off = Driver(settings=ConsumerSettings(may_upgrade=False, may_downgrade=False))
    off.come("new")
    inconsistent = errors.InconsistentGroupProtocol.code
    assert off.join(protocols={"range": metadata("t")}).code == inconsistent
    driver = Driver()
    driver.come("new")
    assert driver.join(protocol_type="connect", protocols={"x": b""}).code == inconsistent
    first = driver.join(protocols={"range": metadata("t")}).answer.member_id
    driver.join(first, protocols={"range": metadata("t")})
    assert driver.join(protocols={"sticky": metadata("t")}).code == inconsistent


def test_a_classic_member_that_does_not_join_or_sync_in_time_is_evicted() -> None:
    driver = Driver()
    old = Classic(driver, classic_group(driver, rebalance_ms=20_000, session_ms=30_000), ALL)
    Client(driver, "new").come()
    assert driver.heartbeat(old.id, 1).code == errors.RebalanceInProgress.code
    driver.pass_ms(19_999)
    assert old.id in driver.consumers().members
    driver.pass_ms(2)
    assert old.id not in driver.consumers().members


def test_a_wrong_generation_or_member_of_the_other_protocol_is_refused() -> None:
    driver = Driver()
    member_id = classic_group(driver)
    driver.come("new")
    assert driver.heartbeat(member_id, 9).code == errors.IllegalGeneration.code
    assert driver.sync(member_id, 9).code == errors.IllegalGeneration.code
    assert driver.heartbeat("new", 2).code == errors.UnknownMemberId.code
    assert driver.sync("new", 2).code == errors.UnknownMemberId.code
    assert driver.sync(member_id, 1).code == errors.RebalanceInProgress.code


def test_members_of_both_protocols_leave_by_leave_group() -> None:
    driver = Driver()
    member_id = classic_group(driver)
    driver.come("new")
    driver.come("static", instance_id="i")
    outcomes = driver.leave(("nobody", None), (member_id, None), ("", "i")).answer
    assert [each.error_code for each in outcomes] == [errors.UnknownMemberId.code, 0, 0]
    assert set(driver.consumers().members) == {"new"}


def test_an_empty_group_takes_the_protocol_of_the_next_member() -> None:
    driver = Driver()
    driver.come("new")
    driver.beat("new", LEAVE)
    driver.commit({("t", 0): 3})
    assert driver.join(protocols={"range": metadata("t")}).code == errors.MemberIdRequired.code
    classic_group(driver)
    assert driver.committed() == {("t", 0): 3}
    driver.leave((next(iter(driver.group().members)).id, None))
    assert driver.come("again").answer.member_epoch == 2
    assert driver.committed() == {("t", 0): 3}
    assert isinstance(driver.again().shard.groups["g"], ConsumerGroup)


def test_an_empty_group_that_cannot_be_deleted_keeps_its_protocol() -> None:
    driver = Driver()
    driver.come("new")
    driver.beat("new", LEAVE)
    driver.refuse = errors.CoordinatorNotAvailable
    assert driver.join(protocols={"range": metadata("t")}).code != errors.NONE
    driver.refuse = None
    assert driver.consumers().state == "Empty"


def test_an_empty_consumer_group_stays_one_if_a_classic_join_is_refused() -> None:
    driver = Driver()
    driver.come("new")
    driver.beat("new", LEAVE)
    refused = driver.join(protocols={})
    assert refused.code == errors.InconsistentGroupProtocol.code
    assert driver.consumers().epoch == driver.again().consumers().epoch == 3
    assert driver.come("again").answer.member_epoch == 4


def test_a_static_consumer_that_returns_as_a_classic_member_downgrades_its_group() -> None:
    driver = Driver()
    driver.come("one", instance_id="i")
    driver.beat("one", LEAVE_STATIC, instance_id="i")
    joined = driver.join(instance="i", protocols={"range": metadata("t")}).answer
    assert joined.error_code == 0
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state == "Stable"
    assert driver.heartbeat(joined.member_id, joined.generation_id, instance="i").code == 0
    data = driver.sync(joined.member_id, joined.generation_id, group_instance_id="i").answer
    assert read(data.assignment) == ALL
    assert isinstance(driver.again().shard.groups["g"], ClassicGroup)


def test_a_static_classic_member_that_comes_back_as_a_consumer_keeps_its_partitions() -> None:
    driver = Driver(image_of(t=4))
    classic_group(driver, instance="i")
    back = Client(driver, "new", instance_id="i").come()
    assert back.has == ALL
    assert driver.consumers().classic_members == 0


def test_a_static_member_stays_if_the_join_of_its_replacement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a member without a client would keep the partitions, and its session would never end."""
    driver = Driver()
    member_id = classic_group(driver, instance="i")
    Client(driver, "new").come()
    group, written = driver.consumers(), len(driver.log)
    monkeypatch.setattr(heartbeating, "MOST_BYTES", group.size)
    refused = driver.join(instance="i", protocols={"range": metadata("t", "u" * 200)})
    assert (refused.code, refused.answer.member_id) == (errors.GroupMaxSizeReached.code, "")
    assert len(driver.log) == written
    assert group.static == {"i": member_id}
    assert driver.heartbeat(member_id, 1, instance="i").code == errors.RebalanceInProgress.code


def test_the_bytes_of_members_are_counted_in_both_protocols() -> None:
    driver = Driver()
    old = classic_group(driver)
    before = driver.group().members.size
    Client(driver, "new").come()
    group = driver.consumers()
    assert group.size == sum(member.size for member in group.members.values()) > before
    driver.beat("new", LEAVE)
    assert driver.group().members.size == before
    driver.leave((old, None))
    assert driver.group().members.size == 0


def test_a_rebalance_no_longer_waits_for_a_replaced_static_member() -> None:
    """Otherwise each return would take memory for the rebalance timeout, which a client may set to weeks."""
    driver = Driver()
    classic_group(driver, instance="i")
    driver.come("new")
    driver.come("one", instance_id="j")
    for _ in range(3):
        joined = driver.join(instance="i", protocols={"range": metadata("t")}, rebalance_ms=2**31 - 1)
        driver.beat(driver.consumers().static["j"], LEAVE_STATIC, instance_id="j")
        assert driver.come(f"j-{driver.ids}", instance_id="j").code == 0
    timeouts = driver.shard.consumers.context.timeouts
    assert timeouts._sessions["g"].keys() == driver.consumers().members.keys()
    assert timeouts._others.keys() == {("g", joined.answer.member_id, Wait.SYNC)}


def test_a_rebalance_no_longer_waits_for_a_static_member_that_an_upgrade_replaced() -> None:
    driver = Driver()
    classic_group(driver, instance="i", session_ms=1_800_000)
    assert driver.come("new", instance_id="i").code == 0
    assert driver.shard.consumers.context.timeouts._sessions["g"].keys() == {"new"}


def test_a_static_member_whose_replacement_cannot_be_written_is_evicted_when_it_is_silent() -> None:
    driver = Driver()
    driver.come("one", instance_id="i")
    driver.beat("one", LEAVE_STATIC, instance_id="i")
    for _ in range(3):
        driver.refuse = errors.CoordinatorNotAvailable
        assert driver.come("two", instance_id="i").code == errors.CoordinatorNotAvailable.code
        driver.refuse = None
        assert driver.consumers().static == {"i": "one"}
        driver.pass_ms(15_001)
    assert not driver.consumers().members


def test_reserved_ids_of_a_group_that_changes_its_protocol_are_no_longer_counted() -> None:
    driver = Driver()
    reserved = driver.shard.context.reserved
    for group in ("empty", "g"):
        driver.join(group=group, protocols={"range": metadata("t")})
    assert len(reserved) == 2
    driver.come(group="empty")
    assert len(reserved) == 1
    classic_group(driver)
    driver.come()
    assert isinstance(driver.shard.groups["g"], ConsumerGroup)
    assert not reserved


@pytest.mark.parametrize("leaves", [True, False])
def test_a_consumer_group_replaced_by_a_classic_group_leaves_no_state(leaves: bool) -> None:
    """Otherwise a client that may write any group fills the memory."""
    driver = Driver()
    driver.come(subscribed_topic_regex="t.*")
    driver.do_effects()
    if leaves:
        driver.beat("m", LEAVE)
    else:
        driver.pass_ms(45_000)
    reserved = driver.join().answer.member_id
    driver.leave((reserved, None))
    assert not driver.shard.groups
    context = driver.shard.consumers.context
    assert not context.resolved_at
    assert not context.timeouts._sessions
    assert not context.timeouts._others


def test_a_cooperative_member_keeps_its_partitions_through_a_failed_rebalance() -> None:
    driver = Driver()
    protocols = {"cooperative-sticky": metadata("t", has=ALL)}
    first, joined = driver.member(protocols=protocols)
    driver.pass_ms(10)
    assert joined.answer.generation_id == 1
    driver.member(protocols={"cooperative-sticky": metadata("t")})
    assert driver.group().state == "PreparingRebalance"
    new = Client(driver, "new").come()
    assert new.has == {}
    assert driver.has(first) == ALL


def test_members_of_a_group_with_an_unreadable_record_join_again() -> None:
    driver = Driver()
    Client(driver, "m").come()
    key, _ = records.member_record("g", driver.consumers().members["m"])
    driver.log.append(Record(key, b"\x00\x63"))
    after = driver.again()
    assert not after.consumers().members
    assert after.beat("m", 1).code == errors.UnknownMemberId.code
    assert Client(after, "m").come().has == ALL
    assert not after.again().shard.consumers._doubtful


def test_a_refused_heartbeat_does_not_delay_the_resolution_of_expressions() -> None:
    driver = Driver()
    Client(driver, "m").come()
    member = driver.consumers().members["m"]
    driver.log.append(records.current_record("g", replace(member, state=MemberState.UNKNOWN)))
    after = driver.again()
    refused = after.beat("m", member.epoch, has={"t": {0}}, subscribed_topic_regex="t.*")
    assert refused.code == errors.FencedMemberEpoch.code
    after.effects.clear()
    after.come("n", subscribed_topic_regex="t.*")
    after.do_effects()
    assert after.consumers().subscriptions.resolved["t.*"].topics == {"t"}
