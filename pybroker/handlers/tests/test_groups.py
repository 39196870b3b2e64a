"""Group APIs in each version: the handler's part, beside the coordinator's."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.cluster.metadata.image import OFFSETS_TOPIC
from pybroker.coordinator.partitioner import partition_for
from pybroker.coordinator.tests import harness as groups
from pybroker.handlers import ROWS
from pybroker.handlers.tests import harness
from pybroker.replication.tests.harness import topic_id
from pyclient.protocol import (
    DeleteGroups,
    DescribeGroups,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TxnOffsetCommit,
    errors,
)
from pyclient.protocol.apis import Api

HANDLERS = {row.api: row.handle for row in ROWS}


class Node(groups.Node, harness.Node):
    """A broker with groups, as handlers see it."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A broker with ``__consumer_offsets`` and a topic t of four partitions."""
    node = Node(tmp_path)
    node.offsets_topic()
    node.create("t", 4)
    yield node
    node.close()


def ask(node: Node, api: Api, version: int, **fields: Any) -> Any:
    """Returns the response as the client decodes it in this version."""
    response = HANDLERS[api](api.Request(**fields), node.call(version))
    if inspect.isawaitable(response):
        response = node.run(response)
    frame = api.encode_response(version, 1, response)
    assert isinstance(frame, bytes)
    position = 9 if api.response_codec.has_flexible_header(version) else 8
    return api.decode_response(version, frame, position, len(frame))


def commit(node: Node, version: int = 9, topic: str = "t", *indexes: int, **fields: Any) -> Any:
    asked = OffsetCommit.Request.OffsetCommitRequestPartition
    partitions = [
        asked(partition_index=index, committed_offset=10 + index, committed_metadata="m")
        for index in indexes or (0,)
    ]
    named: dict[str, Any] = {"topic_id": topic_id(topic)} if version >= 10 else {"name": topic}
    topics = [OffsetCommit.Request.OffsetCommitRequestTopic(partitions=partitions, **named)]
    return ask(node, OffsetCommit, version, group_id="g", topics=topics, **fields)


def outcomes(response: Any) -> dict[int, int]:
    """Returns the error codes by partition of a response with one topic."""
    [topic] = response.topics
    return {each.partition_index: each.error_code for each in topic.partitions}


# FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_is_the_leader_of_its_partition(
    node: Node, version: int
) -> None:
    fields = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
    response = ask(node, FindCoordinator, version, **fields)
    found = response.coordinators[0] if version >= 4 else response
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "broker1", 9092)


def test_find_coordinator_finds_the_coordinators_of_several_groups_at_once(node: Node) -> None:
    node.offsets_topic(leader=2, replicas=(1, 2), isr=(1, 2), epoch=1)
    response = ask(node, FindCoordinator, 4, coordinator_keys=["g", "h"])
    assert [(each.key, each.port) for each in response.coordinators] == [("g", 9093), ("h", 9093)]


@pytest.mark.parametrize(("key_type", "code"), [(2, 42), (9, 42)])
def test_find_coordinator_refuses_a_key_type_that_has_no_coordinator(node: Node, key_type: int, code: int) -> None:
    response = ask(node, FindCoordinator, 4, coordinator_keys=["x"], key_type=key_type)
    [found] = response.coordinators
    assert (found.error_code, found.node_id, found.port) == (code, -1, -1)


def test_a_group_whose_partition_has_no_leader_has_no_coordinator(node: Node) -> None:
    node.offsets_topic(leader=-1, epoch=1)
    assert ask(node, FindCoordinator, 3, key="g").error_code == errors.CoordinatorNotAvailable.code


class Controller:
    """A controller that creates the topic that ``node`` had before."""

    def __init__(self, node: Node) -> None:
        self.topic = node.metadata.image.topics[OFFSETS_TOPIC]
        self.refuses = False
        node.delete(OFFSETS_TOPIC)
        node.controller = SimpleNamespace(auto_creation=self)  # type: ignore[attr-defined]

    async def ensure_internal(self, name: str) -> Any:
        assert name == OFFSETS_TOPIC
        if self.refuses:
            raise errors.InvalidReplicationFactor("too few brokers")
        return self.topic


def test_the_first_find_coordinator_creates_the_offsets_topic(node: Node) -> None:
    Controller(node)
    assert ask(node, FindCoordinator, 3, key="g").node_id == 1


