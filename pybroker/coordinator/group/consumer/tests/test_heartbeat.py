"""ConsumerGroupHeartbeat: which members may join, epochs, and assignments in the response."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pybroker.coordinator.group.consumer import heartbeating
from pybroker.coordinator.group.consumer.heartbeating import MOST_NAMES
from pybroker.coordinator.group.consumer.settings import ConsumerSettings, Pace
from pybroker.coordinator.group.consumer.tests.driver import (
    LEAVE,
    LEAVE_STATIC,
    Client,
    Driver,
    image_of,
    settle,
)
from pyclient.protocol import errors

ALL = {"t": {0, 1, 2, 3}}


def test_the_first_member_gets_all_partitions_at_once() -> None:
    driver = Driver()
    answer = driver.come()
    assert answer.answer.member_epoch == 2
    assert answer.answer.heartbeat_interval_ms == 5_000
    assert driver.told(answer) == ALL
    assert driver.consumers().state == "Stable"


def test_the_topics_that_members_list_are_limited_for_a_member_and_for_its_group() -> None:
    driver = Driver()
    names = [f"topic-{number}" for number in range(MOST_NAMES + 1)]
    assert driver.come("m", *names).code == errors.InvalidRequest.code
    assert not driver.shard.groups
    assert not driver.come("m", *names[:-1]).code
    assert not driver.come("n", *names[:-1]).code
    before = len(driver.log)
    assert driver.come("o", names[-1]).code == errors.InvalidRequest.code
    assert len(driver.log) == before
    assert set(driver.consumers().members) == {"m", "n"}


def test_an_unchanged_heartbeat_is_answered_without_an_assignment_and_writes_nothing() -> None:
    driver = Driver()
    driver.come()
    before = len(driver.log)
    answer = driver.beat("m", 2)
    assert (answer.answer.member_id, answer.answer.member_epoch) == ("m", 2)
    assert driver.told(answer) is None
    assert len(driver.log) == before


def test_a_full_heartbeat_is_answered_with_the_assignment() -> None:
    driver = Driver()
    driver.come()
    answer = driver.beat(
        "m", 2, has=ALL, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"]
    )
    assert driver.told(answer) == ALL


def test_a_member_revokes_partitions_before_another_gets_them() -> None:
    driver = Driver()
    one = Client(driver, "one").come()
    other = Client(driver, "other").come()
    assert other.has == {}
    one.beat()
    assert one.epoch == 2
    assert len(one.has["t"]) == 2
    other.beat()
    assert other.has == {}, "the first one has not said that it has given anything back"
    one.beat()
    assert one.epoch == 3
    other.beat()
    assert one.has["t"] | other.has["t"] == {0, 1, 2, 3}
    assert not one.has["t"] & other.has["t"]


def test_the_partitions_of_a_leaving_member_go_to_the_others() -> None:
    driver = Driver()
    clients = [Client(driver, name).come() for name in ("one", "other")]
    settle(clients)
    left = driver.beat("one", LEAVE)
    assert (left.answer.member_epoch, left.answer.member_id) == (LEAVE, "one")
    settle(clients[1:])
    assert clients[1].has == ALL
    assert set(driver.consumers().members) == {"other"}


def test_the_last_member_leaves_an_empty_group() -> None:
    driver = Driver()
    driver.come()
    driver.beat("m", LEAVE)
    assert driver.consumers().state == "Empty"
    assert driver.consumers().epoch == 3


def test_a_silent_member_is_evicted_after_its_session() -> None:
    driver = Driver(pace=Pace(session_timeout_ms=1_000, assignment_interval_ms=0))
    one = Client(driver, "one").come()
    Client(driver, "other").come()
    for _ in range(4):
        driver.pass_ms(400)
        one.beat()
    driver.pass_ms(1)
    assert set(driver.consumers().members) == {"one"}
    settle([one])
    assert one.has == ALL


def test_a_member_that_does_not_revoke_is_evicted_after_its_rebalance_timeout() -> None:
    driver = Driver()
    driver.come("slow", rebalance_ms=10_000)
    driver.come("other")
    driver.beat("slow", 2, has=ALL)
    driver.pass_ms(9_000)
    driver.beat("slow", 2, has=ALL)
    assert "slow" in driver.consumers().members
    driver.pass_ms(1_001)
    assert set(driver.consumers().members) == {"other"}


@pytest.mark.parametrize(
    ("epoch", "has", "code"),
    [
        (1, ALL, 0),  # the answer was lost: the member sends the previous epoch, and has no other partitions
        (1, {"t": {0}}, 0),
        (1, None, errors.FencedMemberEpoch.code),
        (1, {"u": {0}}, errors.FencedMemberEpoch.code),
        (5, ALL, errors.FencedMemberEpoch.code),
        (0, {}, 0),
    ],
)
def test_a_heartbeat_with_a_wrong_member_epoch_is_fenced(
    epoch: int, has: dict[str, set[int]] | None, code: int
) -> None:
    driver = Driver(image_of(t=4, u=1))
    driver.come()
    driver.consumers().put(replace(driver.consumers().members["m"], previous_epoch=1))
    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"]} if epoch == 0 else {}
    assert driver.beat("m", epoch, has=has, **fields).code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, errors.InvalidRequest.code),
        ({"group": " "}, errors.InvalidRequest.code),
        ({"instance_id": ""}, errors.InvalidRequest.code),
        ({"rack_id": " "}, errors.InvalidRequest.code),
        ({"member_id": "m" * 8_038}, errors.InvalidRequest.code),
        ({"instance_id": "i" * 8_038}, errors.InvalidRequest.code),
        ({"rebalance_timeout_ms": -1}, errors.InvalidRequest.code),
        ({"has": {"t": {1}}}, errors.InvalidRequest.code),
        ({"has": None}, errors.InvalidRequest.code),
        ({"subscribed_topic_names": None}, errors.InvalidRequest.code),
        ({"epoch": LEAVE_STATIC}, errors.InvalidRequest.code),
        ({"epoch": -3}, errors.InvalidRequest.code),
        ({"server_assignor": "best"}, errors.UnsupportedAssignor.code),
        ({"epoch": 7}, errors.GroupIdNotFound.code),
        ({"epoch": LEAVE}, errors.GroupIdNotFound.code),
    ],
)
def test_a_request_with_an_invalid_field_is_refused(fields: dict[str, object], code: int) -> None:
    driver = Driver()
    good: dict[str, object] = {
        "has": {},
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
    }
    assert driver.beat(**{**good, **fields}).code == code  # type: ignore[arg-type]
    assert driver.log == []


def test_heartbeat_version_0_assigns_the_member_id() -> None:
    driver = Driver()
    answer = driver.come("", version=0)
    assert answer.answer.member_id in driver.consumers().members


def test_an_unknown_member_gets_unknown_member_id() -> None:
    driver = Driver()
    driver.come()
    assert driver.beat("stranger", 2).code == errors.UnknownMemberId.code
    assert driver.beat("stranger", LEAVE).code == errors.UnknownMemberId.code


def test_a_full_group_takes_no_new_member() -> None:
    driver = Driver(settings=ConsumerSettings(max_size=1))
    driver.come()
    assert driver.come("other").code == errors.GroupMaxSizeReached.code
    assert driver.come("m").code == 0


def test_the_members_of_a_group_report_together_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect: a member with 128 KB of topic names stays for 45 seconds. Thousands a second filled the memory."""
    monkeypatch.setattr(heartbeating, "MOST_BYTES", 5_000)
    driver = Driver()
    assert driver.come(client="c" * 2_000).code == 0
    second = Client(driver, "second").come()
    assert driver.come("third", client="c" * 3_000).code == errors.GroupMaxSizeReached.code
    assert driver.beat("second", second.epoch, rack_id="r" * 3_000).code == errors.GroupMaxSizeReached.code
    assert driver.come(client="c").code == 0
    assert driver.come("third", client="c" * 3_000).code == 0
    group = driver.consumers()
    assert group.size == sum(member.size for member in group.members.values()) == driver.again().consumers().size
    for member in ("m", "second", "third"):
        driver.beat(member, LEAVE)
    assert driver.consumers().size == 0


