"""Requests to coordinators with many items are served part by part, with the same answer as in one part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.handlers import delete_records, leave_group, offset_fetch, write_txn_markers
from pybroker.handlers.common import offset_writes
from pybroker.handlers.tests.harness import OneItemTurns
from pybroker.handlers.tests.test_groups import Node, ask
from pyclient.protocol import (
    DeleteGroups,
    DeleteRecords,
    DescribeGroups,
    FindCoordinator,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
    WriteTxnMarkers,
    errors,
)

PARTITIONS = 7
GROUPS = ["g", "h", "g", "i", ""]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A broker with ``__consumer_offsets`` and two topics. It serves each item in a separate turn."""
    node = Node(tmp_path)
    node.offsets_topic()
    for name in ("t", "u"):
        node.create(name, PARTITIONS)
    node.turns = OneItemTurns()
    node.groups.transactions = SimpleNamespace(admit=admit)
    yield node
    assert node.connection.held == 0
    node.close()


async def admit(*who: object, add: bool) -> dict[Any, None]:
    return {}


def topics_of(api: Any, kind: str, leaf: str = "partitions", part: str = "", **fields: Any) -> list[Any]:
    """Returns rows of two topics, of one without partitions, and of one that does not exist. ``t`` also has a partition
    that does not exist.
    """
    topic = getattr(api.Request, kind)
    names = {"t": [PARTITIONS, *range(PARTITIONS)], "empty": (), "none": range(3), "u": range(PARTITIONS)}
    return [
        topic(
            name=name,
            **{leaf: [getattr(api.Request, part)(partition_index=i, **fields) if part else i for i in indexes]},
        )
        for name, indexes in names.items()
    ]


def commit(node: Node, **fields: Any) -> Any:
    topics = topics_of(
        OffsetCommit, "OffsetCommitRequestTopic", part="OffsetCommitRequestPartition", committed_offset=9
    )
    return ask(node, OffsetCommit, 8, group_id="g", topics=topics, **fields)


def hold(node: Node) -> Any:
    topics = topics_of(
        TxnOffsetCommit, "TxnOffsetCommitRequestTopic", part="TxnOffsetCommitRequestPartition", committed_offset=8
    )
    return ask(node, TxnOffsetCommit, 3, transactional_id="x", producer_id=5, group_id="g", topics=topics)


def fetch(node: Node, version: int) -> Any:
    if version < 8:
        topics = topics_of(OffsetFetch, "OffsetFetchRequestTopic", "partition_indexes")
        return ask(node, OffsetFetch, version, group_id="g", topics=topics)
    group = OffsetFetch.Request.OffsetFetchRequestGroup
    topics = topics_of(OffsetFetch, "OffsetFetchRequestTopics", "partition_indexes")
    if version >= 10:
        for topic in topics:
            image = node.metadata.image.topic(topic.name)
            topic.topic_id = topic.name.encode().rjust(16) if image is None else image.id
    groups = [group(group_id=id, topics=wanted) for id, wanted in (("g", topics), ("g", None), ("h", topics))]
    return ask(node, OffsetFetch, version, groups=groups)


def forget(node: Node) -> Any:
    topics = topics_of(OffsetDelete, "OffsetDeleteRequestTopic", part="OffsetDeleteRequestPartition")
    return ask(node, OffsetDelete, 0, group_id="g", topics=topics)


def everything(node: Node) -> list[Any]:
    first = commit(node)
    fetched = [fetch(node, version) for version in (7, 9, 10)]
    return [first, *fetched, hold(node), forget(node), fetch(node, 7)]


def test_requests_for_many_offsets_get_the_same_answer_in_several_parts_as_in_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = everything(node)
    monkeypatch.setattr(offset_writes, "PARTITIONS_AT_ONCE", 3)
    monkeypatch.setattr(offset_fetch, "_ASKED_AT_ONCE", 3)
    node.turns.count = 0
    assert everything(node) == whole
    assert node.turns.count > 7 * 5
    assert [topic.name for topic in whole[0].topics] == ["t", "empty", "none", "u"]