def test_find_coordinator_fails_if_the_offsets_topic_cannot_be_created(node: Node) -> None:
    Controller(node).refuses = True
    assert ask(node, FindCoordinator, 3, key="g").error_code == errors.CoordinatorNotAvailable.code


def test_a_group_belongs_to_the_same_partition_as_in_kafka(node: Node) -> None:
    assert node.groups.partition_of("g") == partition_for("g", 3) == 103 % 3


# Members


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_and_leaves_a_group_in_every_version(node: Node, version: int) -> None:
    protocol = JoinGroup.Request.JoinGroupRequestProtocol(name="range", metadata=b"m")
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [protocol],
    }
    if version >= 1:
        fields["rebalance_timeout_ms"] = 10_000
    joined = ask(node, JoinGroup, version, **fields)
    if version >= 4:
        assert joined.error_code == errors.MemberIdRequired.code
        joined = ask(node, JoinGroup, version, member_id=joined.member_id, **fields)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id == joined.members[0].member_id
    member = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
    brought = SyncGroup.Request.SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=b"all"
    )
    synced = ask(node, SyncGroup, min(version, 4), assignments=[brought], **member)
    assert synced.assignment == b"all"
    assert ask(node, Heartbeat, min(version, 4), **member).error_code == 0
    described = ask(node, DescribeGroups, min(version, 6), groups=["g"]).groups[0]
    assert (described.group_state, described.members[0].client_host) == ("Stable", "/127.0.0.1")
    left = {"group_id": "g", "member_id": joined.member_id}
    if version >= 3:
        leaving = LeaveGroup.Request.MemberIdentity(member_id=joined.member_id)
        left = {"group_id": "g", "members": [leaving]}
    assert ask(node, LeaveGroup, min(version, 5), **left).error_code == 0
    assert ask(node, DeleteGroups, min(version, 2), groups_names=["g"]).results[0].error_code == 0


def test_a_sync_group_request_must_name_the_protocol_from_version_5_on(node: Node) -> None:
    refused = ask(node, SyncGroup, 5, group_id="g", generation_id=1, member_id="m")
    assert refused.error_code == errors.InconsistentGroupProtocol.code


@pytest.mark.parametrize("api", [JoinGroup, SyncGroup, Heartbeat, LeaveGroup])
def test_a_member_cannot_use_an_empty_group_id(node: Node, api: Api) -> None:
    assert ask(node, api, 3, group_id="").error_code == errors.InvalidGroupId.code


def test_leaving_a_group_that_does_not_exist_fails_for_each_member(node: Node) -> None:
    leaving = LeaveGroup.Request.MemberIdentity(member_id="m")
    response = ask(node, LeaveGroup, 3, group_id="g", members=[leaving])
    assert response.error_code == errors.NONE
    assert response.members[0].error_code == errors.UnknownMemberId.code
    assert ask(node, LeaveGroup, 2, group_id="g", member_id="m").error_code == errors.UnknownMemberId.code


# Offsets


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_of_offset_fetch_returns_committed_offsets(node: Node, version: int) -> None:
    assert outcomes(commit(node, version, "t", 0, 3)) == {0: 0, 3: 0}
    for fetch_version in range(1, 8):
        topics = [
            OffsetFetch.Request.OffsetFetchRequestTopic(name="t", partition_indexes=[3, 1])
        ]
        [topic] = ask(node, OffsetFetch, fetch_version, group_id="g", topics=topics).topics
        told = [(each.partition_index, each.committed_offset) for each in topic.partitions]
        assert (topic.name, told) == ("t", [(3, 13), (1, -1)])


@pytest.mark.parametrize("version", range(1, 8))
def test_an_offset_fetch_repeats_an_error_of_the_group_for_each_partition(node: Node, version: int) -> None:
    """Without that, aiokafka takes a missing partition for one without an offset, and reads it from the beginning."""
    node.groups.close()
    topics = [OffsetFetch.Request.OffsetFetchRequestTopic(name="t", partition_indexes=[3, 1])]
    response = ask(node, OffsetFetch, version, group_id="g", topics=topics)
    code = errors.NotCoordinator.code
    assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [(3, code), (1, code)]
    assert response.error_code == (code if version > 1 else errors.NONE)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_several_groups_are_fetched_in_one_request(node: Node, version: int) -> None:
    commit(node)
    asked = OffsetFetch.Request.OffsetFetchRequestTopics(partition_indexes=[0])
    unknown = OffsetFetch.Request.OffsetFetchRequestTopics(partition_indexes=[0])
    asked.name, asked.topic_id = ("t", bytes(16)) if version < 10 else ("", topic_id("t"))
    unknown.name, unknown.topic_id = ("u", bytes(16)) if version < 10 else ("", topic_id("u"))
    group = OffsetFetch.Request.OffsetFetchRequestGroup
    response = ask(
        node,
        OffsetFetch,
        version,
        groups=[
            group(group_id="g", topics=[asked, unknown]),
            group(group_id="h", topics=[asked]),
            group(group_id="g", topics=None),
        ],
        require_stable=True,
    )
    told = [
        sorted((p.committed_offset, p.error_code) for t in each.topics for p in t.partitions)
        for each in response.groups
    ]
    unknown_id = errors.UnknownTopicId.code if version == 10 else errors.NONE
    assert told == [[(-1, unknown_id), (10, 0)], [(-1, 0)], [(10, 0)]]


