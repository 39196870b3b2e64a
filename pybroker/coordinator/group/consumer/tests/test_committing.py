"""Offsets of consumer groups: which epochs may commit and fetch."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.coordinator.group.committing import commit_in_transaction
from pybroker.coordinator.group.consumer.tests.driver import LEAVE, Client, Driver, settle
from pybroker.coordinator.group.group import Commit
from pybroker.coordinator.group.offsets import CommittedOffset
from pybroker.coordinator.group.records import offset_record
from pybroker.coordinator.group.settings import GroupSettings
from pybroker.coordinator.group.shard import OffsetsAsked
from pybroker.coordinator.group.tests.driver import WALL
from pybroker.coordinator.shard import Moment, Result
from pyclient.protocol import OffsetCommit, TxnOffsetCommit, errors

STALE = errors.StaleMemberEpoch.code


def two_members() -> tuple[Driver, Client, Client]:
    """Returns two members in epoch 3. The first has had its two partitions since epoch 2, the second since epoch 3."""
    driver = Driver()
    one, other = Client(driver, "one").come(), Client(driver, "other").come()
    settle([one, other])
    assert (one.epoch, other.epoch) == (3, 3)
    return driver, one, other


def commit(driver: Driver, member_id: str, epoch: int, partition: int, version: int = 9) -> int:
    """Commits the offset of one partition of ``t``, and returns the error code."""
    topic = OffsetCommit.Request.OffsetCommitRequestTopic
    request = OffsetCommit.Request(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            topic(
                name="t",
                topic_id=driver.image.topics["t"].id,
                partitions=[
                    OffsetCommit.Request.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=7
                    )
                ],
            )
        ],
    )
    ticket = driver.send(lambda result: driver.shard.commit(request, version, result))
    if ticket.code:
        return ticket.code
    return int(ticket.answer.topics[0].partitions[0].error_code)


def fetch(driver: Driver, member_id: str | None, epoch: int) -> Any:
    asked = OffsetsAsked("g", None, member_id=member_id, member_epoch=epoch)
    return driver.send(lambda result: driver.shard.fetch(asked, result)).code


def test_a_member_may_commit_with_its_member_epoch() -> None:
    driver, one, _ = two_members()
    [mine, _] = sorted(one.has["t"])
    assert commit(driver, "one", 3, mine) == 0
    assert driver.committed() == {("t", mine): 7}


def test_an_earlier_member_epoch_may_commit_partitions_owned_since_then() -> None:
    driver, one, other = two_members()
    mine, others = min(one.has["t"]), min(other.has["t"])
    assert commit(driver, "one", 2, mine) == 0
    assert commit(driver, "one", 1, mine) == STALE
    assert commit(driver, "one", 2, others) == STALE, "it is another member's by now"
    assert commit(driver, "other", 2, others) == STALE, "it was another member's then"


def test_a_later_epoch_an_unknown_member_and_an_old_version_may_not_commit() -> None:
    driver, _, _ = two_members()
    assert commit(driver, "one", 4, 0) == STALE
    assert commit(driver, "stranger", 3, 0) == errors.UnknownMemberId.code
    assert commit(driver, "", -1, 0) == errors.UnknownMemberId.code
    assert commit(driver, "one", 3, 0, version=8) == errors.UnsupportedVersion.code


def test_a_client_that_is_not_a_member_commits_only_to_an_empty_group() -> None:
    driver = Driver()
    driver.come()
    driver.beat("m", LEAVE)
    assert commit(driver, "", -1, 0) == 0
    assert commit(driver, "m", 2, 0) == errors.UnknownMemberId.code


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, 0),
        ("one", 3, 0),
        ("one", 2, STALE),
        ("one", 4, STALE),
        ("stranger", 3, errors.UnknownMemberId.code),
        ("", -1, errors.UnknownMemberId.code),
    ],
)
def test_an_offset_fetch_that_names_a_member_is_checked(
    member_id: str | None, epoch: int, code: int
) -> None:
    driver, _, _ = two_members()
    assert fetch(driver, member_id, epoch) == code


@pytest.mark.parametrize(("version", "code"), [(5, errors.IllegalGeneration.code), (6, STALE)])
def test_a_transactional_commit_with_topic_ids_gets_stale_member_epoch(version: int, code: int) -> None:
    driver, one, _ = two_members()
    topic, asked = (
        TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic,
        TxnOffsetCommit.Request.TxnOffsetCommitRequestPartition,
    )
    partition = asked(partition_index=min(one.has["t"]), committed_offset=7)
    request = TxnOffsetCommit.Request(
        group_id="g",
        member_id="one",
        generation_id_or_member_epoch=1,
        topics=[topic(name="t", topic_id=driver.image.topics["t"].id, partitions=[partition])],
    )
    stale = driver.send(
        lambda result: commit_in_transaction(
            driver.shard, request, version, lambda name: driver.image.topics[name].id, result
        )
    )
    assert stale.code == code


def test_a_transaction_may_commit_without_naming_a_member() -> None:
    driver, _, _ = two_members()
    group = driver.consumers()
    result = Result(Moment(0, 0))
    assert group.may_commit(Commit("", None, -1, 3, True), result) is None
    with pytest.raises(errors.UnknownMemberId):
        group.may_commit(Commit("", None, -1, 9, False), result)


def test_offsets_of_subscribed_topics_may_not_be_deleted() -> None:
    driver = Driver()
    driver.come()
    commit(driver, "m", 2, 0)
    refused = driver.delete_offsets("t").answer.topics[0].partitions[0].error_code
    assert refused == errors.GroupSubscribedToTopic.code
    assert driver.delete_offsets("u").answer.topics[0].partitions[0].error_code == 0


def test_an_offset_of_a_former_topic_goes_with_time_though_the_new_one_is_read() -> None:
    driver = Driver()
    former = CommittedOffset(5, -1, "", WALL, topic_id=b"f" * 16)
    of_now = former._replace(topic_id=driver.image.topics["t"].id)
    log = [offset_record("g", "t", 0, former), offset_record("g", "t", 1, of_now)]
    after = Driver(classic=GroupSettings(offsets_retention_ms=3_600_000), log=log)
    member = Client(after, "m").come()
    for _ in range(100):
        after.pass_ms(40_000)
        member.beat()
    assert [partition for _, partition, _ in after.shard.offsets.of("g")] == [1]
