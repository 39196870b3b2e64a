"""Brokers authenticate each other, and lost requests are reported."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from pybroker.cluster import peer_secret
from pybroker.coordinator.shard import Producer
from pybroker.coordinator.txn.remote import RemoteCoordinator, RemoteWriter
from pybroker.log.producers.marker import EndTxnMarker
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.waiting import PATIENCE_S
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import CreateTopics, DeleteTopics, DescribeCluster, errors


def test_two_brokers_prove_to_each_other_that_they_know_the_peer_secret() -> None:
    server = peer_secret.Server(b"secret", 1, bytes(32))
    client = peer_secret.Client(b"secret", 2, 1, bytes(32))
    answer, nobody = server.on_message(client.first)
    assert nobody is None
    assert server.on_message(client.on_answer(answer)) == (b"", 2)


def test_a_process_without_the_peer_secret_is_not_accepted_as_a_broker() -> None:
    server = peer_secret.Server(b"secret", 1, bytes(32))
    client = peer_secret.Client(b"guess", 2, 1, bytes(32))
    answer, _ = server.on_message(client.first)
    with pytest.raises(peer_secret.NotAPeer):
        client.on_answer(answer)
    with pytest.raises(peer_secret.NotAPeer):
        server.on_message(peer_secret.proof(b"guess", b"client", client.first, answer[:36]))


def test_a_client_that_returns_the_servers_own_proof_is_refused() -> None:
    server = peer_secret.Server(b"secret", 1, bytes(32))
    client = peer_secret.Client(b"secret", 2, 1, bytes(32))
    answer, _ = server.on_message(client.first)
    with pytest.raises(peer_secret.NotAPeer):
        server.on_message(answer[36:])


def test_a_broker_detects_that_another_broker_answers_at_the_address() -> None:
    server = peer_secret.Server(b"secret", 3, bytes(32))
    client = peer_secret.Client(b"secret", 2, 1, bytes(32))
    answer, _ = server.on_message(client.first)
    with pytest.raises(peer_secret.NotAPeer, match="broker 3"):
        client.on_answer(answer)


def test_a_request_to_another_broker_is_answered_and_fails_after_that_broker_is_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            first, second = await cluster.start(1), await cluster.start(2)
            await cluster.until(lambda: second.node_id in first.metadata.image.brokers)
            answer = await first.peers.request(2, DescribeCluster.Request())
            assert {broker.broker_id for broker in answer.brokers} == {1, 2}
            await cluster.kill(2)
            with pytest.raises((errors.NetworkException, errors.BrokerNotAvailable)):
                await first.peers.request(2, DescribeCluster.Request())

    in_loop(scenario)


async def _two_brokers(cluster: Cluster) -> tuple[Broker, Broker]:
    """Returns the controller, and another broker that knows it."""
    first, second = await cluster.start(1), await cluster.start(2)
    await cluster.until(lambda: len(first.metadata.image.brokers) == len(second.metadata.image.brokers) == 2)
    return (first, second) if first.controller.is_controller else (second, first)


class Never:
    """A request that never completes."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def __call__(self, *_: object) -> None:
        self.asked.set()
        await asyncio.get_running_loop().create_future()


def test_a_waiting_transaction_marker_does_not_delay_the_first_write_of_another_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            there, here = await _two_brokers(cluster)
            never = there.transactions.markers.write = Never()  # type: ignore[method-assign]
            stuck = TopicPartition("t", 0)
            writer = RemoteWriter(here.peers, there.node_id, 60_000)
            waiting = asyncio.create_task(writer.write(EndTxnMarker(1, 0, 0, True, 2), [stuck]))
            await never.asked.wait()
            coordinator = RemoteCoordinator(here.peers, there.node_id, 60_000)
            async with asyncio.timeout(PATIENCE_S):
                said = await coordinator.verify("x", Producer(7, 0), [TopicPartition("u", 0)])
            assert list(said) == [TopicPartition("u", 0)]
            assert not waiting.done()
            waiting.cancel()

    in_loop(scenario)


def test_a_slow_topic_deletion_delays_neither_isr_changes_nor_other_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            controller, other = await _two_brokers(cluster)
            never = controller.controller.delete_topics = Never()  # type: ignore[method-assign]
            deletion = DeleteTopics.Request(topics=[DeleteTopics.Request.DeleteTopicState(name="t")])
            waiting = asyncio.create_task(other.forwarding.ask(DeleteTopics, 6, "c", deletion))
            await never.asked.wait()
            async with asyncio.timeout(PATIENCE_S):
                with contextlib.suppress(errors.KafkaError):
                    await other._alter_partition(0, [])
                created = await other.forwarding.ask(CreateTopics, 7, "c", CreateTopics.Request())
            assert created.topics == []
            assert not waiting.done()
            waiting.cancel()

    in_loop(scenario)
