"""The client core against a scripted broker."""

from __future__ import annotations

import asyncio
import logging
import re
import socket

import pytest

from pyclient.core.client import Client
from pyclient.core.kinds import GROUP, TRANSACTION
from pyclient.core.nodes.nodes import broker_id
from pyclient.core.reports.outages import FIRST_S
from pyclient.core.tests.scripted import HANG_UP, SILENCE, ScriptedBroker, client_of, on_loop, versions
from pyclient.core.tests.scripted import versions as serving
from pyclient.errors import (
    ClientClosed,
    ConfigError,
    ConnectionFailed,
    ConnectionLost,
    KafkaError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from pyclient.protocol import ApiVersions, Fetch, FindCoordinator, Heartbeat, ListGroups, Metadata, Produce, stream
from pyclient.protocol.errors import (
    CoordinatorNotAvailable,
    InvalidTopicException,
    NetworkException,
    NotCoordinator,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pyclient.tests.support import PATIENCE_S


def heartbeat(number: int) -> Heartbeat.Request:
    return Heartbeat.Request(group_id="g", generation_id=number, member_id="m")


def beats(broker: ScriptedBroker) -> list[int]:
    return [each.generation_id for each in broker.asked(Heartbeat)]


@on_loop
async def test_start_learns_the_cluster():
    async with ScriptedBroker(7) as broker, client_of(broker.address) as client:
        await client.start(PATIENCE_S)
        assert list(client.cluster.brokers) == [7]
        assert client.cluster.cluster_id == "c"


@on_loop
async def test_the_bootstrap_connection_is_kept_as_the_brokers_connection():
    async with ScriptedBroker(7) as broker, client_of(broker.address) as client:
        broker.handlers[Heartbeat] = lambda *_: Heartbeat.Response()
        await client.metadata(["t"], timeout=PATIENCE_S)
        await client.send(7, Heartbeat, heartbeat(0))
        assert broker.connections == 1
        await client.send(-1, Heartbeat, heartbeat(0))
        assert broker.connections == 2


@on_loop
async def test_bootstrap_continues_until_a_server_answers():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
        async with ScriptedBroker() as broker, client_of(dead, broker.address) as client:
            await client.start(PATIENCE_S)


@on_loop
async def test_an_error_of_start_names_the_address_and_the_reason():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        async with client_of(address) as client:
            with pytest.raises(ConnectionFailed) as caught:
                await client.start(0.5)
    error = caught.value
    assert (error.host, error.phase) == (address, "connect")
    assert isinstance(error.cause, ConnectionRefusedError)


@on_loop
async def test_an_error_of_start_lists_each_server_with_its_error_and_time():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        async with ScriptedBroker() as broker, client_of(address, broker.address) as client:
            broker.handlers[ApiVersions] = lambda *_: SILENCE
            with pytest.raises(ConnectionFailed) as caught:
                await client.start(0.5)
    told = str(caught.value)
    assert told.startswith(f"{address}: connect failed: ")
    assert f"; {broker.address}: handshake failed: no answer" in told
    assert re.search(r"\(still failing after [\d.]+ s\)$", told)


@on_loop
async def test_a_server_that_accepts_and_stays_silent_failed_in_the_handshake():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[ApiVersions] = lambda *_: SILENCE
        with pytest.raises(ConnectionFailed) as caught:
            await client.start(0.5)
    assert (caught.value.host, caught.value.phase) == (broker.address, "handshake")


@on_loop
async def test_a_silent_server_does_not_use_up_the_time_of_the_others():
    async with ScriptedBroker() as silent, ScriptedBroker() as broker:
        silent.handlers[ApiVersions] = lambda *_: SILENCE
        async with client_of(silent.address, broker.address) as client:
            await client.start(4)
            assert [each.port for each in client.cluster.brokers.values()] == [broker.port]


async def _no_such_name(*_: object) -> list[object]:
    raise socket.gaierror(-2, "Name or service not known")


def test_bootstrap_fails_at_once_if_no_name_can_be_resolved(monkeypatch):
    monkeypatch.setattr(stream, "resolve", _no_such_name)

    @on_loop
    async def check():
        async with client_of("a.invalid:9092", "b.invalid:9092") as client:
            with pytest.raises(ConnectionFailed) as caught:
                await client.start(1000)
        assert caught.value.phase == "resolve"

    check()


def test_an_address_without_a_port_is_a_config_error():
    @on_loop
    async def check():
        with pytest.raises(ConfigError, match=r"not host:port: did you mean localhost:9092\?"):
            async with client_of("localhost"):
                pass

    check()


@on_loop
async def test_a_hangup_during_the_handshake_is_a_failed_connection():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[ApiVersions] = lambda *_: HANG_UP
        with pytest.raises(ConnectionFailed) as caught:
            await client.send(client.nodes.any_node(), Metadata, Metadata.Request(topics=[]))
        assert caught.value.phase == "handshake"


@on_loop
async def test_requests_to_an_older_broker_use_its_versions():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        known = versions({ApiVersions: 2, Metadata: 4})

        def answer(request, version):
            if version <= 2:
                return known(request, version)
            frame = ApiVersions.encode_response(0, 0, ApiVersions.Response(error_code=UnsupportedVersion.code))
            return frame  # KIP-511: in version 0, and its correlation id is the first one's

        broker.handlers[ApiVersions] = answer
        await client.metadata(["t"], timeout=PATIENCE_S)
        asked = [version for api, version, _ in broker.requests if api is ApiVersions]
        assert asked == [ApiVersions.max_version, 0]
        assert {version for api, version, _ in broker.requests if api is Metadata} == {4}


@on_loop
async def test_an_error_names_the_api_that_the_broker_does_not_serve():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[ApiVersions] = serving({ListGroups: -1})
        with pytest.raises(UnsupportedByBroker, match="does not serve ListGroups"):
            await client.send(-1, ListGroups, ListGroups.Request())
        with pytest.raises(UnsupportedByBroker):
            client.nodes.version(-1, ListGroups)
        assert client.nodes.version(-1, Metadata) == Metadata.max_version
        assert client.nodes.version(-1, Metadata, 9) == 9


@on_loop
async def test_requests_posted_before_the_connection_keep_their_order():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[Heartbeat] = lambda *_: Heartbeat.Response()
        done: list[int] = []
        last = asyncio.get_running_loop().create_future()
        for number in range(50):

            def on_done(response, error, number=number):
                assert error is None
                done.append(number)
                if number == 49:
                    last.set_result(None)

            client.post(-1, Heartbeat, heartbeat(number), on_done)
        assert client.nodes.in_flight(-1) == 50
        await last
        assert done == beats(broker) == list(range(50))
        assert client.nodes.in_flight(-1) == 0
        assert client.nodes.is_ready(-1)


@on_loop
async def test_a_lost_connection_fails_its_requests_in_order_and_the_next_reconnects():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        await client.start(PATIENCE_S)
        broker.handlers[Heartbeat] = lambda request, _: (
            HANG_UP if request.generation_id == 0 else Heartbeat.Response()
        )
        outcomes = await asyncio.gather(
            *(client.send(1, Heartbeat, heartbeat(number)) for number in range(3)),
            return_exceptions=True,
        )
        assert [type(each) for each in outcomes] == [ConnectionLost] * 3
        assert all(each.retriable and each.code == NetworkException.code for each in outcomes)
        assert await client.send(1, Heartbeat, heartbeat(9)) == Heartbeat.Response()


@on_loop
async def test_a_request_timeout_closes_the_connection():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[Heartbeat] = lambda *_: SILENCE
        await client.start(PATIENCE_S)
        late, other = await asyncio.gather(
            client.send(1, Heartbeat, heartbeat(0), timeout=0.02),
            client.send(1, Heartbeat, heartbeat(1), timeout=60),
            return_exceptions=True,
        )
        assert isinstance(late, RequestTimedOut)
        assert isinstance(other, ConnectionLost)
        broker.handlers[Heartbeat] = lambda *_: Heartbeat.Response()
        await client.send(1, Heartbeat, heartbeat(2))


@on_loop
async def test_a_wrong_correlation_id_closes_the_connection():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[Heartbeat] = lambda _, version: Heartbeat.encode_response(
            version, 12345, Heartbeat.Response()
        )
        with pytest.raises(ConnectionLost, match="correlation id 12345"):
            await client.send(-1, Heartbeat, heartbeat(0))


@on_loop
async def test_an_undecodable_response_closes_the_connection_and_is_reported():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[Heartbeat] = lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n"
        with pytest.raises(ConnectionLost):
            await client.send(-1, Heartbeat, heartbeat(0))


@on_loop
async def test_produce_without_acks_is_done_when_it_is_sent():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[Produce] = lambda *_: None
        broker.handlers[Heartbeat] = lambda *_: Heartbeat.Response()
        assert await client.send(-1, Produce, Produce.Request(acks=0)) is None
        await client.send(-1, Heartbeat, heartbeat(0))
        assert len(broker.asked(Produce)) == 1


@on_loop
async def test_records_of_a_fetch_stay_valid_when_more_is_received():
    kind = Fetch.Response
    async with ScriptedBroker() as broker, client_of(broker.address) as client:

        def answer(request, version):
            size = request.max_bytes
            row = kind.PartitionData(records=bytes([size % 251]) * size)
            return kind(responses=[kind.FetchableTopicResponse(partitions=[row])])

        broker.handlers[Fetch] = answer
        sizes = [10, 20, 70_000, 3, 400_000, 300_000, 5]
        responses = await asyncio.gather(
            *(client.send(-1, Fetch, Fetch.Request(max_bytes=size)) for size in sizes)
        )
        for size, response in zip(sizes, responses, strict=True):
            records = response.responses[0].partitions[0].records
            assert bytes(records) == bytes([size % 251]) * size


@on_loop
async def test_a_failing_callback_does_not_affect_others():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[Heartbeat] = lambda *_: Heartbeat.Response()
        faults = []
        client.loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
        client.post(-1, Heartbeat, heartbeat(0), lambda *_: 1 / 0)
        await client.send(-1, Heartbeat, heartbeat(1))
        assert [type(each) for each in faults] == [ZeroDivisionError]


@on_loop
async def test_bootstrap_servers_are_tried_again_when_no_broker_can_be_reached():
    async with ScriptedBroker(1) as first, ScriptedBroker(2) as gone, client_of(first.address) as client:
        first.handlers[Metadata] = gone.metadata
        await client.start(PATIENCE_S)
        assert list(client.cluster.brokers) == [2]
        first.handlers[Metadata] = first.metadata
        await gone.__aexit__()
        await client.metadata(["t"], timeout=PATIENCE_S)
        while list(client.cluster.brokers) != [1]:
            client.refresh()
            await asyncio.sleep(0)


@on_loop
async def test_a_coordinator_is_remembered_until_it_is_lost():
    async with ScriptedBroker(3) as broker, client_of(broker.address) as client:
        row = FindCoordinator.Response.Coordinator
        broker.handlers[FindCoordinator] = lambda request, _: FindCoordinator.Response(
            coordinators=[
                row(key=each, node_id=3, host="127.0.0.1", port=broker.port)
                for each in request.coordinator_keys
            ]
        )
        assert await client.coordinator("g", GROUP) == 3
        assert await client.coordinator("g", GROUP) == 3
        assert await client.coordinator("g", TRANSACTION) == 3
        assert [each.key_type for each in broker.asked(FindCoordinator)] == [0, 1]
        client.coordinator_lost("g", GROUP)
        await client.coordinator("g", GROUP)
        assert len(broker.asked(FindCoordinator)) == 3


@on_loop
async def test_a_coordinator_connection_does_not_wait_for_a_fetch_on_the_same_broker():
    async with ScriptedBroker() as broker, client_of(broker.address) as other:
        row = FindCoordinator.Response.Coordinator
        broker.handlers[FindCoordinator] = lambda *_: FindCoordinator.Response(
            coordinators=[row(key="g", node_id=1, host="127.0.0.1", port=broker.port)]
        )
        broker.handlers[Heartbeat] = lambda *_: Heartbeat.Response()
        broker.handlers[Fetch] = lambda *_: SILENCE
        client = Client(other.config, loop=asyncio.get_running_loop(), separate_coordinators=True)
        await client.start(PATIENCE_S)
        node = await client.coordinator("g", GROUP)
        assert broker_id(node) == 1
        waiting = asyncio.create_task(client.send(1, Fetch, Fetch.Request()))
        await client.send(node, Heartbeat, heartbeat(1))
        assert not waiting.done()
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting


@on_loop
async def test_a_coordinator_that_is_not_available_is_retried():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        row = FindCoordinator.Response.Coordinator
        errors = [CoordinatorNotAvailable.code, CoordinatorNotAvailable.code, 0]
        broker.handlers[FindCoordinator] = lambda *_: FindCoordinator.Response(
            coordinators=[
                row(
                    key="g",
                    node_id=1,
                    host="127.0.0.1",
                    port=broker.port,
                    error_code=errors.pop(0),
                )
            ]
        )
        with pytest.raises(CoordinatorNotAvailable):
            await client.coordinator("g", GROUP)
        found = await client.retrying(
            lambda: client.coordinator("g", GROUP), deadline=client.clock() + PATIENCE_S
        )
        assert found == 1


@on_loop
async def test_only_retriable_errors_are_retried_and_only_until_the_deadline():
    async with client_of("127.0.0.1:1") as client:
        tries: list[KafkaError] = []

        async def attempt(error: KafkaError) -> None:
            tries.append(error)
            raise error

        with pytest.raises(InvalidTopicException):
            await client.retrying(
                lambda: attempt(InvalidTopicException()), deadline=client.clock() + 1000
            )
        assert len(tries) == 1
        with pytest.raises(NotCoordinator):
            await client.retrying(lambda: attempt(NotCoordinator()), deadline=client.clock() + 0.5)
        assert len(tries) > 2


@on_loop
async def test_a_partition_that_stays_missing_is_logged_once_after_a_delay(caplog):
    async with client_of("127.0.0.1:1") as client:
        now = [0.0]
        client.clock = lambda: now[0]

        async def attempt() -> None:
            now[0] += FIRST_S / 2
            raise UnknownTopicOrPartition("nope-0: it is missing")

        with pytest.raises(UnknownTopicOrPartition):
            await client.retrying(attempt, deadline=FIRST_S * 3)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [each for each in told if "nope" in each] == ["still trying: nope-0: it is missing"]


@on_loop
async def test_no_attempt_outlasts_the_timeout_of_the_call():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        await client.start(PATIENCE_S)
        broker.handlers[Heartbeat] = lambda *_: SILENCE
        attempts: list[int] = []

        async def attempt():
            attempts.append(1)
            if len(attempts) < broken:
                raise NotCoordinator
            return await client.send(client.nodes.any_node(), Heartbeat, heartbeat(0))

        broken = 0
        with pytest.raises(RequestTimedOut, match="in time"):
            await client.retrying(attempt, deadline=client.clock() + 0.05)
        assert len(attempts) == 1
        broken = 3
        with pytest.raises(NotCoordinator):  # what came before the time was over says more
            await client.retrying(attempt, deadline=client.clock() + 0.5)


@on_loop
async def test_close_fails_waiting_and_later_requests():
    async with ScriptedBroker() as broker, client_of(broker.address) as client:
        broker.handlers[Heartbeat] = lambda *_: SILENCE
        await client.start(PATIENCE_S)
        waiting = asyncio.ensure_future(client.send(1, Heartbeat, heartbeat(0)))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await client.send(1, Heartbeat, heartbeat(1))
        with pytest.raises(ClientClosed):
            await client.metadata(["t"], timeout=1)


@on_loop
async def test_a_client_follows_a_broker_to_its_new_address():
    async with ScriptedBroker(1) as first, ScriptedBroker(2) as other, ScriptedBroker(2) as moved:
        first.others = [other]
        for each in (other, moved):
            each.handlers[Heartbeat] = lambda *_: Heartbeat.Response()
            each.handlers[Metadata] = first.metadata
        async with client_of(first.address) as client:
            await client.start(PATIENCE_S)
            await client.send(2, Heartbeat, heartbeat(0))
            first.others = [moved]
            await client.metadata(["t"], timeout=PATIENCE_S)
            await client.send(2, Heartbeat, heartbeat(1))
            assert (beats(other), beats(moved)) == ([0], [1])
