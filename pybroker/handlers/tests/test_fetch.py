"""Fetch: by name and id, with and without sessions, waiting and at once."""

from __future__ import annotations

from typing import Any

import pytest

from cy.wire.sendfile import FileSlice
from pybroker.handlers import fetch
from pybroker.handlers.tests.harness import Node
from pybroker.log.appending import Origin
from pybroker.log.tests.helpers import marker
from pybroker.replication.purgatory import Waiting
from pybroker.replication.tests.harness import NOW, TP, batch, topic_id, values
from pyclient.protocol import Fetch, errors

Request = Fetch.Request
BIG = 1 << 20


def request(*offsets: int, topic: str = "t", **fields: Any) -> Fetch.Request:
    """Returns a fetch of partitions 0… of the topic from these offsets. ``fields`` are for the partitions or the
    request.
    """
    names = {"current_leader_epoch", "last_fetched_epoch", "partition_max_bytes"}
    inner = {"partition_max_bytes": BIG} | {k: v for k, v in fields.items() if k in names}
    outer = {"min_bytes": 1, "max_wait_ms": 0} | {k: v for k, v in fields.items() if k not in names}
    partitions = [
        Request.FetchPartition(partition=index, fetch_offset=offset, **inner) for index, offset in enumerate(offsets)
    ]
    topics = [Request.FetchTopic(topic=topic, topic_id=topic_id(topic), partitions=partitions)]
    return Request(topics=topics if offsets else [], **outer)


def partitions(response: Fetch.Response) -> list[Any]:
    return [partition for topic in response.responses for partition in topic.partitions]


def ask(node: Node, version: int, *offsets: int, **fields: Any) -> Any:
    return node.ask(fetch, request(*offsets, **fields), version)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_returns_records_as_a_slice_of_the_log_file(node: Node, version: int) -> None:
    node.create()
    node.append(b"a", b"b")
    response = ask(node, version, 0)
    [topic] = response.responses
    assert (topic.topic == "t") == (version < 13)
    assert topic.topic_id == (topic_id("t") if version >= 13 else topic.topic_id)
    [partition] = topic.partitions
    assert isinstance(partition.records, FileSlice)
    assert values(partition.records) == [b"a", b"b"]
    assert (partition.high_watermark, partition.log_start_offset) == (2, 0)
    assert partition.aborted_transactions is None
    frame = Fetch.encode_response(version, 1, response)
    assert any(isinstance(part, FileSlice) for part in frame)


def test_a_fetch_reports_an_unknown_topic_by_name_and_by_id(node: Node) -> None:
    assert partitions(ask(node, 12, 0))[0].error_code == errors.UnknownTopicOrPartition.code
    assert partitions(ask(node, 13, 0))[0].error_code == errors.UnknownTopicId.code
    node.create()
    assert [p.error_code for p in partitions(ask(node, 13, 0, 0))] == [
        0,
        errors.UnknownTopicOrPartition.code,
    ]


def test_a_fetch_beyond_the_log_end_is_out_of_range_and_at_the_end_is_empty(node: Node) -> None:
    node.create()
    node.append(b"a")
    [partition] = partitions(ask(node, 11, 2))
    assert partition.error_code == errors.OffsetOutOfRange.code
    assert (partition.high_watermark, partition.records) == (-1, b"")
    [partition] = partitions(ask(node, 11, 1))
    assert (partition.error_code, partition.records) == (0, b"")


def test_a_fetch_returns_the_whole_batch_that_contains_the_offset(node: Node) -> None:
    node.create()
    node.append(b"a", b"b", b"c")
    assert values(partitions(ask(node, 11, 2))[0].records) == [b"a", b"b", b"c"]


def test_a_fetch_reports_a_fenced_an_unknown_and_a_diverging_epoch(node: Node) -> None:
    node.create(epoch=5)
    node.append(b"a")
    for epoch, error in ((4, errors.FencedLeaderEpoch), (6, errors.UnknownLeaderEpoch)):
        [partition] = partitions(ask(node, 11, 0, current_leader_epoch=epoch))
        assert partition.error_code == error.code
    node.create(epoch=7)
    [partition] = partitions(ask(node, 12, 1, last_fetched_epoch=6))
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (5, 1)
    assert partition.records == b""