def test_an_error_in_one_part_of_an_offset_fetch_is_the_answer_for_the_whole_group(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect: clients took the partial answer for all offsets that were committed."""
    monkeypatch.setattr(offset_writes, "PARTITIONS_AT_ONCE", 3)
    monkeypatch.setattr(offset_fetch, "_ASKED_AT_ONCE", 3)
    commit(node)
    plain, asked = node.groups.committed, 0

    async def committed(wanted: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise errors.NotCoordinator
        return await plain(wanted)

    monkeypatch.setattr(node.groups, "committed", committed)
    first, everything, other = fetch(node, 9).groups
    assert (first.error_code, first.topics) == (errors.NotCoordinator.code, [])
    assert (everything.error_code, other.error_code) == (0, 0)
    assert sum(len(topic.partitions) for topic in other.topics) == 2 * PARTITIONS + 4
    asked = 0
    refused = fetch(node, 7)
    assert refused.error_code == errors.NotCoordinator.code
    assert {each.error_code for topic in refused.topics for each in topic.partitions} == {errors.NotCoordinator.code}


def test_an_offset_delete_of_an_unknown_group_returns_only_the_error_of_the_group(node: Node) -> None:
    response = forget(node)
    assert (response.error_code, response.topics) == (errors.GroupIdNotFound.code, [])


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (DescribeGroups, 6, {"groups": GROUPS}),
        (FindCoordinator, 4, {"coordinator_keys": GROUPS}),
        (DeleteGroups, 2, {"groups_names": GROUPS}),
    ],
    ids=["DescribeGroups", "FindCoordinator", "DeleteGroups"],
)
def test_each_group_of_a_long_request_is_served_in_its_own_turn(
    node: Node, api: Any, version: int, fields: Any
) -> None:
    def scenario() -> Any:
        commit(node)
        node.turns.count = 0
        return ask(node, api, version, **fields)

    told = scenario()
    assert node.turns.count == len(set(GROUPS) if api is DescribeGroups else GROUPS)
    node.turns = OneItemTurns()
    assert scenario() == told


def test_many_members_leave_a_group_in_several_turns(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leave_group, "_MEMBERS_AT_ONCE", 2)
    members = [LeaveGroup.Request.MemberIdentity(member_id=f"m{number}") for number in range(5)]
    response = ask(node, LeaveGroup, 4, group_id="g", members=members)
    assert node.turns.count == 3
    assert [(each.member_id, each.error_code) for each in response.members] == [
        (f"m{number}", errors.UnknownMemberId.code) for number in range(5)
    ]
    assert ask(node, LeaveGroup, 1, group_id="g", member_id="m").error_code == errors.UnknownMemberId.code
    assert ask(node, LeaveGroup, 4, group_id="", members=members).error_code == errors.InvalidGroupId.code


def test_an_offset_commit_of_many_partitions_is_written_in_parts_of_500(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect: three brokers needed more than 20 s for an OffsetCommit of 10,000 partitions, as each waited."""
    sizes: list[int] = []
    held: list[int] = []
    plain = node.groups.offset_commit

    async def offset_commit(request: Any, version: int) -> Any:
        sizes.append(sum(len(topic.partitions) for topic in request.topics))
        held.append(node.connection.held)
        return await plain(request, version)

    monkeypatch.setattr(node.groups, "offset_commit", offset_commit)
    kind = OffsetCommit.Request
    partitions = [kind.OffsetCommitRequestPartition(partition_index=0) for _ in range(1200)]
    ask(node, OffsetCommit, 8, topics=[kind.OffsetCommitRequestTopic(name="t", partitions=partitions)])
    assert (sizes, held) == ([500, 500, 200], [1, 1, 1])
    ask(node, OffsetCommit, 8, topics=[kind.OffsetCommitRequestTopic(name="t", partitions=partitions[:500])])
    assert (sizes[3:], held[3:]) == ([500], [0]), "what is one write does not hold its connection"


def test_transaction_markers_of_many_partitions_are_written_in_parts(node: Node) -> None:
    """The defect: three brokers needed more than 20 s for 25,000 markers, because each marker waited separately."""
    written: list[tuple[int, int]] = []

    async def write(marker: Any, partitions: list[Any]) -> dict[Any, Any]:
        written.append((marker.producer_id, len(partitions)))
        assert node.connection.held == 1
        return {each: errors.NotLeaderOrFollower() if each.partition == 99 else None for each in partitions}

    node.transactions = SimpleNamespace(markers=SimpleNamespace(write=write))
    kind = WriteTxnMarkers.Request
    topics = [kind.WritableTxnMarkerTopic(name=name, partition_indexes=list(range(100))) for name in ("t", "u")]
    markers = [kind.WritableTxnMarker(producer_id=id, topics=topics) for id in (7, 8)]
    response = node.ask(write_txn_markers, kind(markers=markers), 1)
    assert written == [(id, size) for id in (7, 8) for size in (64, 64, 64, 8)]
    for marker, id in zip(response.markers, (7, 8), strict=True):
        assert marker.producer_id == id
        assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in marker.topics] == [
            (name, list(range(100))) for name in ("t", "u")
        ]
        assert [each.error_code for each in marker.topics[1].partitions[-2:]] == [0, errors.NotLeaderOrFollower.code]


def test_the_timeout_of_delete_records_covers_all_its_parts(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect: a hundred parts waited a hundred times as long."""
    left: list[int] = []
    monkeypatch.setattr(delete_records, "WAITING_AT_ONCE", 2)

    async def delete(partition: Any, offset: int, timeout_ms: int) -> int:
        if partition.topic_partition.partition % 2:
            node.clock.advance(400)
        left.append(timeout_ms)
        return 3

    monkeypatch.setattr(node.replicas, "delete_records", delete)
    kind = DeleteRecords.Request
    partitions = [kind.DeleteRecordsPartition(partition_index=index, offset=0) for index in range(PARTITIONS + 1)]
    request = kind(topics=[kind.DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=1000)
    [topic] = node.ask(delete_records, request, 2).topics
    assert left == [1000, 1000, 600, 600, 200, 200, 0]
    assert [each.low_watermark for each in topic.partitions] == [3] * PARTITIONS + [-1]