def test_an_offset_fetch_with_topic_ids_leaves_out_a_topic_that_does_not_exist(node: Node) -> None:
    commit(node)
    node.run(node.commit(5, partition=1))
    node.publish_without("t")
    group = OffsetFetch.Request.OffsetFetchRequestGroup(group_id="g", topics=None)
    assert ask(node, OffsetFetch, 10, groups=[group]).groups[0].topics == []
    assert len(ask(node, OffsetFetch, 9, groups=[group]).groups[0].topics) == 1


def test_offsets_of_partitions_that_do_not_exist_cannot_be_committed(node: Node) -> None:
    assert outcomes(commit(node, 9, "t", 0, 4, -1)) == {0: 0, 4: 3, -1: 3}
    assert outcomes(commit(node, 9, "u")) == {0: errors.UnknownTopicOrPartition.code}
    assert outcomes(commit(node, 10, "u")) == {0: errors.UnknownTopicId.code}


def test_a_commit_of_an_unknown_member_fails_for_each_partition(node: Node) -> None:
    refused = commit(node, 8, "t", 0, 4, generation_id_or_member_epoch=3, member_id="m")
    assert outcomes(refused) == {0: errors.IllegalGeneration.code, 4: 3}


def test_an_offset_fetch_from_the_wrong_broker_returns_not_coordinator_where_its_version_allows(node: Node) -> None:
    node.offsets_topic(leader=2, replicas=(1, 2), isr=(1, 2), epoch=1)
    topics = [OffsetFetch.Request.OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    first = ask(node, OffsetFetch, 1, group_id="g", topics=topics)
    assert first.topics[0].partitions[0].error_code == errors.NotCoordinator.code
    assert ask(node, OffsetFetch, 7, group_id="g", topics=topics).error_code == errors.NotCoordinator.code
    group = OffsetFetch.Request.OffsetFetchRequestGroup(group_id="g", topics=None)
    assert ask(node, OffsetFetch, 8, groups=[group]).groups[0].error_code == errors.NotCoordinator.code


def test_offset_delete_returns_a_result_per_partition_and_refuses_an_unknown_group(node: Node) -> None:
    commit(node, 9, "t", 0, 1)
    topic = OffsetDelete.Request.OffsetDeleteRequestTopic
    asked = OffsetDelete.Request.OffsetDeleteRequestPartition
    topics = [topic(name="t", partitions=[asked(partition_index=index) for index in (0, 9)])]
    assert outcomes(ask(node, OffsetDelete, 0, group_id="g", topics=topics)) == {0: 0, 9: 3}
    assert node.committed() == {("t", 1): 11}
    nowhere = [topic(name="nowhere", partitions=[asked(partition_index=0)])]
    for asked_for in (topics, nowhere, []):
        assert ask(node, OffsetDelete, 0, group_id="h", topics=asked_for).error_code == errors.GroupIdNotFound.code


# Offsets in transactions


class Transactions:
    """Admits every producer."""

    async def admit(self, *who: object, add: bool) -> dict[Any, None]:
        return {}


def hold(node: Node, version: int, *indexes: int, **fields: Any) -> Any:
    asked = TxnOffsetCommit.Request.TxnOffsetCommitRequestPartition
    partitions = [asked(partition_index=index, committed_offset=7) for index in indexes]
    topics = [TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic(name="t", partitions=partitions)]
    node.groups.transactions = Transactions()
    request = {"transactional_id": "x", "group_id": "g", "producer_id": 5} | fields
    return ask(node, TxnOffsetCommit, version, topics=topics, **request)


@pytest.mark.parametrize("version", range(6))
def test_txn_offset_commit_holds_offsets_back_and_refuses_unknown_partitions(
    node: Node, version: int
) -> None:
    assert outcomes(hold(node, version, 0, 4)) == {0: 0, 4: 3}
    assert node.committed() == {}


def test_txn_offset_commit_accepts_topic_ids_and_refuses_unknown_ones(node: Node) -> None:
    asked = TxnOffsetCommit.Request.TxnOffsetCommitRequestPartition
    topic = TxnOffsetCommit.Request.TxnOffsetCommitRequestTopic
    ids = (node.metadata.image.topics["t"].id, topic_id("t", 1))
    topics = [topic(topic_id=id, partitions=[asked(partition_index=0, committed_offset=7)]) for id in ids]
    node.groups.transactions = Transactions()
    answer = ask(node, TxnOffsetCommit, 6, topics=topics, transactional_id="x", group_id="g", producer_id=5)
    assert [each.topic_id for each in answer.topics] == list(ids)
    assert [each.partitions[0].error_code for each in answer.topics] == [0, errors.UnknownTopicId.code]


def test_txn_offset_commit_refuses_an_empty_group_id(node: Node) -> None:
    assert outcomes(hold(node, 3, 0, group_id="")) == {0: errors.InvalidGroupId.code}


def test_an_offset_fetch_that_requires_stable_offsets_refuses_unstable_ones(node: Node) -> None:
    hold(node, 5, 0)
    topics = [OffsetFetch.Request.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    single = ask(node, OffsetFetch, 7, group_id="g", topics=topics, require_stable=True)
    assert outcomes(single) == {0: errors.UnstableOffsetCommit.code, 1: 0}
    assert [each.committed_offset for each in single.topics[0].partitions] == [-1, -1]
    several = OffsetFetch.Request.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])
    group = OffsetFetch.Request.OffsetFetchRequestGroup(group_id="g", topics=[several])
    [answered] = ask(node, OffsetFetch, 9, groups=[group], require_stable=True).groups
    assert outcomes(answered) == {0: errors.UnstableOffsetCommit.code, 1: 0}
    [answered] = ask(node, OffsetFetch, 9, groups=[group]).groups
    assert outcomes(answered) == {0: 0, 1: 0}


