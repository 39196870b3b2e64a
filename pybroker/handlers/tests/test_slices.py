"""A request of many items is answered in slices as it would be as a whole."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from pybroker.handlers import SERVED, alter_replica_log_dirs, list_offsets, offset_for_leader_epoch, rows
from pybroker.handlers.common import slices
from pybroker.handlers.tests.harness import Node
from pyclient.protocol import (
    AlterPartitionReassignments,
    AlterReplicaLogDirs,
    DeleteRecords,
    DeleteTopics,
    ListOffsets,
    Metadata,
    OffsetCommit,
    OffsetFetch,
    OffsetForLeaderEpoch,
    WriteTxnMarkers,
    errors,
)

PARTITIONS = 90


def of_offsets() -> ListOffsets.Request:
    kind = ListOffsets.Request
    return kind(
        topics=[
            kind.ListOffsetsTopic(
                name=name,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)
                ],
            )
            for name in ("t", "none", "u")
        ]
    )


def of_epochs() -> OffsetForLeaderEpoch.Request:
    kind = OffsetForLeaderEpoch.Request
    partitions = [kind.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(PARTITIONS)]
    return kind(topics=[kind.OffsetForLeaderTopic(topic=name, partitions=partitions) for name in ("t", "u")])


def of_moves() -> AlterReplicaLogDirs.Request:
    kind = AlterReplicaLogDirs.Request
    topic = kind.AlterReplicaLogDirTopic(name="none", partitions=list(range(PARTITIONS)))
    return kind(dirs=[kind.AlterReplicaLogDir(path="/nowhere", topics=[topic])])


CASES = [
    (list_offsets, ListOffsets, of_offsets, 7),
    (offset_for_leader_epoch, OffsetForLeaderEpoch, of_epochs, 4),
    (alter_replica_log_dirs, AlterReplicaLogDirs, of_moves, 2),
]


@pytest.mark.parametrize(("handler", "api", "make", "version"), CASES, ids=[case[1].name for case in CASES])
def test_slices_are_answered_as_the_whole_is(node: Node, handler: Any, api: Any, make: Any, version: int) -> None:
    node.create("t", partitions=PARTITIONS)
    node.create("u", partitions=3)
    calls: list[int] = []

    def counted(request: Any, call: Any) -> Any:
        calls.append(1)
        return handler.handle(request, call)

    whole = node.ask(handler, make(), version)
    request = make()
    sliced = slices.sliced(counted, slices.SPLITS[api])(request, node.call(version))
    assert node.run(sliced) == whole
    assert len(calls) > 1
    assert request == make()
    assert node.connection.held == 0


def test_a_partition_that_is_named_twice_in_different_slices_is_refused(node: Node) -> None:
    node.create("t", partitions=PARTITIONS)
    request = of_offsets()
    request.topics[0].partitions += request.topics[0].partitions[:2] + request.topics[0].partitions[-1:]
    whole = node.ask(list_offsets, request, 7)
    sliced = node.run(slices.sliced(list_offsets.handle, slices.SPLITS[ListOffsets])(request, node.call(7)))
    for response in (whole, sliced):
        refused = {each.partition_index for each in response.topics[0].partitions if each.error_code}
        assert refused == {0, 1, PARTITIONS - 1}


def of_groups() -> OffsetFetch.Request:
    kind = OffsetFetch.Request
    topics = [kind.OffsetFetchRequestTopics(name="t", partition_indexes=list(range(1500)))]
    return kind(groups=[kind.OffsetFetchRequestGroup(group_id=id, topics=topics) for id in ("g", "h")])


@pytest.mark.parametrize("refused", [range(1), range(2, 3), range(2, 100)], ids=["first", "one", "all_later"])
def test_a_group_that_one_slice_meets_an_error_of_is_answered_with_that_error_alone(node: Node, refused: range) -> None:
    kind, slices_of_g = OffsetFetch.Response, count()

    def handle(request: Any, call: Any) -> Any:
        return kind(groups=[answer(group) for group in request.groups])

    def answer(group: Any) -> Any:
        if group.group_id == "g" and next(slices_of_g) in refused:
            return kind.OffsetFetchResponseGroup(group_id="g", error_code=errors.NotCoordinator.code)
        [topic] = group.topics
        partitions = [kind.OffsetFetchResponsePartitions(partition_index=index) for index in topic.partition_indexes]
        topics = [kind.OffsetFetchResponseTopics(name=topic.name, partitions=partitions)]
        return kind.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)

    response = node.run(slices.sliced(handle, slices.SPLITS[OffsetFetch])(of_groups(), node.call(9)))
    assert next(slices_of_g) > 3
    g, h = response.groups
    assert (g.group_id, g.error_code, g.topics) == ("g", errors.NotCoordinator.code, [])
    assert (h.group_id, h.error_code) == ("h", 0)
    assert [len(topic.partitions) for topic in h.topics] == [1500]


def test_the_first_error_of_a_request_is_told_with_its_message(node: Node) -> None:
    kind, served = AlterPartitionReassignments, count()

    def handle(request: Any, call: Any) -> Any:
        number = next(served)
        if not number:
            return kind.Response()
        return kind.Response(error_code=errors.NotController.code, error_message=f"in slice {number}")

    partitions = [kind.Request.ReassignablePartition(partition_index=index) for index in range(3000)]
    request = kind.Request(topics=[kind.Request.ReassignableTopic(name="t", partitions=partitions)])
    response = node.run(slices.sliced(handle, slices.SPLITS[kind])(request, node.call(1)))
    assert next(served) > 2
    assert (response.error_code, response.error_message) == (errors.NotController.code, "in slice 1")


def test_the_timeout_of_a_request_is_that_of_all_its_slices(node: Node) -> None:
    kind = DeleteRecords.Request
    partitions = [kind.DeleteRecordsPartition(partition_index=index, offset=0) for index in range(400)]
    left: list[int] = []

    def handle(request: Any, call: Any) -> Any:
        left.append(request.timeout_ms)
        node.clock.advance(400)
        return DeleteRecords.Response()

    request = kind(topics=[kind.DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=1000)
    node.run(slices.sliced(handle, slices.SPLITS[DeleteRecords])(request, node.call(2)))
    assert left[:4] == [1000, 600, 200, 0][: len(left)]
    assert len(left) > 2
    assert request.timeout_ms == 1000


def test_others_are_served_between_two_slices(node: Node) -> None:
    rounds: list[int] = []
    seen: list[int] = []

    async def ask() -> None:
        def turn() -> None:
            rounds.append(1)
            loop.call_soon(turn)

        def handle(request: Any, call: Any) -> Any:
            seen.append(len(rounds))
            return ListOffsets.Response()

        loop = asyncio.get_running_loop()
        loop.call_soon(turn)
        route = slices.sliced(handle, slices.SPLITS[ListOffsets])
        await route(of_offsets(), node.call(7))

    node.run(ask())
    assert len(seen) > 3
    assert len(set(seen)) == len(seen)


def test_a_slice_is_as_large_as_a_write_to_the_store_is_worth(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes; and as small as the controller takes it from another broker."""
    sizes: list[int] = []

    def handle(request: Any, call: Any) -> Any:
        sizes.append(len(request.topic_names))
        return DeleteTopics.Response()

    for took_s in (1.0, 0.0):
        times = count(0, took_s)
        monkeypatch.setattr(node.turns, "busy_s", lambda times=times: next(times))
        request = DeleteTopics.Request(topic_names=[f"t{number}" for number in range(1000)])
        node.run(slices.sliced(handle, slices.SPLITS[DeleteTopics])(request, node.call(5)))
    assert sizes == [100] * 10 + [100] + [200] * 4 + [100]


