"""Brokers speak to brokers: each proves itself to the other, and what is lost is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.cluster import peer_secret
from pybroker.tests.cluster import Cluster, in_loop
from pyclient.protocol import DescribeCluster, errors


def test_both_sides_prove_that_they_know_the_secret() -> None:
    server = peer_secret.Server(b"secret", 1, bytes(32))
    client = peer_secret.Client(b"secret", 2, 1, bytes(32))
    answer, nobody = server.on_message(client.first)
    assert nobody is None
    assert server.on_message(client.on_answer(answer)) == (b"", 2)


def test_without_the_secret_neither_side_is_taken_for_a_broker() -> None:
    server = peer_secret.Server(b"secret", 1, bytes(32))
    client = peer_secret.Client(b"guess", 2, 1, bytes(32))
    answer, _ = server.on_message(client.first)
    with pytest.raises(peer_secret.NotAPeer):
        client.on_answer(answer)
    with pytest.raises(peer_secret.NotAPeer):
        server.on_message(peer_secret.proof(b"guess", b"client", client.first, answer[:36]))


def test_the_proof_of_a_server_is_none_of_a_client() -> None:
    server = peer_secret.Server(b"secret", 1, bytes(32))
    client = peer_secret.Client(b"secret", 2, 1, bytes(32))
    answer, _ = server.on_message(client.first)
    with pytest.raises(peer_secret.NotAPeer):
        server.on_message(answer[36:])


def test_another_broker_at_that_address_is_found_out() -> None:
    server = peer_secret.Server(b"secret", 3, bytes(32))
    client = peer_secret.Client(b"secret", 2, 1, bytes(32))
    answer, _ = server.on_message(client.first)
    with pytest.raises(peer_secret.NotAPeer, match="broker 3"):
        client.on_answer(answer)


def test_a_broker_asks_another_and_is_told_when_it_has_gone(tmp_path: Path) -> None:
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


