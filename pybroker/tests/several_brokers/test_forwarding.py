"""Clients can send requests for the controller to any broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pybroker.cluster.decisions.config_changes import ConfigOperation
from pybroker.net.peer_connection import PeerConnection, connect
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.waiting import PATIENCE_S
from pyclient.protocol import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeCluster,
    Envelope,
    FindCoordinator,
    IncrementalAlterConfigs,
    Metadata,
    errors,
)
from pyclient.protocol.apis import Api

Creatable = CreateTopics.Request.CreatableTopic
Resource = IncrementalAlterConfigs.Request.AlterConfigsResource
Config = IncrementalAlterConfigs.Request.AlterableConfig


def setting(kind: int, name: str, key: str, value: str) -> Resource:
    config = Config(name=key, config_operation=ConfigOperation.SET, value=value)
    return Resource(resource_type=kind, resource_name=name, configs=[config])


async def ask(broker: Broker, api: Api, version: int, request: Any) -> Any:
    """Returns the response of a broker, on a new connection."""
    host, port = broker.addresses()[0]
    loop = asyncio.get_running_loop()
    sock = await connect(loop, host, port, -1)
    client = PeerConnection(loop, sock, broker.peers.memory, lambda lost: None)
    answer: asyncio.Future[Any] = loop.create_future()

    def done(response: Any, error: errors.KafkaError | None) -> None:
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(response)

    client.send(api, version, request, done)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await answer
    finally:
        client.lose("asked")


def others(cluster: Cluster) -> list[Broker]:
    return [broker for broker in cluster.brokers.values() if not broker.controller.is_controller]


def test_a_topic_is_known_to_the_broker_that_answers_its_creation(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            for node_id in (1, 2, 3):
                await cluster.start(node_id)
            for n, broker in enumerate(others(cluster)):
                topic = Creatable(name=f"t{n}", num_partitions=3, replication_factor=2)
                made = await ask(broker, CreateTopics, 7, CreateTopics.Request(topics=[topic]))
                assert [t.error_code for t in made.topics] == [0]
                assert broker.metadata.image.topics[f"t{n}"].id == made.topics[0].topic_id
                again = await ask(broker, CreateTopics, 2, CreateTopics.Request(topics=[topic]))
                assert again.topics[0].error_code == errors.TopicAlreadyExists.code
                grown = CreatePartitions.Request.CreatePartitionsTopic(
                    name=f"t{n}", count=5, assignments=None
                )
                await ask(broker, CreatePartitions, 3, CreatePartitions.Request(topics=[grown]))
                assert len(broker.metadata.image.topics[f"t{n}"].partitions) == 5
                gone = await ask(broker, DeleteTopics, 1, DeleteTopics.Request(topic_names=[f"t{n}"]))
                assert gone.responses[0].error_code == 0
                assert f"t{n}" not in broker.metadata.image.topics

    in_loop(main)


def test_any_broker_creates_missing_topics_and_names_the_controller(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            for node_id in (1, 2, 3):
                await cluster.start(node_id)
            broker = others(cluster)[0]
            wanted = Metadata.Request(
                topics=[Metadata.Request.MetadataRequestTopic(name="auto")],
                allow_auto_topic_creation=True,
            )
            metadata = await ask(broker, Metadata, 12, wanted)
            assert metadata.topics[0].error_code == 0
            assert metadata.controller_id == 1
            assert len(metadata.brokers) == 3
            described = await ask(broker, DescribeCluster, 0, DescribeCluster.Request())
            assert described.controller_id == 1
            found = await ask(
                broker, FindCoordinator, 4, FindCoordinator.Request(coordinator_keys=["g"])
            )
            assert found.coordinators[0].error_code == 0

    in_loop(main)


def test_settings_of_a_broker_are_in_effect_there_and_loggers_stay_local(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            [broker] = others(cluster)
            me = str(broker.node_id)
            request = IncrementalAlterConfigs.Request(
                resources=[
                    setting(4, me, "log.retention.ms", "77"),
                    setting(8, me, "pybroker.server", "INFO"),
                    setting(2, "nothing", "retention.ms", "1"),
                ]
            )
            response = await ask(broker, IncrementalAlterConfigs, 1, request)
            assert [r.error_code for r in response.responses] == [
                0,
                0,
                errors.UnknownTopicOrPartition.code,
            ]
            assert broker.config["log.retention.ms"] == 77

    in_loop(main)


def test_a_client_cannot_pretend_to_be_a_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            envelope = Envelope.Request(request_data=b"", client_host_address=b"")
            answer = await ask(broker, Envelope, 0, envelope)
            assert answer.error_code == errors.ClusterAuthorizationFailed.code

    in_loop(main)


def test_a_request_waits_for_the_next_controller(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(tmp_path) as cluster:
            for node_id in (1, 2, 3):
                await cluster.start(node_id)
            survivor = cluster.brokers[2]
            asked = [
                asyncio.ensure_future(
                    ask(
                        survivor,
                        CreateTopics,
                        7,
                        CreateTopics.Request(
                            topics=[Creatable(name=f"t{n}", num_partitions=1, replication_factor=2)]
                        ),
                    )
                )
                for n in range(5)
            ]
            await cluster.kill(1)
            for each in asked:
                code = (await each).topics[0].error_code
                assert code in (0, errors.TopicAlreadyExists.code)
            assert {f"t{n}" for n in range(5)} <= survivor.metadata.image.topics.keys()

    in_loop(main)
