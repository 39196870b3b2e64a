"""Rights that change while a client is connected, forwarded requests, and the brokers' own rights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import pyclient.protocol as p
from pybroker.handlers.common import identity
from pybroker.handlers.common.security.rights import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from pybroker.handlers.find_coordinator import CoordinatorType
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop, pause
from pybroker.tests.security.rights import CLUSTER, EXISTS, TOPIC, TXN, FakeAuthorizer, batch, built, fetch, produce
from pybroker.tests.security.test_rights import Client, codes
from pyclient.protocol import errors
from pyclient.protocol.acls import AclOperation, AclResourceType
from pyclient.protocol.apis import Api


async def told(broker: Broker, api: Api, version: int, **fields: Any) -> Any:
    """Returns the response on a new connection."""
    async with Client(broker) as client:
        return await client.ask(api, version, built(api, fields))


async def until_told(broker: Broker, api: Api, version: int, **fields: Any) -> Any:
    """Returns the response once it has no error."""
    while codes(answer := await told(broker, api, version, **fields)):
        await pause()
    return answer


async def with_topic(cluster: Cluster, replicas: int = 1) -> FakeAuthorizer:
    """Makes a topic of one partition; returns an authorizer that all brokers ask."""
    broker = next(iter(cluster.brokers.values()))
    topic = {"name": EXISTS, "num_partitions": 1, "replication_factor": replicas}
    await until_told(broker, p.CreateTopics, 7, topics=[topic])
    authorizer = FakeAuthorizer()
    for each in cluster.brokers.values():
        await cluster.until(lambda each=each: EXISTS in each.metadata.image.topics)
        each.authorizer = authorizer
    return authorizer


def test_a_revoked_right_ends_at_the_next_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            authorizer = await with_topic(cluster)
            authorizer.allow((WRITE_TOPIC, EXISTS), (READ_TOPIC, EXISTS))
            async with Client(broker) as writer, Client(broker) as reader:

                async def written() -> set[int]:
                    return codes(await writer.ask(p.Produce, 9, built(p.Produce, produce(EXISTS, batch()))))

                async def fetched(**fields: Any) -> Any:
                    return await reader.ask(p.Fetch, 12, built(p.Fetch, {"min_bytes": 0, **fields}))

                assert await written() == set()
                first = await fetched(**fetch({"topic": EXISTS}, session_epoch=0))
                session = {"session_id": first.session_id}
                assert first.session_id
                assert codes(await fetched(**session, session_epoch=1)) == set()
                authorizer.allow()
                assert await written() == {TOPIC}
                refused = await fetched(**session, session_epoch=2)
                assert codes(refused) == {TOPIC}
                assert not refused.responses[0].partitions[0].records
                authorizer.allow((WRITE_TOPIC, EXISTS), (READ_TOPIC, EXISTS))
                assert await written() == set()
                assert codes(await fetched(**session, session_epoch=3)) == set()

    in_loop(main)


def test_a_waiting_fetch_returns_no_topic_that_was_forbidden_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            authorizer = await with_topic(cluster)
            authorizer.allow((READ_TOPIC, EXISTS))
            async with Client(broker) as reader:
                fields = fetch({"topic": EXISTS}, max_wait_ms=300_000, min_bytes=1)
                fetching = asyncio.ensure_future(reader.ask(p.Fetch, 12, built(p.Fetch, fields)))
                await cluster.until(lambda: len(broker.replicas.purgatory))
                authorizer.allow((WRITE_TOPIC, EXISTS))
                assert codes(await told(broker, p.Produce, 9, **produce(EXISTS, batch()))) == set()
                answer = await fetching
                assert codes(answer) == {TOPIC}
                assert not answer.responses[0].partitions[0].records

    in_loop(main)


@pytest.mark.parametrize("version", [12, 15])
def test_nobody_reads_as_a_replica_cve_2018_1288(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            authorizer = await with_topic(cluster)
            authorizer.allow((READ_TOPIC, EXISTS))
            topic = {"topic": EXISTS, "topic_id": broker.metadata.image.topics[EXISTS].id}
            state = p.Fetch.Request.ReplicaState(replica_id=2)
            more: dict[str, Any] = {"replica_state": state} if version > 14 else {"replica_id": 2}
            assert codes(await told(broker, p.Fetch, version, **fetch(topic, **more))) == {TOPIC}

    in_loop(main)


def test_a_topic_is_made_and_shown_only_with_the_rights_to_create_it_and_to_see_its_settings(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            authorizer = await with_topic(cluster)

            async def named(name: str) -> set[int]:
                return codes(await told(broker, p.Metadata, 9, topics=[{"name": name}]))

            authorizer.allow((DESCRIBE_TOPIC, "a"), (DESCRIBE_TOPIC, "b"))
            assert await named("a") == await named("unseen") == {TOPIC}
            assert broker.metadata.image.topics.keys() == {EXISTS}
            authorizer.allow((DESCRIBE_TOPIC, "a"), (CREATE_TOPIC, "a"))
            assert await named("a") == set()
            authorizer.allow((DESCRIBE_TOPIC, "b"), (CREATE_CLUSTER, "kafka-cluster"))
            assert await named("b") == set()
            topics = [{"name": "c", "num_partitions": 1, "replication_factor": 1}]
            made = (await told(broker, p.CreateTopics, 7, topics=topics)).topics[0]
            assert (made.error_code, made.topic_config_error_code, made.num_partitions) == (0, TOPIC, -1)
            assert not made.configs
            authorizer.allow((CREATE_TOPIC, "d"), (DESCRIBE_CONFIGS_TOPIC, "d"))
            made = (await told(broker, p.CreateTopics, 7, topics=[{**topics[0], "name": "d"}])).topics[0]
            assert (made.error_code, made.topic_config_error_code, made.num_partitions) == (0, 0, 1)
            assert made.configs

    in_loop(main)


def test_a_group_is_described_to_clients_that_may_see_all_of_its_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            authorizer = await with_topic(cluster)
            sees = [(READ_GROUP, "g"), (DESCRIBE_GROUP, "g"), (DESCRIBE_TOPIC, EXISTS)]
            authorizer.allow(*sees)
            await until_told(broker, p.FindCoordinator, 4, coordinator_keys=["g"])
            member = {
                "group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000,
                "subscribed_topic_names": [EXISTS], "topic_partitions": [],
            }  # fmt: skip
            await until_told(broker, p.ConsumerGroupHeartbeat, 1, **member)
            described = await told(broker, p.ConsumerGroupDescribe, 1, group_ids=["g"])
            assert codes(described) == set()
            assert described.groups[0].members
            authorizer.allow(*sees[:2])
            described = await told(broker, p.ConsumerGroupDescribe, 1, group_ids=["g"])
            assert (codes(described), described.groups[0].members) == ({TOPIC}, [])
            assert codes(await told(broker, p.ConsumerGroupHeartbeat, 1, **member)) == {TOPIC}

    in_loop(main)


def test_a_regular_expression_finds_only_topics_that_the_member_may_see(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            hidden = {"name": "hidden", "num_partitions": 1, "replication_factor": 1}
            await until_told(broker, p.CreateTopics, 7, topics=[hidden])
            authorizer = await with_topic(cluster)
            authorizer.allow((READ_GROUP, "g"), (DESCRIBE_GROUP, "g"), (DESCRIBE_TOPIC, EXISTS))
            await until_told(broker, p.FindCoordinator, 4, coordinator_keys=["g"])
            joining = {"rebalance_timeout_ms": 1000, "subscribed_topic_regex": ".*", "topic_partitions": []}
            answer = await until_told(
                broker, p.ConsumerGroupHeartbeat, 1, group_id="g", member_id="m", member_epoch=0, **joining
            )
            while answer.assignment is None or not answer.assignment.topic_partitions:
                await pause()
                beat = {"group_id": "g", "member_id": "m", "member_epoch": answer.member_epoch}
                answer = await told(broker, p.ConsumerGroupHeartbeat, 1, **beat)
            [assigned] = answer.assignment.topic_partitions
            assert assigned.topic_id == broker.metadata.image.topics[EXISTS].id

    in_loop(main)


def test_authorized_operations_are_returned(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            authorizer = await with_topic(cluster)
            describe = Right(AclOperation.DESCRIBE, AclResourceType.CLUSTER), "kafka-cluster"
            create = (CREATE_CLUSTER, "kafka-cluster")
            asked = {"include_cluster_authorized_operations": True}
            authorizer.allow(create)
            assert (await told(broker, p.DescribeCluster, 0, **asked)).cluster_authorized_operations == 0
            authorizer.allow(create, describe, (DESCRIBE_TOPIC, EXISTS), (READ_TOPIC, EXISTS), (DESCRIBE_GROUP, "g"))
            answer = await told(broker, p.DescribeCluster, 0, **asked)
            both = 1 << AclOperation.CREATE | 1 << AclOperation.DESCRIBE
            assert answer.cluster_authorized_operations == both
            topics = {"topics": [{"name": EXISTS}], "include_topic_authorized_operations": True}
            answer = await told(broker, p.Metadata, 9, **topics, **asked)
            assert answer.cluster_authorized_operations == both
            may = 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
            assert answer.topics[0].topic_authorized_operations == may
            paged = await told(broker, p.DescribeTopicPartitions, 0, topics=[{"name": EXISTS}])
            assert paged.topics[0].topic_authorized_operations == may
            await until_told(broker, p.FindCoordinator, 4, coordinator_keys=["g"])
            groups = await until_told(
                broker, p.DescribeGroups, 5, groups=["g"], include_authorized_operations=True
            )
            assert groups.groups[0].authorized_operations == 1 << AclOperation.DESCRIBE

    in_loop(main)


def test_the_controller_decides_by_the_rights_of_the_client(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            await with_topic(cluster)
            [other] = [each for each in cluster.brokers.values() if not each.controller.is_controller]
            [controller] = [each for each in cluster.brokers.values() if each.controller.is_controller]
            here, there = FakeAuthorizer(), FakeAuthorizer()
            other.authorizer, controller.authorizer = here, there
            topics = [{"name": "new", "num_partitions": 1, "replication_factor": 1}]
            assert codes(await told(other, p.CreateTopics, 7, topics=topics)) == {TOPIC}
            assert there.askers == {("User:ANONYMOUS", "127.0.0.1")}
            there.allow((CREATE_TOPIC, "new"), (DESCRIBE_CONFIGS_TOPIC, "new"))
            assert codes(await told(other, p.CreateTopics, 7, topics=topics)) == set()
            ending: dict[str, Any] = {"topic_partitions": [{"topic": EXISTS, "partitions": [0]}]}
            assert codes(await told(other, p.ElectLeaders, 2, **ending)) == {CLUSTER}
            # the broker's own requests have the broker's rights
            there.allow()
            here.allow((Right(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID), "t"))
            await until_told(other, p.FindCoordinator, 4, key_type=CoordinatorType.TRANSACTION, coordinator_keys=["t"])

    in_loop(main)


def test_only_a_broker_may_name_another_principal(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            authorizer = await with_topic(cluster)
            [controller] = [each for each in cluster.brokers.values() if each.controller.is_controller]
            [other] = [each for each in cluster.brokers.values() if not each.controller.is_controller]
            frame = p.CreateTopics.encode_request(7, 0, "c", p.CreateTopics.Request())
            data = (frame if isinstance(frame, bytes) else b"".join(frame))[4:]
            principal, host = identity.encoded("User:admin", "10.0.0.1")
            envelope = p.Envelope.Request(request_data=data, request_principal=principal, client_host_address=host)
            async with Client(controller) as client:
                assert (await client.ask(p.Envelope, 0, envelope)).error_code == CLUSTER
            assert ("User:admin", "10.0.0.1") not in authorizer.askers
            assert (await other.peers.request(controller.node_id, envelope)).error_code == 0
            assert ("User:admin", "10.0.0.1") in authorizer.askers
            for wrong in (b"", principal[:3]):
                envelope.request_principal = wrong
                answer = await other.peers.request(controller.node_id, envelope)
                assert answer.error_code == errors.PrincipalDeserializationFailure.code

    in_loop(main)


def test_a_partition_that_may_not_be_written_to_does_not_join_a_transaction_cve_2018_17196(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            authorizer = await with_topic(cluster)
            describes = Right(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
            authorizer.allow((WRITE_TRANSACTIONAL_ID, "t"), (describes, "t"))
            asked = {"key_type": CoordinatorType.TRANSACTION, "coordinator_keys": ["t"]}
            await until_told(broker, p.FindCoordinator, 4, **asked)
            first = {"transactional_id": "t", "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
            producer = await until_told(broker, p.InitProducerId, 4, **first)
            id, epoch = producer.producer_id, producer.producer_epoch
            records = batch(producer_id=id, producer_epoch=epoch, base_sequence=0, transactional=True)
            written = produce(EXISTS, records, transactional_id="t")
            assert codes(await told(broker, p.Produce, 12, **written)) == {TOPIC}
            authorizer.allow((WRITE_TOPIC, EXISTS))
            assert codes(await told(broker, p.Produce, 12, **written)) == {TXN}
            authorizer.allow((describes, "t"), (DESCRIBE_TOPIC, EXISTS))
            [state] = (await told(broker, p.DescribeTransactions, 0, transactional_ids=["t"])).transaction_states
            assert (state.transaction_state, state.topics) == ("Empty", [])
            assert broker.replicas.find(EXISTS, 0).log.log_end_offset == 0

    in_loop(main)


def test_brokers_replicate_and_end_transactions_whatever_clients_may(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path, **{"min.insync.replicas": "2"}) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            authorizer = await with_topic(cluster, replicas=2)
            describes = Right(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
            authorizer.allow((WRITE_TOPIC, EXISTS), (WRITE_TRANSACTIONAL_ID, "t"), (describes, "t"))
            image = cluster.brokers[1].metadata.image
            leader = cluster.brokers[image.topics[EXISTS].partitions[0].leader]
            written = produce(EXISTS, batch(), acks=-1)
            await until_told(leader, p.Produce, 9, **written)
            asked = {"key_type": CoordinatorType.TRANSACTION, "coordinator_keys": ["t"]}
            found = await until_told(leader, p.FindCoordinator, 4, **asked)
            coordinator = cluster.brokers[found.coordinators[0].node_id]
            first = {"transactional_id": "t", "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
            producer = await until_told(coordinator, p.InitProducerId, 4, **first)
            id, epoch = producer.producer_id, producer.producer_epoch
            records = batch(producer_id=id, producer_epoch=epoch, base_sequence=0, transactional=True)
            await until_told(leader, p.Produce, 12, **produce(EXISTS, records, acks=-1, transactional_id="t"))
            ending = {"transactional_id": "t", "producer_id": id, "producer_epoch": epoch, "committed": True}
            await until_told(coordinator, p.EndTxn, 5, **ending)
            partition = leader.replicas.find(EXISTS, 0)
            await cluster.until(lambda: partition.log.last_stable_offset == partition.log.log_end_offset > 2)

    in_loop(main)
