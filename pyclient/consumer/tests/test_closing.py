"""A consumer that ends while its brokers do not answer."""

from __future__ import annotations

import asyncio

import pytest

from pyclient import TopicPartition, aio
from pyclient.core.nodes import node
from pyclient.core.tests.scripted import ScriptedBroker
from pyclient.core.tests.test_client import on_loop
from pyclient.protocol import FindCoordinator, LeaveGroup, OffsetCommit
from pyclient.tests.support import PATIENCE_S

HOUR_S = 3600.0
PLACE = TopicPartition("t", 0)


class Listener:
    """Gives its partitions up."""

    def __init__(self) -> None:
        self.heard = 0

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.heard += len(partitions)


async def reader_of(broker: ScriptedBroker, **options: object) -> aio.Consumer:
    """Returns a member of a group that has processed five records and not committed them yet."""
    consumer = aio.Consumer(broker.address, group_id="g", auto_commit_interval_ms=3_600_000, **options)
    await consumer.connect()
    core = consumer._core
    with core.lock:
        core.subscription.subscribe(["t"])
        core.subscription.set_assigned([PLACE])
        core.subscription.state(PLACE).settled = 5
    core.membership.member_id, core.membership.epoch = "m", 3
    core.membership.show()
    return consumer


@pytest.mark.parametrize("listener", [None, Listener()])
@on_loop
async def test_close_does_not_wait_for_unreachable_brokers(monkeypatch, caplog, listener):
    monkeypatch.setattr(node, "FIRST_S", 0.05)
    async with ScriptedBroker(1) as broker:
        consumer = await reader_of(broker, listener=listener)
        broker._server.close()
        broker.hang_up()
        async with asyncio.timeout(PATIENCE_S):
            await consumer.close(timeout=HOUR_S)
    assert consumer._core.is_closed
    assert listener is None or listener.heard == 1
    told = caplog.text.replace("\n", " ")
    assert f"group g: the consumer is closed, but could not commit: {broker.address}: connect failed" in told
    assert f"could not leave: {broker.address}: connect failed" in told


@on_loop
async def test_close_waits_for_a_slow_coordinator_while_others_are_unreachable(monkeypatch, caplog):
    monkeypatch.setattr(node, "FIRST_S", 0.01)
    committed = []

    def coordinator(request: FindCoordinator.Request, version: int) -> FindCoordinator.Response:
        row = FindCoordinator.Response.Coordinator(key="g", node_id=1, host="127.0.0.1", port=broker.port)
        return FindCoordinator.Response(coordinators=[row])

    def commit(request: OffsetCommit.Request, version: int) -> OffsetCommit.Response:
        client.outages.tell(client.nodes.by_id[2], 2, client.nodes.by_id[2].silence(), client.clock(), True)
        committed.extend(request.topics[0].partitions)
        rows = [OffsetCommit.Response.OffsetCommitResponsePartition(partition_index=0)]
        topic = OffsetCommit.Response.OffsetCommitResponseTopic(name="t", partitions=rows)
        return OffsetCommit.Response(topics=[topic])

    async with ScriptedBroker(1) as broker:
        broker.handlers |= {FindCoordinator: coordinator, OffsetCommit: commit}
        broker.handlers[LeaveGroup] = lambda request, version: LeaveGroup.Response()
        gone = ScriptedBroker(2)
        gone.port = 1
        broker.others.append(gone)
        consumer = await reader_of(broker)
        client = consumer._core.client
        client.nodes.find(2)
        async with asyncio.timeout(PATIENCE_S):
            await consumer.close(timeout=HOUR_S)
    assert [each.committed_offset for each in committed] == [5]
    assert "could not" not in caplog.text
