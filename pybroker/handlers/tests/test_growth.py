"""Work for all partitions grows only linearly with their number. The tests count calls of Python and C functions.

Time would tell more, but depends on the machine. A loop that stays inside one C or Cython function counts once; the
benchmark's suite ``scale`` measures what this misses.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from pybroker.handlers import describe_log_dirs, fetch, list_offsets
from pybroker.handlers.tests.admin.administration import Administration, run
from pybroker.handlers.tests.harness import Node
from pybroker.handlers.tests.test_fetch import request as fetching
from pyclient.protocol import CreateTopics, DeleteTopics, DescribeLogDirs, Fetch, ListOffsets, Metadata

FEW, MANY = 100, 1_000
#: Ten times the partitions take at most so many times the calls; 10 ** 1.1 is 12.6.
MOST = 12

Nodes = dict[int, Node]


class Calls:
    """Counts the calls that this thread makes inside ``with``."""

    def __init__(self) -> None:
        self.count = 0

    def _on_event(self, frame: FrameType, event: str, arg: object) -> None:
        self.count += event in ("call", "c_call")

    def __enter__(self) -> Calls:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def assert_grows_slowly(few: int, many: int) -> None:
    """Checks that MANY partitions take at most ``MOST`` times as many calls as FEW."""
    assert many > MANY, "not even one for each partition"
    assert many <= MOST * few, f"{few} calls for {FEW} partitions, {many} for {MANY}"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A broker for each number of partitions, all of them of one topic."""
    made = {partitions: Node(tmp_path_factory.mktemp("node")) for partitions in (FEW, MANY)}
    for partitions, node in made.items():
        node.create(partitions=partitions)
    yield made
    for node in made.values():
        node.close()


def asked(nodes: Nodes, handler: object, request: Callable[[int], object], version: int) -> list[int]:
    """Returns the handler's calls for FEW and for MANY items, of the second request, when caches are filled."""
    found = []
    for partitions, node in nodes.items():
        node.ask(handler, request(partitions), version)
        message = request(partitions)
        with Calls() as calls:
            node.ask(handler, message, version)
        found.append(calls.count)
    return found


def test_the_work_of_list_offsets_grows_in_proportion_to_the_partitions(nodes: Nodes) -> None:
    kind = ListOffsets.Request

    def request(partitions: int) -> ListOffsets.Request:
        rows = [kind.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        return kind(topics=[kind.ListOffsetsTopic(name="t", partitions=rows)])

    assert_grows_slowly(*asked(nodes, list_offsets, request, 7))


def test_the_work_of_a_fetch_grows_in_proportion_to_the_partitions(nodes: Nodes) -> None:
    assert_grows_slowly(*asked(nodes, fetch, lambda partitions: fetching(*[0] * partitions, session_epoch=-1), 12))


def test_the_work_of_an_empty_incremental_fetch_grows_in_proportion_to_the_partitions(nodes: Nodes) -> None:
    found = []
    for partitions, node in nodes.items():
        session = node.ask(fetch, fetching(*[0] * partitions, session_epoch=0), 12).session_id
        empty = Fetch.Request(session_id=session, session_epoch=1, max_wait_ms=0)
        with Calls() as calls:
            response = node.ask(fetch, empty, 12)
        assert (response.session_id, response.responses) == (session, [])
        found.append(calls.count)
    assert_grows_slowly(*found)


def test_the_work_of_describe_log_dirs_grows_in_proportion_to_the_partitions(nodes: Nodes) -> None:
    assert_grows_slowly(*asked(nodes, describe_log_dirs, lambda _: DescribeLogDirs.Request(topics=None), 4))


def test_the_work_to_create_and_delete_logs_grows_in_proportion_to_the_partitions(
    make_node: Callable[..., Node]
) -> None:
    node = make_node()
    made, deleted = [], []
    for partitions in (FEW, MANY):
        with Calls() as calls:
            node.create(partitions=partitions)
        made.append(calls.count)
        with Calls() as calls:
            node.delete()
        deleted.append(calls.count)
    assert_grows_slowly(*made)
    assert_grows_slowly(*deleted)


Creatable = CreateTopics.Request.CreatableTopic


def one_topic(partitions: int) -> list[Creatable]:
    return [Creatable(name="t", num_partitions=partitions, replication_factor=1)]


def topics_of_one(partitions: int) -> list[Creatable]:
    return [Creatable(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(partitions)]


def finishing_of(ask: Administration) -> asyncio.Task[None]:
    """Returns the task that finishes deletions after their answers."""
    finishing = ask.broker.controller.deletions._finishing
    assert finishing is not None
    return finishing


@pytest.mark.parametrize("topics", [one_topic, topics_of_one])
def test_the_work_for_topics_and_their_metadata_grows_in_proportion_to_the_partitions(
    topics: Callable[[int], list[Creatable]]
) -> None:
    found: dict[str, list[int]] = {"made": [], "told": [], "deleted": []}

    async def scenario(ask: Administration) -> None:
        for partitions in (FEW, MANY):
            wanted = topics(partitions)
            with Calls() as calls:
                response = await ask(CreateTopics, 5, CreateTopics.Request(topics=wanted))
            assert {topic.error_code for topic in response.topics} == {0}
            found["made"].append(calls.count)
            with Calls() as calls:
                await ask(Metadata, 12, Metadata.Request(topics=None))
            found["told"].append(calls.count)
            with Calls() as calls:
                await ask(DeleteTopics, 5, DeleteTopics.Request(topic_names=[topic.name for topic in wanted]))
                await asyncio.wait([finishing_of(ask)])
            found["deleted"].append(calls.count)

    run(scenario)
    for few_and_many in found.values():
        assert_grows_slowly(*few_and_many)
