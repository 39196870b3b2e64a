"""How a client finds topics, leaders and brokers, and its errors about missing ones."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pyclient.core.tests.scripted import ScriptedBroker, client_of, on_loop, topic
from pyclient.errors import ClientError, ConnectionFailed
from pyclient.protocol import Metadata
from pyclient.protocol.errors import InvalidReplicationFactor, InvalidTopicException, UnknownTopicOrPartition
from pyclient.tests.support import LATE_S, PATIENCE_S
from pyclient.topic_partition import TopicPartition


@on_loop
async def test_metadata_waits_until_a_topic_has_been_created():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.topics["new"] = -5  # LEADER_NOT_AVAILABLE, as the first answer after creation
        waiting = asyncio.ensure_future(client.metadata(["new", "t"], timeout=PATIENCE_S))
        while len(broker.asked(Metadata)) < 3:
            await asyncio.sleep(0)
        broker.topics["new"] = 4
        await waiting
        assert len(client.cluster.partitions("new")) == 4
        assert broker.asked(Metadata)[0].allow_auto_topic_creation


@on_loop
async def test_an_unknown_topic_is_an_error_after_the_timeout():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        await client.start(PATIENCE_S)
        with pytest.raises(UnknownTopicOrPartition, match="nope"):
            await client.metadata(["nope"], timeout=LATE_S, create=False)
        assert not broker.asked(Metadata)[0].allow_auto_topic_creation


@on_loop
async def test_auto_creation_is_requested_only_for_topics_that_may_be_created():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        await client.metadata(["t"], timeout=5, create=True)
        with pytest.raises(UnknownTopicOrPartition):
            await client.metadata(["nope"], timeout=LATE_S, create=False)
        for request in broker.asked(Metadata):
            named = {each.name for each in request.topics}
            assert not ("nope" in named and request.allow_auto_topic_creation)


@on_loop
async def test_an_invalid_topic_is_an_error_at_once():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.topics["refused"] = -17
        with pytest.raises(InvalidTopicException):
            await client.metadata(["refused"], timeout=1000)


@on_loop
async def test_metadata_waits_while_a_topic_lacks_brokers_for_its_replicas():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        await client.start(PATIENCE_S)
        broker.topics["early"] = -InvalidReplicationFactor.code
        with pytest.raises(InvalidReplicationFactor, match="early"):
            await client.metadata(["early"], timeout=LATE_S)
        asked = len(broker.asked(Metadata))
        waiting = asyncio.ensure_future(client.metadata(["early"], timeout=1000))
        while len(broker.asked(Metadata)) < asked + 2 and not waiting.done():
            await asyncio.sleep(0)
        broker.topics["early"] = 1
        await waiting


@pytest.mark.parametrize("name", [None, "", ".", "..", "a/b", "ä", "a\n", "\udc80", "x" * 250])
@on_loop
async def test_an_invalid_topic_name_is_never_sent_to_the_broker(name):
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        with pytest.raises(InvalidTopicException, match="topic"):
            await client.metadata([name], timeout=1000)
        await client.metadata(["t"], timeout=PATIENCE_S)
        assert [[each.name for each in request.topics] for request in broker.asked(Metadata)] == [["t"]]


@on_loop
async def test_a_topic_given_as_bytes_is_refused_and_later_calls_work():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        with pytest.raises(TypeError, match="topic is bytes, not str"):
            await client.metadata([b"t"], timeout=1000)  # type: ignore[list-item]
        await client.metadata(["t"], timeout=PATIENCE_S)


@on_loop
async def test_a_metadata_request_that_cannot_be_encoded_is_not_retried():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        with pytest.raises(ClientError, match="Metadata"):
            await client._keeper.topics([b"t"], client.clock() + 1000, True)  # type: ignore[list-item]
        await client.metadata(["t"], timeout=PATIENCE_S)


@on_loop
async def test_the_error_about_an_unknown_topic_says_why_it_is_not_created():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        await client.start(PATIENCE_S)
        with pytest.raises(UnknownTopicOrPartition, match=r"no topic 'nope' \(auto.create.topics.enable is off"):
            await client.metadata(["nope"], timeout=LATE_S, create=True)
        with pytest.raises(UnknownTopicOrPartition, match=r"no topic 'never' \(.*allow.auto.create.topics"):
            await client.metadata(["never"], timeout=LATE_S, create=False)


@on_loop
async def test_unreachable_brokers_are_not_reported_as_an_unknown_topic():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with client_of(f"127.0.0.1:{closed.getsockname()[1]}") as client:
            with pytest.raises(ConnectionFailed):
                await client.metadata(["t"], timeout=0.5)


@on_loop
async def test_metadata_that_a_lost_broker_does_not_send_names_the_setting():
    async with ScriptedBroker() as broker, client_of(broker.address, default_api_timeout_ms=500) as client:
        await client.start(PATIENCE_S)
        await broker.__aexit__()
        while client.nodes.connections:
            await asyncio.sleep(0)
        for asking in (client.metadata(["new"]), client.all_topics()):
            with pytest.raises(ConnectionFailed, match=r"s; the limit is default\.api\.timeout\.ms; `pybroker"):
                await asking


@on_loop
async def test_a_refresh_finds_new_leaders():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        await client.metadata(["t"], timeout=PATIENCE_S)
        changed = asyncio.Event()
        client.cluster.subscribe(lambda cluster, topics: "t" in topics and changed.set())
        other = broker.metadata

        def moved(request, version):
            response = other(request, version)
            response.topics = [topic("t", 2, 5, epoch=1)]
            return response

        broker.handlers[Metadata] = moved
        client.refresh("t")
        await changed.wait()
        assert client.cluster.leader(TopicPartition("t", 0)) == (5, 1)


@on_loop
async def test_a_failing_listener_does_not_stop_refreshes():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        faults = []
        client.loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
        end = client.cluster.subscribe(lambda *_: 1 / 0)
        await client.metadata(["t"], timeout=PATIENCE_S)
        assert [type(each) for each in faults] == [ZeroDivisionError]
        end()
        broker.topics["u"] = 1
        await client.metadata(["u"], timeout=PATIENCE_S)


@on_loop
async def test_all_topics_are_requested_only_once():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.topics["u"] = 1
        await client.all_topics(timeout=PATIENCE_S)
        assert sorted(client.cluster.topics()) == ["t", "u"]
        await client.metadata(["t"], timeout=PATIENCE_S)
        assert next(each.topics is None for each in broker.asked(Metadata))
        assert sum(each.topics is None for each in broker.asked(Metadata)) == 1
