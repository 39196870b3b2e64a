"""Clients that reach another broker than the one they mean ask the bootstrap servers again (KIP-1242, KIP-1102)."""

from __future__ import annotations

from typing import Any

import pytest

from pyclient.core.client import Client
from pyclient.core.kinds import GROUP
from pyclient.core.tests.scripted import ScriptedBroker, client_of, on_loop, versions
from pyclient.errors import ConnectionFailed
from pyclient.protocol import ApiVersions, FindCoordinator, Heartbeat, Metadata
from pyclient.protocol.errors import RebootstrapRequired, UnsupportedVersion
from pyclient.tests.support import PATIENCE_S

MOVED = 2
"""The broker whose address another one takes."""


def heartbeat() -> Heartbeat.Request:
    return Heartbeat.Request(group_id="g", generation_id=0, member_id="m")


def checking(broker: ScriptedBroker) -> None:
    """Lets the broker serve Heartbeat, and check its id as Kafka 4.4 does."""
    serve = versions()

    def answer(request: ApiVersions.Request, version: int) -> ApiVersions.Response:
        if request.cluster_id is not None and (request.cluster_id, request.node_id) != ("c", broker.node):
            return ApiVersions.Response(error_code=RebootstrapRequired.code)
        response: ApiVersions.Response = serve(request, version)
        return response

    broker.handlers[ApiVersions] = answer
    broker.handlers[Heartbeat] = lambda *_: Heartbeat.Response()


def meant(broker: ScriptedBroker) -> list[tuple[str | None, int]]:
    return [(each.cluster_id, each.node_id) for each in broker.asked(ApiVersions)]


async def beat(client: Client, node: int) -> None:
    await client.send(node, Heartbeat, heartbeat())


@on_loop
async def test_connections_to_known_brokers_send_the_expected_broker_id():
    async with ScriptedBroker() as seed, ScriptedBroker(MOVED) as other, client_of(seed.address) as client:
        seed.others = [other]
        checking(other)
        await client.start(PATIENCE_S)
        await beat(client, MOVED)
    assert (meant(seed), meant(other)) == ([(None, -1)], [("c", MOVED)])


@pytest.mark.parametrize(
    "settings", [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}]
)
def test_a_client_that_may_not_rebootstrap_sends_no_expected_broker_id(settings: dict[str, Any]):
    @on_loop
    async def check():
        async with ScriptedBroker() as seed, ScriptedBroker(3) as other, client_of(seed.address, **settings) as client:
            seed.others = [other]
            checking(other)
            await client.start(PATIENCE_S)
            await beat(client, other.node)
        assert meant(other) == [(None, -1)]

    check()


@on_loop
async def test_a_broker_without_api_versions_5_is_not_sent_an_expected_id():
    async with ScriptedBroker() as seed, ScriptedBroker(MOVED) as other, client_of(seed.address) as client:
        seed.others = [other]
        checking(other)
        serve = versions({ApiVersions: 4})

        def answer(request: ApiVersions.Request, version: int) -> ApiVersions.Response | bytes:
            if version <= 4:
                response: ApiVersions.Response = serve(request, version)
                return response
            refusal = ApiVersions.Response(error_code=UnsupportedVersion.code, api_keys=serve(request, 0).api_keys)
            encoded = ApiVersions.encode_response(0, 0, refusal)
            return encoded if isinstance(encoded, bytes) else b"".join(encoded)

        other.handlers[ApiVersions] = answer
        await client.start(PATIENCE_S)
        await beat(client, MOVED)
    assert [version for api, version, _ in other.requests if api is ApiVersions] == [5, 4]


@on_loop
async def test_another_broker_at_the_address_makes_the_client_bootstrap_again():
    async with (
        ScriptedBroker() as seed,
        ScriptedBroker(3) as stranger,
        ScriptedBroker(MOVED) as moved,
        client_of(seed.address) as client,
    ):
        checking(seed)
        checking(stranger)
        checking(moved)
        listed = ScriptedBroker(MOVED)
        listed.port, seed.others = stranger.port, [listed]
        await client.start(PATIENCE_S)
        asked = len(seed.asked(Metadata))
        with pytest.raises(ConnectionFailed, match=f"than broker {MOVED} of cluster c") as caught:
            await beat(client, MOVED)
        assert isinstance(caught.value.cause, RebootstrapRequired)
        assert client.cluster.brokers == {}
        listed.port = moved.port
        await client.retrying(lambda: beat(client, MOVED), deadline=client.clock() + PATIENCE_S)
    assert len(seed.asked(Metadata)) > asked
    assert (stranger.asked(Heartbeat), len(moved.asked(Heartbeat))) == ([], 1)


@on_loop
async def test_coordinators_are_found_again_after_a_rebootstrap():
    async with ScriptedBroker() as seed, client_of(seed.address) as client:
        seed.handlers[FindCoordinator] = lambda *_: FindCoordinator.Response(
            coordinators=[FindCoordinator.Response.Coordinator(node_id=seed.node, host="127.0.0.1", port=seed.port)]
        )
        await client.start(PATIENCE_S)
        assert await client.coordinator("g", GROUP) == seed.node
        client.nodes.settings.on_misrouted()
        assert await client.coordinator("g", GROUP) == seed.node
    assert len(seed.asked(FindCoordinator)) == 2


@on_loop
async def test_a_metadata_response_can_demand_a_rebootstrap():
    async with ScriptedBroker() as seed, client_of(seed.address) as client:
        await client.start(PATIENCE_S)
        answers = [Metadata.Response(error_code=RebootstrapRequired.code)]
        seed.handlers[Metadata] = lambda *request: answers.pop() if answers else seed.metadata(*request)
        await client.metadata(["t"], timeout=PATIENCE_S)
        assert not answers
        assert list(client.cluster.brokers) == [seed.node]
