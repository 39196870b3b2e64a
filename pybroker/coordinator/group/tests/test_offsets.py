"""Committed offsets: how long they stay, and what deletes them."""

from __future__ import annotations

from dataclasses import replace

from pybroker.coordinator.group import records
from pybroker.coordinator.group.tests.driver import QUICK, WALL, Driver
from pybroker.coordinator.shard import Record
from pyclient.protocol import errors
from pyclient.protocol.records import OffsetCommitValue

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
CHECK_MS = 600_000


def test_offsets_of_a_simple_group_expire_a_week_after_their_commit() -> None:
    driver = Driver()
    driver.commit({("t", 0): 5})
    driver.pass_ms(3 * DAY_MS)
    driver.commit({("t", 1): 6})
    driver.pass_ms(4 * DAY_MS + CHECK_MS)
    assert driver.committed() == {("t", 1): 6}
    driver.pass_ms(3 * DAY_MS)
    assert driver.shard.groups == {}
    assert Driver(log=driver.log).shard.groups == {}


def test_offsets_of_a_group_with_members_stay_while_the_topic_is_subscribed() -> None:
    driver = Driver()
    [member] = driver.stable(1, session_ms=1_800_000)
    driver.commit({("t", 0): 5, ("other", 0): 6}, member, 1)
    for _ in range(WEEK_MS // CHECK_MS + 2):
        driver.pass_ms(CHECK_MS)
        driver.heartbeat(member, 1)
    assert driver.committed() == {("t", 0): 5}


def test_offsets_of_an_empty_group_expire_a_week_after_its_last_member_left() -> None:
    driver = Driver()
    [member] = driver.stable(1, session_ms=1_800_000)
    driver.commit({("t", 0): 5}, member, 1)
    for _ in range(100):
        driver.pass_ms(CHECK_MS)
        driver.heartbeat(member, 1)
    driver.leave((member, None))
    driver.pass_ms(WEEK_MS - CHECK_MS)
    assert driver.committed() == {("t", 0): 5}
    driver.pass_ms(2 * CHECK_MS)
    assert driver.shard.groups == {}


def test_members_that_the_coordinator_cannot_read_keep_all_offsets() -> None:
    driver = Driver()
    [member] = driver.stable(1, protocols={"range": b"?"}, session_ms=1_800_000)
    driver.commit({("t", 0): 5}, member, 1)
    for _ in range(WEEK_MS // CHECK_MS + 2):
        driver.pass_ms(CHECK_MS)
        driver.heartbeat(member, 1)
    assert driver.committed() == {("t", 0): 5}


def test_a_retention_time_in_the_commit_overrides_the_brokers() -> None:
    driver = Driver()
    driver.commit({("t", 0): 5}, retention_ms=1_000, version=4)
    value = OffsetCommitValue.decode(driver.log[-1].value or b"")
    assert value.expire_timestamp == WALL + 1_000
    driver.pass_ms(CHECK_MS)
    assert driver.shard.groups == {}


def test_an_empty_group_is_not_removed_under_a_member_that_is_about_to_join() -> None:
    driver = Driver(replace(QUICK, offsets_check_interval_ms=5_000))
    member_id = driver.join(session_ms=20_000).answer.member_id
    driver.pass_ms(10_000)
    assert driver.join(member_id).waits


def test_many_expired_offsets_go_in_several_steps() -> None:
    driver = Driver(replace(QUICK, offsets_retention_ms=100, offsets_check_interval_ms=CHECK_MS))
    for index in range(1_250):
        driver.commit({("t", index): 1}, group=f"g{index}")
    driver.pass_ms(CHECK_MS)
    assert len(driver.log) == 1_250 + 1_000
    driver.pass_ms(2_000)
    assert driver.shard.groups == {}
    assert len(driver.log) == 1_250 + 2_500


def test_a_deleted_group_is_gone_with_its_offsets() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.commit({("t", 0): 5}, member, 1)
    assert driver.delete().code == errors.NonEmptyGroup.code
    driver.leave((member, None))
    assert driver.delete().code == errors.NONE
    assert driver.delete().code == errors.GroupIdNotFound.code
    assert driver.committed() == {}
    assert [record.value for record in driver.log[-2:]] == [None, None]
    assert Driver(log=driver.log).shard.groups == {}


def test_a_deleted_group_has_no_timer_left() -> None:
    driver = Driver()
    driver.join()
    driver.delete()
    driver.pass_ms(1_000_000)
    assert driver.shard.groups == {}


def test_offsets_of_topics_that_the_group_reads_cannot_be_deleted() -> None:
    driver = Driver()
    [member] = driver.stable(1)
    driver.commit({("t", 0): 5, ("other", 0): 6}, member, 1)
    response = driver.delete_offsets("t", "other", "never").answer
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert codes == [errors.GroupSubscribedToTopic.code, errors.NONE, errors.NONE]
    assert driver.committed() == {("t", 0): 5}


def test_offsets_of_a_nonconsumer_group_with_members_cannot_be_deleted() -> None:
    driver = Driver()
    assert driver.delete_offsets("t").code == errors.GroupIdNotFound.code
    driver.stable(1, protocol_type="connect")
    assert driver.delete_offsets("t").code == errors.NonEmptyGroup.code


def test_offsets_of_deleted_topics_are_forgotten() -> None:
    driver = Driver()
    driver.commit({("t", 0): 5, ("u", 0): 6})
    driver.commit({("t", 3): 7}, group="h")
    driver.send(lambda result: driver.shard.forget_topics({"t": bytes(16)}, result))
    assert driver.committed() == {("u", 0): 6}
    assert driver.committed(group="h") == {}
    assert Driver(log=driver.log).committed() == {("u", 0): 6}


def test_offsets_that_outlive_their_group_form_a_simple_group() -> None:
    driver = Driver()
    driver.stable(1)
    driver.commit({("t", 0): 5}, group="h")
    offset = driver.log[-1]
    loaded = Driver(log=[*driver.log, offset, records.no_group_record("h")])
    assert loaded.committed(group="h") == {("t", 0): 5}


def test_records_of_other_types_are_not_read() -> None:
    driver = Driver()
    driver.shard.replay(Record(b"\x00\x09future", b"?"), None)
    driver.shard.replay(Record(b"", None), None)
    assert driver.shard.groups == {}
