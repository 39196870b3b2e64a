"""Errors about a missing right: the user, the resource, and the command that grants it."""

from __future__ import annotations

import pickle

import pytest

from pyclient.config import ADMIN, load
from pyclient.core.reports.rights import CONSUMING, PRODUCING, Rights, principal
from pyclient.core.security.credentials import credentials
from pyclient.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)

WHERE = "-b a:1,b:2 --command-config admin.properties"
ALICE = Rights("User:alice", PRODUCING, "a:1,b:2")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="x";'
TOKEN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="x" tokenauth="true";'


@pytest.mark.parametrize(
    ("error", "told", "right"),
    [
        (TopicAuthorizationFailed(), "needs WRITE on topic t", "--operation write --topic t"),
        (GroupAuthorizationFailed(), "needs READ on group my g", "--operation read --group 'my g'"),
        (
            TransactionalIdAuthorizationFailed(),
            "needs WRITE on transactional id x",
            "--operation write --transactional-id x",
        ),
        (
            ClusterAuthorizationFailed(),
            "needs WRITE on topic t (or IDEMPOTENT_WRITE on the cluster)",
            "--operation write --topic t",
        ),
    ],
)
def test_an_error_names_the_right_and_how_to_grant_it(error: Exception, told: str, right: str) -> None:
    found = ALICE.told(error, topic="t", group="my g", transactional_id="x")
    assert type(found) is type(error)
    assert found.grant == f"pybroker acl create --allow User:alice {right} {WHERE}"
    assert str(found).endswith(f"User:alice {told}, which an administrator grants: `{found.grant}`")
    assert pickle.loads(pickle.dumps(found)).grant == found.grant
    assert ALICE.told(found, topic="other") is found


def test_a_producer_without_an_id_and_a_topic_needs_the_cluster_right() -> None:
    found = ALICE.told(ClusterAuthorizationFailed())
    assert "User:alice needs IDEMPOTENT_WRITE on the cluster" in str(found)
    assert "--operation idempotent-write --cluster" in found.grant


def test_an_error_names_no_right_that_is_unknown() -> None:
    denied = TopicAuthorizationFailed("t: no.")
    assert ALICE.told(denied) is denied
    assert Rights("User:alice", {}).told(denied, topic="t") is denied
    assert ALICE.told(OffsetOutOfRange(), topic="t").grant == ""
    told = Rights(None, CONSUMING).told(denied, topic="t", more=" (and more)")
    assert str(told) == (
        "t: no; its user needs READ on topic t (and more), which an administrator grants: "
        "`pybroker acl create --allow USER --operation read --topic t --command-config admin.properties`"
    )


@pytest.mark.parametrize(
    ("settings", "who"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security_protocol": "SSL"}, "User:ANONYMOUS"),
        ({"security_protocol": "SSL", "ssl_keystore_location": "client.pem"}, None),
        ({"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": "x"}, "User:alice"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": JAAS}, "User:alice"),
        ({"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": TOKEN}, None),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "x"}, None),
    ],
)
def test_the_user_named_in_errors_comes_from_the_settings(settings: dict[str, object], who: str | None) -> None:
    known = {"security_protocol": "SASL_PLAINTEXT"} if "sasl_mechanism" in settings else {}
    config = load(ADMIN, "h:1", None, known | settings)
    user = credentials(config, lambda: 0.5)[0].user if known else None
    assert principal(config, user) == who