def of_commits(count: int) -> OffsetCommit.Request:
    kind = OffsetCommit.Request
    partitions = [kind.OffsetCommitRequestPartition(partition_index=index) for index in range(count)]
    return kind(topics=[kind.OffsetCommitRequestTopic(name="t", partitions=partitions)])


def of_markers(count: int) -> WriteTxnMarkers.Request:
    kind = WriteTxnMarkers.Request
    topic = kind.WritableTxnMarkerTopic(name="t", partition_indexes=list(range(count)))
    return kind(markers=[kind.WritableTxnMarker(topics=[topic])])


def of_deletions(count: int) -> DeleteRecords.Request:
    kind = DeleteRecords.Request
    partitions = [kind.DeleteRecordsPartition(partition_index=index) for index in range(count)]
    return kind(topics=[kind.DeleteRecordsTopic(name="t", partitions=partitions)])


WAITING = [(OffsetCommit, of_commits, 500), (WriteTxnMarkers, of_markers, 64), (DeleteRecords, of_deletions, 32)]


@pytest.mark.parametrize(("api", "make", "least"), WAITING, ids=[case[0].name for case in WAITING])
def test_a_slice_is_as_large_as_a_wait_for_other_replicas_is_worth(
    node: Node, monkeypatch: pytest.MonkeyPatch, api: Any, make: Any, least: int
) -> None:
    """However busy the loop is meanwhile, which serves others."""
    slices_served: list[int] = []

    async def handle(request: Any, call: Any) -> Any:
        slices_served.append(1)
        await asyncio.sleep(0)
        return api.Response()

    times = count(0, 1.0)
    monkeypatch.setattr(node.turns, "busy_s", lambda: next(times))
    node.run(slices.sliced(handle, slices.SPLITS[api])(make(10 * least), node.call(2)))
    assert len(slices_served) == 10


def test_a_request_of_few_items_goes_to_its_handler_as_it_is(node: Node) -> None:
    node.create("t")
    request = Metadata.Request(topics=[Metadata.Request.MetadataRequestTopic(name="t")])
    got: list[Any] = []
    route = slices.sliced(lambda asked, call: got.append(asked), slices.SPLITS[Metadata])
    route(request, node.call(9))
    assert got[0] is request


def test_an_item_that_holds_nothing_is_not_lost() -> None:
    kind = ListOffsets.Request
    part = kind.ListOffsetsPartition(partition_index=1)
    topics = [
        kind.ListOffsetsTopic(name="a", partitions=[part, part]),
        kind.ListOffsetsTopic(name="empty"),
        kind.ListOffsetsTopic(name="b", partitions=[part]),
    ]
    path = ("topics", "partitions")
    assert slices.build(list(slices.leaves(topics, path)), path) == topics


@pytest.mark.parametrize("api", list(slices.SPLITS), ids=lambda api: api.name)
def test_every_split_names_fields_that_are_there(api: Any) -> None:
    for split in slices.SPLITS[api]:
        for message, path in ((api.Request, split.asked), (api.Response, split.told)):
            kind = message
            for depth, name in enumerate(path):
                assert isinstance(getattr(kind(), name) or [], list)
                if depth < len(path) - 1:
                    kind = next(
                        nested
                        for nested in vars(message).values()
                        if isinstance(nested, type) and path[depth + 1] in getattr(nested, "__slots__", ())
                    )
    assert SERVED[api] is not None


def test_what_is_not_served_in_slices_is_limited() -> None:
    for row in rows():
        assert row.most_units <= 300_000
