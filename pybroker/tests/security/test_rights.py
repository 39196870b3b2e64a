"""Without a right a client gets Kafka's error and no data, and nothing changes; the least right is enough."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

import pyclient.protocol as p
from pybroker.handlers import ROWS
from pybroker.handlers.common.security.rights import (
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    NOTHING,
    Right,
)
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster
from pybroker.tests.security.rights import (
    ABSENT,
    CASES,
    DENIED,
    EXISTS,
    TOPIC,
    Case,
    FakeAuthorizer,
    batch,
    built,
    fetch,
    produce,
)
from pybroker.topic_partition import TopicPartition
from pyclient.protocol.apis import Api
from pyclient.protocol.frames import decode_response_header

ELSEWHERE = {p.ListGroups, p.ListTransactions}
"""APIs that refuse nobody, but omit what the client may not see; other tests of this module send them."""
ONLY_NAMED = {p.CreateDelegationToken, p.DescribeDelegationToken}
"""APIs that anonymous clients may not use; ``test_delegation_tokens`` sends them."""
TELLING = {p.DescribeTopicPartitions}
"""APIs that also check other rights, because they tell the client which operations it may do."""
BESIDES: dict[Api, set[Right]] = {
    p.Fetch: {CLUSTER_ACTION},  # a right of brokers, which prove who they are
    p.Metadata: {CREATE_TOPIC, CREATE_CLUSTER},
    p.CreateTopics: {DESCRIBE_CONFIGS_TOPIC},
    p.DeleteTopics: {DESCRIBE_TOPIC},
    p.DescribeTransactions: {DESCRIBE_TOPIC},
    p.ConsumerGroupDescribe: {DESCRIBE_TOPIC},
}
EVERYTHING = [(right, name) for row in ROWS for right in row.needs.rights for name in (EXISTS, "kafka-cluster")]


class Client:
    """A connection to a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection(*self._broker.addresses()[0])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, api: Api, version: int, request: Any) -> Any:
        """Sends the request; returns the broker's answer."""
        self._writer.write(encoded(api.encode_request(version, 1, "client", request)))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        data = await self._reader.readexactly(size)
        header = decode_response_header(api, version, data, 0, size)
        return api.decode_response(version, data, header.position, size)


def encoded(frame: Any) -> bytes:
    """Returns a frame in one piece."""
    return frame if isinstance(frame, bytes) else b"".join(frame)


