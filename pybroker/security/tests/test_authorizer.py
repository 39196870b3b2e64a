"""Each rule of Kafka's StandardAuthorizer, one by one."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from pybroker.security.acl_index import canonical
from pybroker.security.acls import UNREADABLE, AclBinding, ResourcePattern
from pybroker.security.authorizer import LONGEST_KEPT, MOST_KEPT, StandardAuthorizer
from pybroker.security.tests.acl_samples import (
    ALL,
    CLUSTER,
    DENY,
    DESCRIBE,
    GROUP,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    acl,
    by_pattern,
)
from pyclient.protocol.acls import AclOperation

HOST = "10.0.0.1"
ALICE = "User:alice"
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


def authorizer(*bindings: AclBinding, allows_everyone: bool = False) -> StandardAuthorizer:
    made = StandardAuthorizer(["User:root"], allows_everyone=allows_everyone)
    made.update(by_pattern(bindings))
    return made


def may(made: StandardAuthorizer, name: str = "flights", operation: AclOperation = READ, who: str = ALICE) -> bool:
    return made.authorize(who, HOST, operation, TOPIC, name)


def test_without_an_acl_only_super_users_are_allowed() -> None:
    made = authorizer()
    assert not may(made)
    assert may(made, who="User:root")
    assert not may(made, who="User:Root")


def test_an_acl_allows_its_operation_to_its_principal_on_its_resource() -> None:
    made = authorizer(acl("flights"))
    assert may(made)
    assert not may(made, operation=WRITE)
    assert not may(made, who="User:bob")
    assert not may(made, "flights2")
    assert not made.authorize(ALICE, HOST, READ, GROUP, "flights")


@pytest.mark.parametrize("first", [DENY, None])
def test_a_denying_acl_wins_in_any_order(first: object) -> None:
    both = [acl("flights", permission=DENY), acl("*", operation=ALL)]
    assert not may(authorizer(*(both if first else reversed(both))))


def test_a_super_user_may_do_what_is_denied() -> None:
    assert may(authorizer(acl("flights", "User:*", ALL, DENY)), who="User:root")


@pytest.mark.parametrize(
    "operation", [AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER]
)
def test_a_user_of_a_resource_may_describe_it(operation: AclOperation) -> None:
    made = authorizer(acl("flights", operation=operation))
    assert may(made, operation=DESCRIBE)
    assert not may(made, operation=DESCRIBE_CONFIGS)


def test_a_right_to_alter_configurations_is_one_to_describe_them() -> None:
    made = authorizer(acl("flights", operation=ALTER_CONFIGS))
    assert may(made, operation=DESCRIBE_CONFIGS)
    assert not may(made, operation=DESCRIBE)
    assert not may(authorizer(acl("flights", operation=AclOperation.CREATE)), operation=DESCRIBE)


def test_a_denying_acl_implies_nothing() -> None:
    made = authorizer(acl("flights", operation=READ, permission=DENY), acl("flights", operation=DESCRIBE))
    assert may(made, operation=DESCRIBE)
    assert not may(made)


def test_all_means_every_operation_for_allow_and_deny() -> None:
    assert all(may(authorizer(acl("flights", operation=ALL)), operation=each) for each in AclOperation if each > ALL)
    denied = authorizer(acl("flights", operation=ALL, permission=DENY), acl("flights", operation=DESCRIBE))
    assert not any(may(denied, operation=each) for each in AclOperation if each > ALL)


def test_a_literal_star_is_every_resource_and_a_prefixed_one_is_not() -> None:
    assert may(authorizer(acl("*")))
    made = authorizer(acl("*", pattern=PREFIXED))
    assert not may(made)
    assert may(made, "*flights")


def test_a_prefixed_acl_covers_names_with_that_prefix() -> None:
    made = authorizer(acl("fli", pattern=PREFIXED), acl("flights-", operation=WRITE, pattern=PREFIXED))
    assert may(made)
    assert may(made, "fli")
    assert not may(made, "fl")
    assert may(made, "flights-eu", WRITE)
    assert not may(made, "flights", WRITE)


def test_everybody_is_a_principal() -> None:
    made = authorizer(acl("flights", "User:*"))
    assert may(made, who="User:anybody")
    assert may(made, who="Group:of-others")
    assert not may(authorizer(acl("flights", "Group:*")))


def test_an_acl_of_a_host_is_about_that_host() -> None:
    made = authorizer(acl("flights", host=HOST), acl("routes", host="10.0.0.2"))
    assert may(made)
    assert not may(made, "routes")


@pytest.mark.parametrize(
    ("written", "comes"),
    [("::1", "0:0:0:0:0:0:0:1"), ("0:0:0:0:0:0:0:1", "::1"), ("FE80::1", "fe80::1"), ("10.0.0.1", "::ffff:10.0.0.1")],
)
def test_an_address_is_the_same_however_it_is_written(written: str, comes: str) -> None:
    made = authorizer(acl("flights", host=written))
    assert made.authorize(ALICE, comes, READ, TOPIC, "flights")
    assert canonical("some:host") == "some:host"


def test_a_resource_without_acls_is_open_if_so_configured() -> None:
    made = authorizer(acl("flights", "User:bob"), acl("ro", "User:bob", pattern=PREFIXED), allows_everyone=True)
    assert may(made, "cities", WRITE)
    assert not may(made)
    assert not may(made, "routes")
    assert not may(authorizer(acl("*", "User:bob"), allows_everyone=True), "cities")


def test_unreadable_acls_admit_only_super_users() -> None:
    made = authorizer(acl("*", operation=ALL), allows_everyone=True)
    made.update({ResourcePattern(TOPIC, "flights"): UNREADABLE})
    assert not may(made)
    assert may(made, "routes")
    assert may(made, who="User:root")


def test_a_change_counts_at_once_and_has_a_version() -> None:
    made = authorizer(acl("flights"))
    version = made.version
    assert may(made)
    made.update(by_pattern([acl("flights", "User:bob")]))
    assert (may(made), may(made, who="User:bob")) == (False, True)
    assert made.version > version
    made.update({acl("flights").pattern: ()})
    assert not may(made, who="User:bob")


def test_prefixes_of_a_length_are_looked_up_while_one_exists() -> None:
    made = authorizer(acl("aa", pattern=PREFIXED), acl("bb", pattern=PREFIXED))
    made.update({acl("aa", pattern=PREFIXED).pattern: ()})
    assert not may(made, "aaa")
    assert may(made, "bbb")
    made.update({acl("bb", pattern=PREFIXED).pattern: ()})
    assert not may(made, "bbb")


def test_decisions_that_are_kept_are_bounded() -> None:
    made = authorizer(acl("flights"))
    for number in range(MOST_KEPT + 10):
        may(made, f"t{number}")
    assert len(made._rights) <= MOST_KEPT
    may(made, "x" * (LONGEST_KEPT + 1))
    assert max(len(name) for *_, name in made._rights) <= LONGEST_KEPT


# -- any resource of a kind -------------------------------------------------------------------------


def may_any(*bindings: AclBinding, operation: AclOperation = WRITE, who: str = ALICE) -> bool:
    return authorizer(*bindings).authorize_any(who, HOST, operation, TOPIC)


def test_one_resource_that_is_allowed_is_enough() -> None:
    assert may_any(acl("flights", operation=WRITE))
    assert may_any(acl("fli", operation=ALL, pattern=PREFIXED))
    assert may_any(acl("*", "User:*", WRITE))
    assert not may_any(acl("flights"))
    assert not may_any(acl("flights", operation=WRITE, kind=GROUP))
    assert not may_any(acl("flights", "User:bob", WRITE))
    assert not may_any(acl("flights", operation=WRITE, host="10.0.0.2"))
    assert may_any(who="User:root")


def test_implied_operations_do_not_count_for_any_resource() -> None:
    assert not may_any(acl("flights", operation=WRITE), operation=DESCRIBE)


def test_a_wildcard_that_denies_denies_any() -> None:
    assert not may_any(acl("flights", operation=WRITE), acl("*", "User:*", WRITE, DENY))


def test_a_resource_that_is_denied_as_well_does_not_count() -> None:
    allowed = acl("flights", operation=WRITE)
    assert not may_any(allowed, acl("flights", operation=ALL, permission=DENY))
    assert not may_any(allowed, acl("fl", operation=WRITE, permission=DENY, pattern=PREFIXED))
    assert may_any(allowed, acl("flights-", operation=WRITE, permission=DENY, pattern=PREFIXED))
    assert may_any(allowed, acl("flights", operation=WRITE, permission=DENY), acl("routes", operation=WRITE))


def test_a_prefix_is_denied_by_a_shorter_one_only() -> None:
    allowed = acl("flights-", operation=WRITE, pattern=PREFIXED)
    assert may_any(allowed, acl("flights-", operation=WRITE, permission=DENY))
    assert not may_any(allowed, acl("flights-", operation=WRITE, permission=DENY, pattern=PREFIXED))
    assert may_any(allowed, acl("flights-eu", operation=WRITE, permission=DENY, pattern=PREFIXED))


@pytest.mark.parametrize("operation", [READ, WRITE])
def test_many_acls_make_any_no_slower(operation: AclOperation) -> None:
    calls = []
    for number in (10, 1000):
        made = authorizer(*(acl(f"t{each}") for each in range(number)), acl("t", operation=ALL, permission=DENY))
        count = 0

        def on_event(frame: FrameType, event: str, arg: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(on_event)
        made.authorize_any(ALICE, HOST, operation, TOPIC)
        sys.setprofile(None)
        calls.append(count)
    assert calls[0] == calls[1]


def test_any_is_decided_again_after_a_change() -> None:
    made = authorizer(acl("flights", operation=WRITE))
    assert made.authorize_any(ALICE, HOST, WRITE, TOPIC)
    made.update({acl("flights").pattern: ()})
    assert not made.authorize_any(ALICE, HOST, WRITE, TOPIC)
    assert not made.authorize_any(ALICE, HOST, WRITE, CLUSTER)
