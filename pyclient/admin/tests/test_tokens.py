"""Delegation tokens: the requests that the admin client sends, and the results that it makes of the responses."""

from __future__ import annotations

import base64

import pytest

from pyclient.admin import DelegationToken
from pyclient.admin.tests.test_routing import with_admin
from pyclient.core.tests.scripted import versions
from pyclient.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenNotFound,
    NotController,
    UnsupportedByBroker,
)
from pyclient.protocol import (
    ApiVersions,
    CreateDelegationToken,
    DescribeDelegationToken,
    ExpireDelegationToken,
    RenewDelegationToken,
)

HMAC = b"h\xffmac"
TOKEN = DelegationToken("id", "User:alice", "User:admin", ("User:bob",), 1, 2, 3, HMAC)
Described = DescribeDelegationToken.Response.DescribedDelegationToken
Renewer = DescribeDelegationToken.Response.DescribedDelegationTokenRenewer


def created(request, version):
    """Returns the broker's answer."""
    requester = {"token_requester_principal_type": "User", "token_requester_principal_name": "admin"}
    return CreateDelegationToken.Response(
        principal_type="User",
        principal_name="alice",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=2,
        max_timestamp_ms=3,
        token_id="id",
        hmac=HMAC,
        **(requester if version >= 3 else {}),
    )


@with_admin
async def test_a_token_is_created_for_the_caller_or_another_user(broker, admin):
    broker.handlers[CreateDelegationToken] = created
    assert await admin.create_delegation_token(renewers="User:bob", owner="User:alice", max_lifetime_ms=9) == TOKEN
    await admin.create_delegation_token()
    other, own = broker.asked(CreateDelegationToken)
    assert (other.owner_principal_type, other.owner_principal_name, other.max_lifetime_ms) == ("User", "alice", 9)
    assert [(row.principal_type, row.principal_name) for row in other.renewers] == [("User", "bob")]
    assert (own.owner_principal_name, own.renewers, own.max_lifetime_ms) == (None, [], -1)
    with pytest.raises(ValueError, match="not TYPE:NAME, such as User:alice"):
        await admin.create_delegation_token(renewers=["bob"])


@with_admin
async def test_an_old_broker_creates_no_tokens_for_others(broker, admin):
    broker.handlers |= {ApiVersions: versions({CreateDelegationToken: 2}), CreateDelegationToken: created}
    assert (await admin.create_delegation_token()).requester is None
    with pytest.raises(UnsupportedByBroker):
        await admin.create_delegation_token(owner="User:bob")


@with_admin
async def test_a_token_is_renewed_and_expired(broker, admin):
    codes = [NotController.code, 0, DelegationTokenNotFound.code]
    renewed, expired = RenewDelegationToken.Response, ExpireDelegationToken.Response
    broker.handlers[RenewDelegationToken] = lambda *_: renewed(error_code=codes.pop(0), expiry_timestamp_ms=7)
    broker.handlers[ExpireDelegationToken] = lambda *_: expired(error_code=codes.pop(0), expiry_timestamp_ms=8)
    assert await admin.renew_delegation_token(HMAC, renew_period_ms=5) == 7
    codes.insert(0, 0)
    assert await admin.expire_delegation_token(HMAC) == 8
    with pytest.raises(DelegationTokenNotFound):
        await admin.expire_delegation_token(HMAC)
    assert [(bytes(each.hmac), each.renew_period_ms) for each in broker.asked(RenewDelegationToken)] == [(HMAC, 5)] * 2
    assert broker.asked(ExpireDelegationToken)[0].expiry_time_period_ms == -1


@with_admin
async def test_tokens_are_found_by_their_owners(broker, admin):
    row = Described(
        principal_type="User",
        principal_name="alice",
        token_requester_principal_type="User",
        token_requester_principal_name="admin",
        issue_timestamp=1,
        expiry_timestamp=2,
        max_timestamp=3,
        token_id="id",
        hmac=HMAC,
        renewers=[Renewer(principal_type="User", principal_name="bob")],
    )
    answers = [DescribeDelegationToken.Response(tokens=[row])] * 2
    answers += [DescribeDelegationToken.Response(error_code=DelegationTokenAuthDisabled.code)]
    broker.handlers[DescribeDelegationToken] = lambda *_: answers.pop(0)
    assert await admin.describe_delegation_tokens() == await admin.describe_delegation_tokens("User:alice") == [TOKEN]
    with pytest.raises(DelegationTokenAuthDisabled):
        await admin.describe_delegation_tokens()
    every, some, _ = broker.asked(DescribeDelegationToken)
    assert every.owners is None
    assert [(each.principal_type, each.principal_name) for each in some.owners] == [("User", "alice")]


def test_repr_of_a_token_hides_its_secret():
    assert TOKEN.password == base64.b64encode(HMAC).decode()
    assert TOKEN.password not in repr(TOKEN)
    assert "mac" not in repr(TOKEN)
