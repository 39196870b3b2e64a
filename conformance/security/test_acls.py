"""ACLs with foreign clients: what they manage, what is allowed, and by which error of their own they hear a refusal."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from conformance.drivers.logins import Login
from conformance.security.base import Acl, Administrator, Client, Refused
from conformance.security.conftest import ADMINISTRATORS, Grant
from harness.waiting import until


def refusal(client: Client, resource: str) -> AbstractContextManager[object]:
    """Expects the client's own error about a resource of this kind."""
    return pytest.raises(Refused, match=f"^{client.refusal_of(resource)}:")


def test_s112_acls_are_created_described_and_deleted(
    administrator: Administrator, admin: Login, user: Login, topic: str
) -> None:
    literal = Acl(user.principal, "READ", "TOPIC", topic)
    prefixed = Acl(user.principal, "WRITE", "TOPIC", topic[:-1], "PREFIXED")
    denying = Acl(user.principal, "DELETE", "TOPIC", topic, "LITERAL", "DENY")
    of_all = Acl("User:*", "DESCRIBE", "GROUP", topic)
    of_cluster = Acl(user.principal, "IDEMPOTENT_WRITE", "CLUSTER", "kafka-cluster")
    administrator.create(admin, [literal, prefixed, denying, of_all, of_cluster])

    def mine(kind: str, name: str) -> set[Acl]:
        return {acl for acl in administrator.describe(admin, kind, name) if acl.principal in (user.principal, "User:*")}

    until(lambda: mine("TOPIC", topic) == {literal, prefixed, denying}, "the ACLs of the topic")
    until(lambda: mine("GROUP", topic) == {of_all}, "the ACL of the group")
    until(lambda: mine("CLUSTER", "kafka-cluster") == {of_cluster}, "the ACL of the cluster")
    for acl in (prefixed, denying, of_all, of_cluster):
        administrator.delete(admin, acl)
    until(lambda: mine("TOPIC", topic) == {literal}, "one ACL left")
    until(lambda: not mine("GROUP", topic) | mine("CLUSTER", "kafka-cluster"), "no ACL left")


@pytest.mark.parametrize("name", ADMINISTRATORS)
def test_s112_an_administrator_without_rights_is_refused(
    name: str, administrators: dict[str, Administrator], clients: dict[str, Client], user: Login, topic: str
) -> None:
    by, names = administrators[name], clients[name]
    acl = Acl(user.principal, "READ", "TOPIC", topic)
    with refusal(names, "cluster"):
        by.create(user, [acl])
    if name == "librdkafka":  # The client does not read the error of this answer.
        assert by.describe(user, "TOPIC", topic) == set()
    else:
        with refusal(names, "cluster"):
            by.describe(user, "TOPIC", topic)
    with refusal(names, "cluster"):
        by.delete(user, acl)


def test_s112_a_producer_can_write_only_with_the_right_to_write(
    client: Client, user: Login, topic: str, grant: Grant
) -> None:
    with refusal(client, "hidden topic"):
        client.write(user, topic, b"x")
    grant(("DESCRIBE", "TOPIC", topic))
    with refusal(client, "topic"):
        client.write(user, topic, b"x")
    grant(("WRITE", "TOPIC", topic))
    client.write(user, topic, b"second")
    with refusal(client, "group"):
        client.read(user, topic, topic)


def test_s112_an_idempotent_producer_needs_the_right_to_write_one_topic(
    idempotent_client: Client, user: Login, topic: str, grant: Grant
) -> None:
    grant(("DESCRIBE", "TOPIC", topic))
    with refusal(idempotent_client, "cluster"):
        idempotent_client.write(user, topic, b"x", idempotent=True)
    grant(("WRITE", "TOPIC", topic))
    idempotent_client.write(user, topic, b"x", idempotent=True)


def test_s112_a_consumer_needs_rights_to_topic_and_group(client: Client, user: Login, topic: str, grant: Grant) -> None:
    grant(("READ", "TOPIC", topic))
    with refusal(client, "group"):
        client.read(user, topic, topic)
    grant(("READ", "GROUP", topic))
    assert client.read(user, topic, topic) == [b"first"]
    with refusal(client, "topic"):
        client.write(user, topic, b"x")


def test_s112_a_consumer_without_topic_right_is_refused(client: Client, user: Login, topic: str, grant: Grant) -> None:
    grant(("READ", "GROUP", topic))
    if client.tells_of_hidden_topics:
        with refusal(client, "topic"):
            client.read(user, topic, topic)
    grant(("DESCRIBE", "TOPIC", topic))
    with refusal(client, "topic"):
        client.read(user, topic, topic)


def test_s112_a_transaction_needs_rights_to_id_and_topic(
    idempotent_client: Client, user: Login, topic: str, grant: Grant
) -> None:
    grant(("DESCRIBE", "TOPIC", topic))
    with refusal(idempotent_client, "transactional id"):
        idempotent_client.transact(user, topic, topic)
    grant(("WRITE", "TRANSACTIONAL_ID", topic))
    with refusal(idempotent_client, "topic"):
        idempotent_client.transact(user, topic, topic)
    grant(("WRITE", "TOPIC", topic))
    idempotent_client.transact(user, topic, topic)


def test_s112_a_prefix_acl_allows_and_a_denied_topic_stays_denied(
    client: Client, user: Login, topic: str, grant: Grant
) -> None:
    grant(("ALL", "TOPIC", topic[:-1], "PREFIXED"), ("ALL", "GROUP", "*"))
    client.write(user, topic, b"second")
    assert client.read(user, topic, topic, 2) == [b"first", b"second"]
    grant(("WRITE", "TOPIC", topic, "LITERAL", "DENY"), ("READ", "GROUP", topic[:-1], "PREFIXED", "DENY"))
    with refusal(client, "topic"):
        client.write(user, topic, b"x")
    with refusal(client, "group"):
        client.read(user, topic, topic)
