"""Delegation tokens through the SDK: who gets them, who can log in with them, and what is revealed to nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

from pybroker.cluster.decisions import token_changes
from pybroker.tests.security.test_sasl import LISTENERS, SETTINGS, USERS, add_users, address
from pybroker.tests.security.test_tls import Running, running
from pybroker.tests.waiting import PATIENCE_S
from pyclient import Admin
from pyclient.admin import AclBinding, ConfigResource, DelegationToken, ResourceType
from pyclient.errors import SaslRefused
from pyclient.protocol import errors
from pyclient.protocol.acls import AclOperation, AclResourceType

KEY: Final = "the-key-of-tokens"
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
tokens = pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(
        tmp_path_factory.mktemp("tokens"), **SETTINGS, **RIGHTS, **{"delegation.token.secret.key": KEY}
    ) as broker:
        add_users(broker)
        yield broker


def login(user: str) -> dict[str, Any]:
    return {
        "security_protocol": LISTENERS["INSIDE"],
        "sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": USERS[user],
    }


def by_token(token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {
        "security_protocol": LISTENERS["INSIDE"], "sasl_mechanism": mechanism, "sasl_tokenauth": True,
        "sasl_username": token.token_id, "sasl_password": token.password,
    }


def admin(served: Running, settings: dict[str, Any]) -> Admin:
    return Admin(address(served, "INSIDE"), **settings)


def allow(served: Running, operation: AclOperation, kind: AclResourceType, name: str) -> None:
    """Allows bob the operation."""
    with Admin(address(served, "PLAINTEXT")) as root:
        root.create_acls([AclBinding.allow("User:bob", operation, kind, name)])


def new(served: Running, **options: Any) -> DelegationToken:
    with admin(served, login("alice")) as alice:
        return alice.create_delegation_token(**options)


@tokens
def test_the_holder_of_a_token_is_its_owner_until_it_is_removed(served: Running, mechanism: str) -> None:
    token = new(served)
    assert (token.owner, token.requester) == ("User:alice", "User:alice")
    with admin(served, by_token(token, mechanism)) as holder:
        holder.describe_cluster(timeout=PATIENCE_S)
        assert "User:alice" in served.principals
        for refused in (
            holder.create_delegation_token,
            holder.describe_delegation_tokens,
            lambda: holder.renew_delegation_token(token.hmac),
            lambda: holder.expire_delegation_token(token.hmac),
        ):
            with pytest.raises(errors.DelegationTokenRequestNotAllowed):
                refused()
    with admin(served, login("alice")) as alice:
        assert alice.renew_delegation_token(token.hmac) > 0
        assert token.token_id in [each.token_id for each in alice.describe_delegation_tokens()]
        alice.expire_delegation_token(token.hmac)
        with pytest.raises(errors.DelegationTokenNotFound):
            alice.renew_delegation_token(token.hmac)
    refused_login(served, by_token(token, mechanism))


def refused_login(served: Running, settings: dict[str, Any]) -> None:
    with admin(served, settings) as holder, pytest.raises(SaslRefused):
        holder.describe_cluster(timeout=PATIENCE_S)


def test_an_expired_token_is_refused_and_the_controller_removes_it(served: Running) -> None:
    token = new(served, max_lifetime_ms=1)
    served.until(lambda: served.broker.clock.now_ms() > token.max_timestamp)
    refused_login(served, by_token(token))
    with admin(served, login("alice")) as alice, pytest.raises(errors.DelegationTokenExpired):
        alice.renew_delegation_token(token.hmac)
    asyncio.run_coroutine_threadsafe(served.broker.node.expire_tokens(), served.loop).result(PATIENCE_S)
    assert token.token_id not in served.broker.metadata.image.tokens


def test_tokens_and_users_are_not_interchangeable(served: Running) -> None:
    token = new(served)
    refused_login(served, by_token(token) | {"sasl_tokenauth": False})
    user = {"sasl_username": "alice", "sasl_password": USERS["alice"]}
    refused_login(served, by_token(token) | user)
    refused_login(served, by_token(token) | {"sasl_password": "wrong"})


def test_anonymous_clients_and_requests_for_others_are_refused(served: Running) -> None:
    with Admin(address(served, "PLAINTEXT")) as anonymous:
        with pytest.raises(errors.DelegationTokenRequestNotAllowed):
            anonymous.create_delegation_token()
        with pytest.raises(errors.DelegationTokenRequestNotAllowed):
            anonymous.describe_delegation_tokens()
    token = new(served)
    with admin(served, login("bob")) as bob:
        with pytest.raises(errors.DelegationTokenOwnerMismatch):
            bob.expire_delegation_token(token.hmac)
        with pytest.raises(errors.DelegationTokenAuthorizationFailed):
            bob.create_delegation_token(owner="User:alice")
        with pytest.raises(errors.InvalidPrincipalType):
            bob.create_delegation_token(renewers="Group:all")
        assert "User:alice" not in [each.owner for each in bob.describe_delegation_tokens()]


def test_a_user_has_a_limited_number_of_tokens(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with admin(served, login("bob")) as bob:
        token = bob.create_delegation_token()
        monkeypatch.setattr(token_changes, "MOST_TOKENS", 1)
        with pytest.raises(errors.PolicyViolation):
            bob.create_delegation_token()
        bob.expire_delegation_token(token.hmac)
        bob.expire_delegation_token(bob.create_delegation_token().hmac)


def test_the_secret_is_never_shown(served: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = new(served)
    refused_login(served, by_token(token) | {"sasl_password": "wrong"})
    with admin(served, login("alice")) as alice:
        alice.renew_delegation_token(token.hmac)
    with Admin(address(served, "PLAINTEXT")) as root:
        found = repr(root.describe_configs(ConfigResource(ResourceType.BROKER, str(served.broker.node_id))))
    assert "delegation.token.secret.key" in found
    for secret in (KEY, token.password, token.hmac.hex()):
        assert secret not in found
        assert secret not in caplog.text
        assert secret not in repr(token)


def test_rights_to_users_and_tokens_show_those_of_others(served: Running) -> None:
    kinds = AclResourceType
    with admin(served, login("bob")) as bob:
        allow(served, AclOperation.CREATE_TOKENS, kinds.USER, "User:alice")
        token = bob.create_delegation_token(owner="User:alice")
        assert (token.owner, token.requester) == ("User:alice", "User:bob")
        with admin(served, by_token(token)) as holder:
            holder.describe_cluster(timeout=PATIENCE_S)
        other = new(served)

        def seen() -> set[str]:
            return {each.token_id for each in bob.describe_delegation_tokens()}

        assert other.token_id not in seen()
        allow(served, AclOperation.DESCRIBE, kinds.DELEGATION_TOKEN, other.token_id)
        assert other.token_id in seen()
        another = new(served)
        assert another.token_id not in seen()
        allow(served, AclOperation.DESCRIBE_TOKENS, kinds.USER, "User:alice")
        assert another.token_id in seen()


def test_without_the_key_there_are_no_tokens(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("none"), **SETTINGS) as broker, admin(broker, login("alice")) as alice:
        for ask in (
            alice.create_delegation_token,
            alice.describe_delegation_tokens,
            lambda: alice.renew_delegation_token(b"x"),
            lambda: alice.expire_delegation_token(b"x"),
        ):
            with pytest.raises(errors.DelegationTokenAuthDisabled):
                ask()