def test_read_committed_hides_an_open_transaction_and_lists_aborted_ones(node: Node) -> None:
    node.create()
    open_batch = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    node.replicas.append(TP, open_batch, 1, NOW)
    node.append(b"behind")
    [partition] = partitions(ask(node, 11, 0, isolation_level=1))
    assert (partition.records, partition.last_stable_offset) == (b"", 0)
    assert partition.aborted_transactions == []
    node.replicas.append(TP, bytes(marker(0)), 1, NOW, Origin.COORDINATOR)
    [partition] = partitions(ask(node, 11, 0, isolation_level=1))
    assert [(a.producer_id, a.first_offset) for a in partition.aborted_transactions] == [(7, 0)]
    assert partition.last_stable_offset == 3


def test_aborted_transactions_are_null_for_an_offset_out_of_range_and_empty_for_an_unknown_topic(node: Node) -> None:
    node.create()
    [partition] = partitions(ask(node, 11, 9, isolation_level=1))
    assert partition.aborted_transactions is None
    node.delete()
    [partition] = partitions(ask(node, 11, 0))
    assert partition.aborted_transactions == []


def test_a_fetch_with_an_unknown_isolation_level_closes_the_connection(node: Node) -> None:
    node.create()
    with pytest.raises(errors.InvalidRequest):
        ask(node, 11, 0, isolation_level=2)


def test_a_fetch_response_stays_within_max_bytes(node: Node) -> None:
    node.create(partitions=2)
    for index in (0, 1):
        node.append(b"x" * 1000, index=index)
    size = len(batch(b"x" * 1000))
    first, second = partitions(ask(node, 11, 0, 0, max_bytes=size + 10))
    assert len(first.records) == size
    assert second.records == b""


def test_a_fetch_that_names_a_partition_twice_reads_it_once_from_the_last_offset(node: Node) -> None:
    node.create()
    node.append(b"a")
    twice = request(0)
    twice.topics[0].partitions.append(Request.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=BIG))
    [partition] = partitions(node.ask(fetch, twice, 11))
    assert partition.records == b""


def test_case_63_a_client_cannot_fetch_as_a_replica(node: Node) -> None:
    node.create()
    node.append(b"a")
    [partition] = partitions(ask(node, 14, 0, replica_id=2))
    assert partition.error_code == errors.TopicAuthorizationFailed.code
    assert partition.records == b""
    state = Request.ReplicaState(replica_id=2, replica_epoch=1)
    [partition] = partitions(ask(node, 15, 0, replica_state=state))
    assert partition.error_code == errors.TopicAuthorizationFailed.code


def test_a_follower_serves_fetches_from_version_11_on(node: Node) -> None:
    node.create()
    node.append(b"a")
    node.create(replicas=(1, 2), leader=2, epoch=1)
    [partition] = partitions(ask(node, 10, 0))
    assert partition.error_code == errors.NotLeaderOrFollower.code
    [partition] = partitions(ask(node, 11, 0))
    assert partition.error_code == 0


def test_a_fetch_returns_the_new_leader_from_version_16_on(node: Node) -> None:
    node.create(replicas=(2, 3), leader=2, epoch=7)
    response = ask(node, 16, 0)
    [partition] = partitions(response)
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 7)
    assert [(n.node_id, n.host, n.port) for n in response.node_endpoints] == [(2, "broker2", 9093)]
    assert partitions(ask(node, 15, 0))[0].current_leader is None


# Waiting


def test_a_fetch_at_the_log_end_waits_until_a_record_is_appended(node: Node) -> None:
    node.create()
    waiting = ask(node, 11, 0, max_wait_ms=10_000)
    assert isinstance(waiting, Waiting)
    node.append(b"a")
    [partition] = partitions(waiting.result())
    assert values(partition.records) == [b"a"]
    assert partition.high_watermark == 1


def test_a_fetch_returns_no_records_if_nothing_is_appended_within_max_wait_ms(node: Node) -> None:
    node.create()
    response = node.run(ask(node, 11, 0, max_wait_ms=1))
    [partition] = partitions(response)
    assert (partition.records, partition.error_code) == (b"", 0)


