"""Rights of clients: the cache of a connection, refusals of long requests, the client of a forwarded request."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pybroker.handlers import alter_client_quotas, create_acls, delete_acls
from pybroker.handlers.common import identity
from pybroker.handlers.common.call import Call, ForwardedCall
from pybroker.handlers.common.security import rights
from pybroker.handlers.common.security.rights import (
    DESCRIBE_TOPIC,
    READ_TOPIC,
    WRITE_TOPIC,
    check_all,
    check_topic,
    permitted,
)
from pybroker.handlers.tests.harness import Node, OneItemTurns
from pyclient.protocol import AlterClientQuotas, CreateAcls, DeleteAcls, errors
from pyclient.protocol.acls import AclOperation, AclResourceType

NAMES = [f"t{number}" for number in range(5)]


class Counting:
    """An authorizer that allows the rights in ``allowed``, and counts the questions."""

    def __init__(self) -> None:
        self.version = 0
        self.allowed: set[str] = set()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.request = ""
        """The API of the last question."""

    def authorize(
        self, principal: str, host: str, operation: AclOperation, kind: AclResourceType, name: str, *,
        request: str, **more: Any,
    ) -> bool:
        self.request = request
        self.asked[principal, name] += 1
        return name in self.allowed

    def authorize_any(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        raise AssertionError


@pytest.fixture
def authorizer(node: Node) -> Counting:
    """Returns the authorizer of a broker with the topics t and u."""
    node.create("t")
    node.create("u")
    node.authorizer = found = Counting()  # type: ignore[assignment]
    return found


def may(call: Call, name: str, right: Any = READ_TOPIC) -> bool:
    try:
        check_topic(call, right, name, b"")
    except errors.TopicAuthorizationFailed:
        return False
    return True


def test_a_connection_caches_what_the_authorizer_allows_until_an_acl_changes(node: Node, authorizer: Counting) -> None:
    call = node.call(12)
    authorizer.allowed.add("t")
    assert [may(call, name) for name in "tutu"] == [True, False, True, False]
    assert authorizer.asked["User:alice", "t"] == 1
    authorizer.allowed, authorizer.version = {"u"}, 1
    assert [may(call, name) for name in "tutu"] == [False, True, False, True]
    assert authorizer.asked["User:alice", "u"] == 2 + 1


def test_denials_are_not_cached_so_that_the_audit_log_repeats_them(
    node: Node, authorizer: Counting
) -> None:
    call = node.call(12)
    assert [may(call, "t") for _ in range(3)] == [False] * 3
    assert authorizer.asked["User:alice", "t"] == 3


def test_the_authorizer_gets_the_name_of_the_request_for_its_audit_log(node: Node, authorizer: Counting) -> None:
    assert not may(Call(node, 12, "c", node.connection, "Fetch"), "t")  # type: ignore[arg-type]
    assert authorizer.request == "Fetch"


def test_a_cached_permission_is_valid_for_one_principal_and_one_operation_only(
    node: Node, authorizer: Counting
) -> None:
    call = node.call(12)
    authorizer.allowed.add("t")
    assert may(call, "t")
    node.connection.principal = "User:other"
    assert may(call, "t")
    assert may(call, "t", WRITE_TOPIC)
    assert authorizer.asked == {("User:alice", "t"): 1, ("User:other", "t"): 2}


def test_permissions_are_cached_for_existing_topics_only_and_up_to_a_limit(
    node: Node, authorizer: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "MOST_KEPT", 1)
    authorizer.allowed = {"no-1", "no-2", "t", "u"}
    call = node.call(12)
    for name in ("no-1", "no-2", "t", "u"):
        assert may(call, name)
        assert len(call.decisions) <= 1
    assert list(call.decisions) == ["u"]


def test_many_topics_are_authorized_in_several_turns(node: Node, authorizer: Counting) -> None:
    node.turns = turns = OneItemTurns()
    authorizer.allowed = set(NAMES)
    call = node.call(0)
    assert node.run(permitted(call, DESCRIBE_TOPIC, [*NAMES, "hidden"], str)) == NAMES
    assert turns.count >= len(NAMES)
    node.run(check_all(call, DESCRIBE_TOPIC, NAMES))
    assert turns.count >= 2 * len(NAMES)
    with pytest.raises(errors.TopicAuthorizationFailed):
        node.run(check_all(call, DESCRIBE_TOPIC, ["hidden"]))
    assert call.connection.held == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("handler", "request_of", "asked", "told"),
    [
        (alter_client_quotas, AlterClientQuotas.Request, ("entries", "EntryData"), "entries"),
        (create_acls, CreateAcls.Request, ("creations", "AclCreation"), "results"),
        (delete_acls, DeleteAcls.Request, ("filters", "DeleteAclsFilter"), "filter_results"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_request_with_many_changes_is_refused_in_several_turns(
    node: Node, handler: Any, request_of: Any, asked: tuple[str, str], told: str
) -> None:
    node.turns = turns = OneItemTurns()
    field, item = asked
    request = request_of(**{field: [getattr(request_of, item)() for _ in NAMES]})
    response = node.run(handler.refused(request, node.call(1), errors.ClusterAuthorizationFailed()))
    codes = [each.error_code for each in getattr(response, told)]
    assert codes == [errors.ClusterAuthorizationFailed.code] * len(NAMES)
    assert turns.count >= len(NAMES) - 1


def test_an_ipv4_client_has_the_same_host_on_an_ipv4_and_an_ipv6_socket(node: Node) -> None:
    hosts = []
    for address in ("10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"):
        node.connection.peer_address = (address, 1)
        hosts.append(node.call(0).host)
    assert hosts == ["10.0.0.1", "10.0.0.1", "2001:db8::1"]


def test_a_forwarded_request_shows_whether_its_client_authenticated_by_delegation_token(node: Node) -> None:
    for by_token in (False, True):
        who = identity.decoded(*identity.encoded("User:a", "::1", is_by_token=by_token))
        assert ForwardedCall(node, 0, "c", node.connection, *who).is_by_token is by_token  # type: ignore[arg-type]


def test_an_envelope_carries_the_principal_in_kafkas_format() -> None:
    principal, host = identity.encoded("User:CN=a:b", "10.0.0.1")
    assert principal == b"\0\0" + b"\x05User" + b"\x07CN=a:b" + b"\0" + b"\0"
    assert host == bytes([10, 0, 0, 1])
    assert identity.decoded(principal, host) == ("User:CN=a:b", "10.0.0.1", False)
    assert identity.decoded(*identity.encoded("User:a", "::1", is_by_token=True)) == ("User:a", "::1", True)
    assert identity.decoded(*identity.encoded("User:", "fe80::1%eth0")) == ("User:", "fe80::1", False)


@pytest.mark.parametrize(
    ("principal", "host"),
    [
        (b"", bytes(4)),
        (b"\0\1\x02U\x02a\0\0", bytes(4)),
        (b"\0\0\x02U\x02a\0\0", b""),
        (b"\0\0\x02U", bytes(4)),
    ],
)
def test_an_envelope_with_a_malformed_principal_or_host_is_refused(principal: bytes, host: bytes) -> None:
    with pytest.raises(errors.PrincipalDeserializationFailure):
        identity.decoded(principal, host)
