"""Quotas: the requests that the admin client sends, and the results that it makes of the responses."""

from __future__ import annotations

import pytest

from pyclient.admin import ClientQuotaEntity, ClientQuotaFilterComponent
from pyclient.admin.tests.test_routing import with_admin
from pyclient.errors import InvalidRequest, NotController
from pyclient.protocol import AlterClientQuotas, DescribeClientQuotas

ALICE = ClientQuotaEntity("alice")
HER_APP = ClientQuotaEntity("alice", "")
HOME = ClientQuotaEntity(ip="127.0.0.1")
Entry = DescribeClientQuotas.Response.EntryData
Name = DescribeClientQuotas.Response.EntityData
Value = DescribeClientQuotas.Response.ValueData
Altered = AlterClientQuotas.Response.EntryData
AlteredName = AlterClientQuotas.Response.EntityData


def altered(entity, code=0):
    """Returns a row of the broker's answer."""
    names = [AlteredName(entity_type=kind, entity_name=name or None) for kind, name in entity.names.items()]
    return Altered(entity=names[::-1], error_code=code, error_message="no" if code else None)


@with_admin
async def test_quotas_are_described_by_entity(broker, admin):
    entries = [
        Entry(
            entity=[Name(entity_type="client-id", entity_name=None), Name(entity_type="user", entity_name="alice")],
            values=[Value(key="producer_byte_rate", value=1024.0), Value(key="request_percentage", value=0.5)],
        ),
        Entry(entity=[Name(entity_type="planet", entity_name="x")], values=[Value(key="some_rate", value=1.0)]),
    ]
    broker.handlers[DescribeClientQuotas] = lambda *_: DescribeClientQuotas.Response(entries=entries)
    found = await admin.describe_client_quotas()
    assert found == {HER_APP: {"producer_byte_rate": 1024.0, "request_percentage": 0.5}}
    component = ClientQuotaFilterComponent
    wanted = [component("user", "alice"), component("client-id", ""), component("ip")]
    await admin.describe_client_quotas(wanted, strict=True)
    every, some = broker.asked(DescribeClientQuotas)
    assert (every.components, every.strict, some.strict) == ([], False, True)
    rows = [(row.entity_type, row.match_type, row.match) for row in some.components]
    assert rows == [("user", 0, "alice"), ("client-id", 1, None), ("ip", 2, None)]


@with_admin
async def test_an_answer_without_entries_is_empty_or_an_error(broker, admin):
    answers = [DescribeClientQuotas.Response(entries=None)]
    answers += [DescribeClientQuotas.Response(error_code=InvalidRequest.code, error_message="no", entries=None)]
    broker.handlers[DescribeClientQuotas] = lambda *_: answers.pop(0)
    assert await admin.describe_client_quotas() == {}
    with pytest.raises(InvalidRequest):
        await admin.describe_client_quotas()


@with_admin
async def test_each_entity_is_altered_or_its_error_is_returned(broker, admin):
    rounds = [[altered(HER_APP, NotController.code), altered(HOME, InvalidRequest.code)], [altered(HER_APP)]]
    broker.handlers[AlterClientQuotas] = lambda *_: AlterClientQuotas.Response(entries=rounds.pop(0))
    wanted = {HER_APP: {"producer_byte_rate": 1.5, "consumer_byte_rate": None}, HOME: {"connection_creation_rate": 3}}
    done = await admin.alter_client_quotas(wanted, validate_only=True, check=False)
    assert done == {HER_APP: None}
    assert isinstance(done.errors[HOME], InvalidRequest)
    first, _ = broker.asked(AlterClientQuotas)
    assert first.validate_only
    names = [[(each.entity_type, each.entity_name) for each in row.entity] for row in first.entries]
    assert names == [[("user", "alice"), ("client-id", None)], [("ip", "127.0.0.1")]]
    ops = [(op.key, op.value, op.remove) for op in first.entries[0].ops]
    assert ops == [("producer_byte_rate", 1.5, False), ("consumer_byte_rate", 0.0, True)]


def test_str_of_an_entity_shows_names_and_defaults():
    assert str(HER_APP) == "user alice, client-id (default)"
    assert str(HOME) == "ip 127.0.0.1"
