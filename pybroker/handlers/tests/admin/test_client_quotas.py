"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

import pytest

from cy.quota import Share
from pybroker.cluster import peer_secret
from pybroker.cluster.decisions.quota_changes import quotas
from pybroker.handlers.tests.admin.administration import Administration, run
from pybroker.handlers.tests.harness import FakeConnection
from pybroker.quotas.keys import PRODUCE, Entity
from pyclient.protocol import AlterClientQuotas, DescribeClientQuotas, SaslAuthenticate

Asked = AlterClientQuotas.Request
EntryData, EntityData, OpData = Asked.EntryData, Asked.EntityData, Asked.OpData
ComponentData = DescribeClientQuotas.Request.ComponentData


def entry(*entity: tuple[str, str | None], **values: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


async def describe(ask: Administration, version: int, *components: ComponentData, strict: bool = False) -> object:
    request = DescribeClientQuotas.Request(components=list(components), strict=strict)
    response = await ask(DescribeClientQuotas, version, request)
    if response.error_code:
        assert response.entries is None
        return response.error_code
    return [
        ([(each.entity_type, each.entity_name) for each in entry.entity], {v.key: v.value for v in entry.values})
        for entry in response.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_described_and_removed(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        both = ("user", "alice"), ("client-id", None)
        entries = [entry(("user", "alice"), producer_byte_rate=1024.0), entry(*both, request_percentage=0.5)]
        response = await ask(AlterClientQuotas, version, Asked(entries=entries))
        assert [each.error_code for each in response.entries] == [0, 0]
        assert await describe(ask, version) == [
            ([("user", "alice")], {"producer_byte_rate": 1024.0}),
            ([("user", "alice"), ("client-id", None)], {"request_percentage": 0.5}),
        ]
        of_clients = ComponentData(entity_type="client-id", match_type=2, match=None)
        assert await describe(ask, version, of_clients) == [([*both], {"request_percentage": 0.5})]
        await ask(AlterClientQuotas, version, Asked(entries=[entry(("user", "alice"), producer_byte_rate=None)]))
        assert await describe(ask, version) == [([*both], {"request_percentage": 0.5})]

    run(scenario)


def test_a_quota_change_with_validate_only_changes_nothing_and_reports_errors() -> None:
    async def scenario(ask: Administration) -> None:
        entries = [entry(("user", "alice"), producer_byte_rate=1.0), entry(("user", "bob"), producer_byte_rate=-1.0)]
        response = await ask(AlterClientQuotas, 1, Asked(entries=entries, validate_only=True))
        assert [each.error_code for each in response.entries] == [0, 42]
        assert response.entries[1].error_message == "Quota producer_byte_rate must be greater than 0"
        assert await describe(ask, 1) == []

    run(scenario)


def test_an_invalid_quota_filter_gets_kafkas_error() -> None:
    async def scenario(ask: Administration) -> None:
        assert await describe(ask, 1, ComponentData(entity_type="group", match_type=2, match=None)) == 35
        assert await describe(ask, 1, ComponentData(entity_type="user", match_type=9, match=None)) == 42

    run(scenario)


def test_a_long_quota_request_gets_one_answer_and_refuses_an_entity_named_twice() -> None:
    async def scenario(ask: Administration) -> None:
        entries = [entry(("client-id", str(number)), producer_byte_rate=1.0) for number in range(250)]
        twice = entry(("client-id", "0"), producer_byte_rate=2.0)
        response = await ask(AlterClientQuotas, 1, Asked(entries=[*entries, twice]))
        assert [each.error_code for each in response.entries] == [42] + [0] * 249
        found = quotas(ask.broker.metadata.image)
        assert found == {Entity(client=str(number)): {PRODUCE: 1.0} for number in range(1, 250)}

    run(scenario)


def test_a_connection_that_authenticates_as_a_broker_has_no_client_quota() -> None:
    async def scenario(ask: Administration) -> None:
        connection = FakeConnection()
        connection.share = Share(None, None, None, None)
        connection.authentication = peer_secret.Server(b"secret", 1, bytes(32))
        client = peer_secret.Client(b"secret", 2, 1, bytes(32))
        first = SaslAuthenticate.Request(auth_bytes=client.first)
        answer = (await ask(SaslAuthenticate, 2, first, connection)).auth_bytes
        assert connection.share is not None
        await ask(SaslAuthenticate, 2, SaslAuthenticate.Request(auth_bytes=client.on_answer(bytes(answer))), connection)
        assert (connection.broker_id, connection.share) == (2, None)

    run(scenario)