def test_a_member_that_reports_too_much_keeps_its_partitions_until_its_session_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    first, second = (Client(driver, each).come() for each in ("first", "second"))
    settle([first, second])
    monkeypatch.setattr(heartbeating, "MOST_BYTES", driver.consumers().size)
    refused = driver.beat("second", second.epoch, rack_id="r" * 100)
    assert refused.code == errors.GroupMaxSizeReached.code
    assert driver.has("second") == second.has
    for _ in range(3):
        driver.pass_ms(20_000)
        first.beat()
    first.beat()
    assert list(driver.consumers().members) == ["first"]
    assert first.has == {"t": {0, 1, 2, 3}}


def test_a_member_has_the_last_of_its_instance_ids_only() -> None:
    """Otherwise a client fills the memory with such ids, and a static member that needs one of them cannot join."""
    driver = Driver()
    for instance_id in ("first", "second"):
        assert driver.come("m", instance_id=instance_id).code == 0
    assert driver.consumers().static == {"second": "m"}
    assert driver.come("other", instance_id="first").code == 0
    assert driver.beat("m", LEAVE, instance_id="second").code == 0
    assert driver.consumers().static == driver.again().consumers().static == {"first": "other"}


def test_a_topic_that_grows_is_assigned_again() -> None:
    driver = Driver()
    client = Client(driver, "m").come()
    driver.change_topics(t=6)
    settle([client])
    assert client.has == {"t": set(range(6))}


