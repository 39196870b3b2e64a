"""Users of SCRAM: the requests that the admin client sends, and the results that it makes of the responses."""

from __future__ import annotations

import pytest

from pyclient.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyclient.admin.tests.test_routing import with_admin
from pyclient.protocol import AlterUserScramCredentials, DescribeUserScramCredentials, scram
from pyclient.protocol.errors import NotController, ResourceNotFound

WEAK = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256)
STRONG = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
Described = DescribeUserScramCredentials.Response.DescribeUserScramCredentialsResult
Info = DescribeUserScramCredentials.Response.CredentialInfo
Altered = AlterUserScramCredentials.Response.AlterUserScramCredentialsResult


def altered(**codes):
    return AlterUserScramCredentials.Response(results=[Altered(user=user, error_code=codes[user]) for user in codes])


@with_admin
async def test_the_users_are_listed_with_mechanisms_and_iterations(broker, admin):
    hers = [Info(mechanism=1, iterations=4096), Info(mechanism=2, iterations=8192)]
    rows = [
        Described(user="alice", credential_infos=hers),
        Described(user="bob", error_code=ResourceNotFound.code, error_message="none"),
        Described(user="carol", credential_infos=[Info(mechanism=9, iterations=1)]),
    ]
    broker.handlers[DescribeUserScramCredentials] = lambda *_: DescribeUserScramCredentials.Response(results=rows)
    found = await admin.describe_user_scram_credentials(check=False)
    assert found == {"alice": [WEAK, STRONG], "carol": [ScramCredentialInfo(ScramMechanism.UNKNOWN, 1)]}
    assert isinstance(found.errors["bob"], ResourceNotFound)
    with pytest.raises(ResourceNotFound):
        await admin.describe_user_scram_credentials(["alice", "bob"])
    first, second = broker.asked(DescribeUserScramCredentials)
    assert first.users is None
    assert [each.name for each in second.users] == ["alice", "bob"]


@with_admin
async def test_no_request_is_sent_for_an_empty_list_of_users(broker, admin):
    assert await admin.describe_user_scram_credentials([]) == {}
    assert await admin.alter_user_scram_credentials([]) == {}
    assert not broker.asked(DescribeUserScramCredentials)


@with_admin
async def test_only_keys_derived_from_a_password_are_sent_to_the_controller(broker, admin):
    codes = [NotController.code, 0]
    broker.handlers[AlterUserScramCredentials] = lambda *_: altered(alice=codes.pop(0))
    wanted = [UserScramCredentialUpsertion("alice", STRONG, "hush")]
    assert await admin.alter_user_scram_credentials(wanted) == {"alice": None}
    _, asked = broker.asked(AlterUserScramCredentials)
    (row,) = asked.upsertions
    assert (row.name, row.mechanism, row.iterations) == ("alice", 2, 8192)
    assert row.salted_password == scram.salted_password(scram.SHA_512, "hush", bytes(row.salt), 8192)
    assert b"hush" not in AlterUserScramCredentials.encode_request(0, 1, "c", asked)


@with_admin
async def test_each_user_has_a_salt_of_its_own(broker, admin):
    broker.handlers[AlterUserScramCredentials] = lambda *_: altered(alice=0, bob=0, carol=ResourceNotFound.code)
    done = await admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion("alice", WEAK, "hush"),
            UserScramCredentialUpsertion("bob", WEAK, "hush", salt=b"given"),
            UserScramCredentialDeletion("carol", WEAK.mechanism),
        ],
        check=False,
    )
    (asked,) = broker.asked(AlterUserScramCredentials)
    assert [bytes(row.salt) for row in asked.upsertions][1] == b"given"
    assert len(asked.upsertions[0].salt) >= 16
    assert [(row.name, row.mechanism) for row in asked.deletions] == [("carol", 1)]
    assert set(done) == {"alice", "bob"}
    assert isinstance(done.errors["carol"], ResourceNotFound)


def test_repr_of_a_user_hides_the_password():
    assert "hush" not in repr(UserScramCredentialUpsertion("alice", WEAK, "hush", b"hush"))
