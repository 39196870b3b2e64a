"""A request of many items is answered in slices as it would be as a whole."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from pybroker.handlers import SERVED
from pybroker.handlers.common import slices
from pybroker.handlers.tests.harness import Node
from pyclient.protocol import (
    AlterPartitionReassignments,
    DeleteRecords,
    DeleteTopics,
    OffsetCommit,
    OffsetFetch,
    WriteTxnMarkers,
    errors,
)


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