def test_a_topic_created_or_deleted_later_changes_the_assignment() -> None:
    driver = Driver()
    client = Client(driver, "m").come("t", "later")
    assert client.has == ALL
    driver.change_topics(later=1)
    settle([client])
    assert client.has == {**ALL, "later": {0}}
    driver.delete_topic("t")
    epoch = driver.consumers().epoch
    driver.beat("m", client.epoch, has={"later": {0}})
    assert driver.consumers().epoch == epoch + 1


def test_unrelated_metadata_changes_do_not_raise_the_group_epoch() -> None:
    driver = Driver()
    client = Client(driver, "m").come()
    driver.change_topics(other=3)
    settle([client])
    assert driver.consumers().epoch == 2


def test_a_changed_subscription_revokes_topics_that_are_no_longer_read() -> None:
    driver = Driver(image_of(t=2, u=2))
    client = Client(driver, "m").come("t", "u")
    client.take(driver.beat("m", client.epoch, has=client.has, subscribed_topic_names=["u"]))
    settle([client])
    assert client.has == {"u": {0, 1}}
    assert driver.consumers().epoch == 3


def test_assignments_are_computed_once_per_interval() -> None:
    driver = Driver(pace=Pace(assignment_interval_ms=1_000))
    one = Client(driver, "one").come()
    Client(driver, "other").come()
    group = driver.consumers()
    assert (group.epoch, group.assignment_epoch, group.state) == (3, 2, "Assigning")
    driver.pass_ms(999)
    one.beat()
    assert group.assignment_epoch == 2
    driver.pass_ms(1)
    one.beat()
    assert (group.assignment_epoch, group.state) == (3, "Reconciling")


def test_a_clock_that_is_set_back_does_not_keep_an_assignment_waiting() -> None:
    driver = Driver(pace=Pace(assignment_interval_ms=1_000))
    Client(driver, "one").come()
    driver.wall_shift_ms = -3_600_000
    Client(driver, "other").come()
    group = driver.consumers()
    assert (group.epoch, group.assignment_epoch) == (3, 3)


def test_the_assignor_that_most_members_want_is_used() -> None:
    driver = Driver(image_of(t=3))
    driver.come("a", server_assignor="range")
    driver.come("b", server_assignor="uniform")
    driver.come("c", server_assignor="range")
    assert driver.describe().assignor_name == "range"
    assert {name: set(*target.values()) for name, target in driver.consumers().targets.items()} == {
        "a": {0},
        "b": {1},
        "c": {2},
    }


def test_another_assignor_that_most_members_want_makes_a_new_epoch() -> None:
    driver = Driver()
    first = driver.come("a").answer.member_epoch
    steps = [("uniform", first), ("range", first), ("range", first + 1)]  # uniform is the default
    epochs = [driver.beat("a", epoch, server_assignor=name).answer.member_epoch for name, epoch in steps]
    assert epochs == [first, first + 1, first + 1]
    assert driver.describe().assignor_name == "range"


def test_the_assignment_is_removed_when_the_last_member_leaves() -> None:
    driver = Driver()
    Client(driver, "one").come()
    driver.beat("one", LEAVE)
    group = driver.consumers()
    assert (group.epoch, group.assignment_epoch) == (3, 3)