def test_a_recreated_topic_has_no_committed_offsets_of_its_predecessor(node: Node) -> None:
    commit(node, 10)
    gone = node.metadata.image.topics["t"]
    node.publish_without("t")
    node.create("t", 4, generation=1)
    assert gone.id != node.metadata.image.topics["t"].id
    topic = OffsetFetch.Request.OffsetFetchRequestTopics(
        topic_id=topic_id("t", 1), partition_indexes=[0]
    )
    group = OffsetFetch.Request.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    [answered] = ask(node, OffsetFetch, 10, groups=[group]).groups
    assert [each.committed_offset for each in answered.topics[0].partitions] == [-1]


# Whole groups


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 0), (6, 69)])
def test_an_unknown_group_is_described_as_dead(node: Node, version: int, code: int) -> None:
    [group] = ask(node, DescribeGroups, version, groups=["nobody"]).groups
    assert (group.group_state, group.error_code) == ("Dead", code)


def test_describe_groups_returns_authorized_operations_only_on_request(node: Node) -> None:
    commit(node)
    fields = {"groups": ["g"], "include_authorized_operations": True}
    assert ask(node, DescribeGroups, 3, **fields).groups[0].authorized_operations == 3400
    assert ask(node, DescribeGroups, 3, groups=["g"]).groups[0].authorized_operations == -(1 << 31)


@pytest.mark.parametrize(
    ("states", "types", "count"),
    [
        ([], [], 1),
        (["Empty"], [], 1),
        (["empty", "Dead"], ["CLASSIC"], 1),
        (["Stable"], [], 0),
        ([], ["consumer"], 0),
        ([], ["Consumer", "Classic"], 1),
    ],
)
def test_groups_are_listed_by_state_and_type(
    node: Node, states: list[str], types: list[str], count: int
) -> None:
    commit(node)
    response = ask(node, ListGroups, 5, states_filter=states, types_filter=types)
    assert [(each.group_id, each.group_type) for each in response.groups] == [
        ("g", "classic")
    ] * count


def test_delete_groups_returns_a_result_for_each_group(node: Node) -> None:
    commit(node)
    response = ask(node, DeleteGroups, 2, groups_names=["g", "h", ""])
    assert [each.error_code for each in response.results] == [0, 69, 69]