def test_a_cancelled_fetch_leaves_nothing_in_the_purgatory(node: Node) -> None:
    node.create()
    waiting = ask(node, 11, 0, max_wait_ms=10_000)
    waiting.cancel()
    assert len(node.replicas.purgatory) == 0
    node.append(b"a")


# Sessions


def open_session(node: Node, *offsets: int, version: int = 12) -> int:
    response = ask(node, version, *offsets, session_epoch=0)
    assert response.session_id > 0
    assert len(partitions(response)) == len(offsets)
    return int(response.session_id)


def test_an_incremental_fetch_response_contains_only_changed_partitions(node: Node) -> None:
    node.create(partitions=3)
    session = open_session(node, 0, 0, 0)
    node.append(b"a", index=1)
    response = ask(node, 12, session_id=session, session_epoch=1)
    assert response.session_id == session
    [partition] = partitions(response)
    assert (partition.partition_index, values(partition.records)) == (1, [b"a"])
    moved = request(0, 1, session_id=session, session_epoch=2)
    del moved.topics[0].partitions[0]
    assert partitions(node.ask(fetch, moved, 12)) == []


def test_an_append_to_any_partition_of_a_fetch_session_ends_its_wait(node: Node) -> None:
    node.create(partitions=3)
    session = open_session(node, 0, 0, 0)
    waiting = ask(node, 12, session_id=session, session_epoch=1, max_wait_ms=10_000)
    node.append(b"a", index=2)
    assert [p.partition_index for p in partitions(waiting.result())] == [2]


def test_the_partitions_of_a_fetch_session_take_turns_if_max_bytes_is_small(node: Node) -> None:
    node.create(partitions=3)
    for index in range(3):
        node.append(b"x" * 1000, index=index)
    session = open_session(node, 0, 0, 0)
    order = []
    for epoch in range(1, 7):
        response = ask(node, 12, session_id=session, session_epoch=epoch, max_bytes=1)
        order += [p.partition_index for p in partitions(response)]
    assert order == [0, 1, 2, 0, 1, 2]


def test_a_fetch_with_a_wrong_session_id_session_epoch_or_version_is_refused(node: Node) -> None:
    node.create()
    session = open_session(node, 0)
    for fields, version, error in (
        ({"session_id": session + 1, "session_epoch": 1}, 12, errors.FetchSessionIdNotFound),
        ({"session_id": session, "session_epoch": 5}, 12, errors.InvalidFetchSessionEpoch),
        ({"session_id": session, "session_epoch": 1}, 13, errors.FetchSessionTopicIdError),
    ):
        response = ask(node, version, **fields)
        assert (response.error_code, response.responses) == (error.code, [])


def test_a_fetch_session_works_with_topic_ids(node: Node) -> None:
    node.create()
    session = open_session(node, 0, version=17)
    node.append(b"a")
    response = ask(node, 17, session_id=session, session_epoch=1)
    assert response.responses[0].topic_id == topic_id("t")
    assert values(partitions(response)[0].records) == [b"a"]


def test_a_fetch_session_leaves_out_forgotten_partitions(node: Node) -> None:
    node.create(partitions=2)
    session = open_session(node, 0, 0)
    for index in (0, 1):
        node.append(b"a", index=index)
    forget = request(session_id=session, session_epoch=1)
    forget.forgotten_topics_data = [Request.ForgottenTopic(topic="t", topic_id=topic_id("t"), partitions=[0])]
    assert [p.partition_index for p in partitions(node.ask(fetch, forget, 12))] == [1]


def test_a_fetch_before_version_7_begins_no_session(node: Node) -> None:
    node.create()
    assert ask(node, 6, 0).session_id == 0
    assert len(node.replicas.sessions) == 0


def test_a_fetch_without_a_free_session_slot_is_served_without_a_session(make_node: Any) -> None:
    node = make_node(settings={"max.incremental.fetch.session.cache.slots": 0})
    node.create()
    response = ask(node, 12, 0, session_epoch=0)
    assert (response.error_code, response.session_id) == (0, 0)


def test_a_fetch_session_reports_a_deleted_topic(node: Node) -> None:
    node.create()
    session = open_session(node, 0, version=17)
    node.delete()
    [partition] = partitions(ask(node, 17, session_id=session, session_epoch=1))
    assert partition.error_code == errors.UnknownTopicId.code