def test_a_static_member_that_is_away_keeps_its_partitions() -> None:
    driver = Driver()
    one = Client(driver, "one", instance_id="i").come()
    other = Client(driver, "other").come()
    settle([one, other])
    had = one.has
    left = driver.beat("one", LEAVE_STATIC, instance_id="i")
    assert left.answer.member_epoch == LEAVE_STATIC
    other.beat()
    assert driver.consumers().epoch == 3
    back = Client(driver, "again", instance_id="i").come()
    assert back.has == had
    assert set(driver.consumers().members) == {"again", "other"}
    assert driver.beat("one", 3, instance_id="i").code == errors.FencedInstanceId.code


def test_an_active_static_member_is_not_replaced() -> None:
    driver = Driver()
    driver.come("one", instance_id="i")
    assert driver.come("again", instance_id="i").code == errors.UnreleasedInstanceId.code
    assert driver.beat("x", 2, instance_id="j").code == errors.UnknownMemberId.code


def test_a_static_member_that_stays_away_is_evicted_after_its_session() -> None:
    driver = Driver()
    driver.come("one", instance_id="i")
    driver.beat("one", LEAVE_STATIC, instance_id="i")
    driver.pass_ms(45_001)
    assert driver.consumers().state == "Empty"
    assert driver.consumers().static == {}


def test_a_refused_write_changes_nothing() -> None:
    driver = Driver()
    one = Client(driver, "one").come()
    driver.refuse = errors.CoordinatorNotAvailable
    assert driver.come("other").code == errors.CoordinatorNotAvailable.code
    driver.refuse = None
    assert set(driver.consumers().members) == {"one"}
    settle([one])
    other = Client(driver, "other").come()
    settle([one, other])
    driver.pass_ms(45_000)


def test_a_loaded_group_continues() -> None:
    driver = Driver()
    clients = [Client(driver, name).come() for name in ("one", "other")]
    clients[0].beat()
    loaded = driver.again()
    for client in clients:
        client.driver = loaded
    before, after = driver.consumers(), loaded.consumers()
    assert (after.members, after.targets, after.owners) == (
        before.members,
        before.targets,
        before.owners,
    )
    assert (after.epoch, after.assignment_epoch, after.metadata_hash) == (3, 3, before.metadata_hash)
    settle(clients)
    loaded.pass_ms(45_001)
    assert loaded.consumers().state == "Empty"


def test_a_group_is_described() -> None:
    driver = Driver(image_of(t=1))
    driver.come("m", rack_id="r", instance_id="i", client="me")
    row = driver.describe()
    assert (row.group_state, row.group_epoch, row.assignment_epoch) == ("Stable", 2, 2)
    [member] = row.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.client_id, member.client_host, member.member_type) == ("me", "/127.0.0.1", 1)
    assert member.subscribed_topic_names == ["t"]
    [part] = member.assignment.topic_partitions
    assert (part.topic_name, part.partitions) == ("t", [0])
    assert member.target_assignment == member.assignment


def test_a_deleted_group_is_gone_and_offsets_of_an_empty_one_may_be_committed() -> None:
    driver = Driver()
    driver.come()
    assert driver.delete().code == errors.NonEmptyGroup.code
    driver.beat("m", LEAVE)
    assert driver.commit({("t", 0): 7}).code == 0
    assert driver.committed() == {("t", 0): 7}
    assert driver.delete().code == 0
    assert driver.shard.groups == {}
    assert driver.again().shard.groups == {}
    assert driver.committed() == {}


def test_a_member_whose_eviction_could_not_be_written_is_evicted_after_another_session() -> None:
    driver = Driver(pace=Pace(session_timeout_ms=1_000))
    driver.come()
    driver.refuse = errors.CoordinatorNotAvailable
    driver.pass_ms(1_500)
    driver.refuse = None
    assert set(driver.consumers().members) == {"m"}
    driver.pass_ms(1_500)
    assert driver.consumers().state == "Empty"


def test_a_changed_client_id_is_written_once_and_does_not_bump_the_group_epoch() -> None:
    driver = Driver()
    driver.come()
    before = len(driver.log)
    driver.beat("m", 2, client="renamed")
    assert len(driver.log) == before + 1
    assert (driver.consumers().epoch, driver.consumers().members["m"].client_id) == (2, "renamed")