class Served:
    """A broker whose loop runs only while it answers a request, and its authorizer."""

    def __init__(self, runner: asyncio.Runner, broker: Broker) -> None:
        self._runner = runner
        self.broker = broker
        self.authorizer = FakeAuthorizer()

    def ask(self, api: Api, version: int, request: Any) -> Any:
        """Sends the request; returns the broker's answer."""

        async def asked() -> Any:
            async with Client(self.broker) as client:
                return await client.ask(api, version, request)

        return self._runner.run(asked())

    def told(self, api: Api, version: int, **fields: Any) -> Any:
        """Returns the response to a request with these fields."""
        return self.ask(api, version, built(api, fields))

    def prepare(self) -> None:
        """Creates the topic, the group and the transactional id of the tests."""
        self.broker.authorizer = None
        topic = {"name": EXISTS, "num_partitions": 1, "replication_factor": 1}
        assert codes(self.told(p.CreateTopics, 7, topics=[topic])) == set()
        assert codes(self.told(p.Produce, 9, **produce(EXISTS, batch()))) == set()
        for kind in (0, 1):
            self.told(p.FindCoordinator, 4, key_type=kind, coordinator_keys=[EXISTS])
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        while codes(self.told(p.OffsetCommit, 8, group_id=EXISTS, topics=[{"name": EXISTS, "partitions": partitions}])):
            pass
        first = {"transactional_id": EXISTS, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
        while codes(self.told(p.InitProducerId, 4, **first)):
            pass
        self.broker.authorizer = self.authorizer

    def state(self) -> object:
        """Returns the state that a refused request must not change."""
        [shards] = [self.broker.groups.runtime.loaded_shards()]
        partition = self.broker.replicas.partition(TopicPartition(EXISTS, 0))
        return self.broker.metadata.image.version, partition.log.log_end_offset, len(list(shards))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Starts one broker for all tests, with the resources that exist."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        cluster = runner.run(Cluster(tmp_path_factory.mktemp("rights")).__aenter__())
        served = Served(runner, runner.run(cluster.start(1)))
        served.prepare()
        yield served
        runner.run(cluster.__aexit__())


@pytest.fixture(autouse=True)
def nothing_is_allowed(served: Served) -> None:
    """Takes all rights from the client before each test."""
    served.authorizer.allow()


def codes(response: Any) -> set[int]:
    """Returns all error codes in a response."""
    return {int(code) for code in re.findall(r"error_code=(-?\d+)", repr(response))} - {0}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_the_right_nothing_is_done_and_nothing_revealed(case: Case, served: Served) -> None:
    before = served.state()
    answers = [served.ask(case.api, case.version, case.request(name)) for name in (EXISTS, ABSENT)]
    assert [codes(answer) for answer in answers] == [{case.denied}] * 2
    of_one, of_other = (encoded(case.api.encode_response(case.version, 1, answer)) for answer in answers)
    assert of_one.replace(EXISTS.encode(), ABSENT.encode()) == of_other
    assert served.authorizer.denials
    for lacking in case.rights(EXISTS):
        served.authorizer.allow(*(right for right in case.rights(EXISTS) if right != lacking))
        assert codes(served.ask(case.api, case.version, case.request(EXISTS))) & DENIED
    assert served.state() == before


@pytest.mark.parametrize("case", CASES, ids=str)
def test_with_the_least_right_it_is_served(case: Case, served: Served) -> None:
    served.authorizer.allow(*case.rights(case.on))
    found = codes(served.ask(case.api, case.version, case.request(case.on)))
    assert found == case.works if case.works is not None else not found & DENIED


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.api.name)
def test_an_api_requires_the_rights_of_its_row(row: Any, served: Served) -> None:
    cases = [case for case in CASES if case.api is row.api]
    assert bool(cases) == bool(row.needs.rights) or row.api in ELSEWHERE | ONLY_NAMED | {p.DescribeCluster}
    served.authorizer.asked.clear()
    for case in cases:
        for rights in ([], case.rights(case.on)):
            served.authorizer.allow(*rights)
            served.ask(case.api, case.version, case.request(case.on))
    asked = served.authorizer.asked | BESIDES.get(row.api, set())
    assert not cases or asked == set(row.needs.rights) or row.api in TELLING


def test_only_the_apis_that_begin_a_connection_need_no_right() -> None:
    free = {row.api for row in ROWS if row.needs == NOTHING}
    tokens = {p.RenewDelegationToken, p.ExpireDelegationToken}  # whose owners and renewers need no right
    assert free == {p.ApiVersions, p.SaslHandshake, p.SaslAuthenticate} | tokens


def test_a_refused_fetch_lists_no_aborted_transactions(served: Served) -> None:
    [topic] = served.told(p.Fetch, 12, **fetch({"topic": EXISTS})).responses
    assert topic.partitions[0].aborted_transactions == []


def test_a_refused_join_names_no_member(served: Served) -> None:
    joining = {"group_id": EXISTS, "session_timeout_ms": 10_000, "protocol_type": "consumer", "member_id": "m"}
    assert served.told(p.JoinGroup, 5, **joining).member_id == ""


# Responses that omit what the client may not see


def test_metadata_of_all_topics_returns_only_visible_ones(served: Served) -> None:
    assert served.told(p.Metadata, 9, topics=None).topics == []
    assert served.told(p.DescribeTopicPartitions, 0).topics == []
    assert not served.authorizer.denials
    served.authorizer.allow((DESCRIBE_TOPIC, EXISTS))
    assert [topic.name for topic in served.told(p.Metadata, 9, topics=None).topics] == [EXISTS]
    assert [topic.name for topic in served.told(p.DescribeTopicPartitions, 0).topics] == [EXISTS]


