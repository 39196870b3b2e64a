"""Topics that are made when they are first used, and internal ones."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pybroker.cluster.tests.one_store import Cluster, Run
from pyclient.protocol import errors


def test_a_hundred_concurrent_requests_create_a_topic_once(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        outcomes = await asyncio.gather(
            *(node.controller.auto_creation.ensure(["t", "u"]) for _ in range(100))
        )
        ids = {outcome.id for each in outcomes for outcome in each.values()}  # type: ignore[union-attr]
        assert len(ids) == 2

    run(scenario)


def test_a_cancelled_caller_does_not_interrupt_a_change(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        caller = asyncio.ensure_future(node.controller.create_topics([NewTopic("t", 1, 1)]))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        assert caller.cancelled()
        [error] = await node.controller.create_topics([NewTopic("t", 1, 1)])
        assert isinstance(error, errors.TopicAlreadyExists)
        assert "t" in node.metadata.image.topics

    run(scenario)


def test_internal_topics_have_their_own_configuration(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        offsets = await node.controller.auto_creation.ensure_internal(OFFSETS_TOPIC)
        assert len(offsets.partitions) == 50
        assert offsets.partitions[0].replicas == (1,)
        assert offsets.configs["cleanup.policy"] == "compact"
        assert await node.controller.auto_creation.ensure_internal(OFFSETS_TOPIC) is offsets
        transactions = await node.controller.auto_creation.ensure_internal(TRANSACTIONS_TOPIC)
        assert transactions.configs["min.insync.replicas"] == "1"
        assert transactions.is_internal

    run(scenario)


def test_internal_topics_are_created_once_there_are_brokers_for_all_replicas(run: Run) -> None:
    """The first client may be quicker than the second broker, and the factor stays for good."""

    async def scenario(cluster: Cluster) -> None:
        settings = {"default.replication.factor": "2"}
        node, _, _ = await cluster.broker(1, settings=settings)
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            with pytest.raises(errors.InvalidReplicationFactor):
                await node.controller.auto_creation.ensure_internal(name)
        await cluster.broker(2, settings=settings)
        offsets = await node.controller.auto_creation.ensure_internal(OFFSETS_TOPIC)
        assert {len(partition.replicas) for partition in offsets.partitions} == {2}
        transactions = await node.controller.auto_creation.ensure_internal(TRANSACTIONS_TOPIC)
        assert {len(partition.replicas) for partition in transactions.partitions} == {2}
        assert transactions.configs["min.insync.replicas"] == "2"

    run(scenario)


def test_a_requested_replication_factor_is_not_lowered(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker(settings={"offsets.topic.replication.factor": "3"})
        with pytest.raises(errors.InvalidReplicationFactor):
            await node.controller.auto_creation.ensure_internal(OFFSETS_TOPIC)

    run(scenario)