def test_a_page_of_topics_does_not_end_at_a_hidden_one(served: Served) -> None:
    served.authorizer.allow((DESCRIBE_TOPIC, "__consumer_offsets"), (DESCRIBE_TOPIC, EXISTS))
    page = served.told(p.DescribeTopicPartitions, 0, response_partition_limit=2)
    assert page.next_cursor.topic_name == EXISTS
    cursor = p.DescribeTopicPartitions.Request.Cursor(topic_name="", partition_index=-1)
    assert served.told(p.DescribeTopicPartitions, 0, cursor=cursor).topics == []


def test_a_topic_by_its_id_has_no_name_for_clients_that_may_not_describe_it(served: Served) -> None:
    topic_id = served.broker.metadata.image.topics[EXISTS].id
    [topic] = served.told(p.Metadata, 12, topics=[{"topic_id": topic_id, "name": None}]).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (TOPIC, None, topic_id)
    [deleted] = served.told(p.DeleteTopics, 6, topics=[{"topic_id": topic_id}]).responses
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (TOPIC, None, topic_id)
    served.authorizer.allow((DESCRIBE_TOPIC, EXISTS))
    [deleted] = served.told(p.DeleteTopics, 6, topics=[{"topic_id": topic_id}]).responses
    assert (deleted.error_code, deleted.name) == (TOPIC, EXISTS)
    [deleted] = served.told(p.DeleteTopics, 6, topics=[{"topic_id": topic_id, "name": "other"}]).responses
    assert deleted.name == "other"


def test_topics_by_their_ids_are_refused_as_by_their_names(served: Served) -> None:
    topic_id = served.broker.metadata.image.topics[EXISTS].id
    written = produce("", batch())
    written["topic_data"][0] = {**written["topic_data"][0], "topic_id": topic_id}
    assert codes(served.told(p.Produce, 13, **written)) == {TOPIC}
    assert codes(served.told(p.Fetch, 13, **fetch({"topic_id": topic_id}))) == {TOPIC}
    served.authorizer.allow(*((right, EXISTS) for right, _ in EVERYTHING if right.kind.name == "GROUP"))
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    topics = [{"topic_id": topic_id, "partitions": partitions}]
    assert codes(served.told(p.OffsetCommit, 10, group_id=EXISTS, topics=topics)) == {TOPIC}
    topics = [{"topic_id": topic_id, "partition_indexes": [0]}]
    assert codes(served.told(p.OffsetFetch, 10, groups=[{"group_id": EXISTS, "topics": topics}])) == {TOPIC}


@pytest.mark.parametrize("version", [7, 8])
def test_offset_fetch_of_all_topics_returns_only_visible_ones(version: int, served: Served) -> None:
    fields = {"group_id": EXISTS, "topics": None}
    asked = fields if version == 7 else {"groups": [fields]}

    def topics() -> list[str]:
        told = served.told(p.OffsetFetch, version, **asked)
        return [topic.name for topic in (told if version == 7 else told.groups[0]).topics]

    served.authorizer.allow((DESCRIBE_GROUP, EXISTS))
    assert topics() == []
    served.authorizer.allow((DESCRIBE_GROUP, EXISTS), (DESCRIBE_TOPIC, EXISTS))
    assert topics() == [EXISTS]


def test_groups_and_transactions_that_may_not_be_described_are_left_out(served: Served) -> None:
    def listed() -> tuple[list[str], list[str]]:
        groups = served.told(p.ListGroups, 4).groups
        transactions = served.told(p.ListTransactions, 0).transaction_states
        return [each.group_id for each in groups], [each.transactional_id for each in transactions]

    served.authorizer.asked.clear()
    assert listed() == ([], [])
    assert not served.authorizer.denials
    needed = {right for row in ROWS if row.api in ELSEWHERE for right in row.needs.rights}
    assert served.authorizer.asked == needed
    served.authorizer.allow(*((right, EXISTS) for right in needed))
    groups, transactions = listed()
    assert (groups, transactions) == ([EXISTS], [EXISTS])
    served.authorizer.allow((DESCRIBE_CLUSTER, "kafka-cluster"))
    groups, transactions = listed()
    assert EXISTS in groups
    assert not transactions
