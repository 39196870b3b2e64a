"""The authorizer against a simple model that checks every ACL for every question, with random changes."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from pybroker.security.acls import AccessControlEntry, AclBinding, ResourcePattern
from pybroker.security.authorizer import StandardAuthorizer
from pybroker.security.tests.acl_samples import by_pattern
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

NAMES = ["a", "aa", "ab", "aab", "b", "*", "hard", "hardcode", "x*"]
PRINCIPALS = ["User:a", "User:b", "User:*", "Group:a", "User:root"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
KINDS = [AclResourceType.TOPIC, AclResourceType.GROUP]
OPERATIONS = [each for each in AclOperation if each >= AclOperation.ALL]
ASKED = [each for each in OPERATIONS if each > AclOperation.ALL]

entries = st.builds(
    AccessControlEntry,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from([AclPermissionType.DENY, AclPermissionType.ALLOW, AclPermissionType.ALLOW]),
)
patterns = st.builds(
    ResourcePattern,
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
changes = st.dictionaries(patterns, st.lists(entries, max_size=3).map(tuple), max_size=6)
questions = st.tuples(
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS[1:]),
    st.sampled_from(ASKED),
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
)

DESCRIBING = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}

Question = tuple[str, str, AclOperation, AclResourceType, str]


def is_about(pattern: ResourcePattern, kind: AclResourceType, name: str) -> bool:
    if pattern.resource_type is not kind:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name == name or pattern.name == "*"


def concerns(entry: AccessControlEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, "User:*") and entry.host in (host, "*")


def plainly(acls: Iterable[AclBinding], question: Question, everyone: bool) -> bool:
    principal, host, operation, kind, name = question
    if principal == "User:root":
        return True
    about = [entry for pattern, entry in acls if is_about(pattern, kind, name)]
    if not about:
        return everyone
    mine = [entry for entry in about if concerns(entry, principal, host)]
    exact = [entry for entry in mine if entry.operation in (operation, AclOperation.ALL)]
    if any(entry.permission_type is AclPermissionType.DENY for entry in exact):
        return False
    implying = DESCRIBING.get(operation, set())
    return any(
        entry.permission_type is AclPermissionType.ALLOW and (entry in exact or entry.operation in implying)
        for entry in mine
    )


def plainly_any(acls: list[AclBinding], question: Question, everyone: bool) -> bool:
    principal, host, operation, kind, _ = question
    if plainly(acls, (principal, host, operation, kind, "hardcode"), everyone):
        return True
    mine = [
        (pattern, entry.permission_type)
        for pattern, entry in acls
        if pattern.resource_type is kind
        and concerns(entry, principal, host)
        and entry.operation in (operation, AclOperation.ALL)
    ]
    denied = [pattern for pattern, permission in mine if permission is AclPermissionType.DENY]
    allowed = [pattern for pattern, permission in mine if permission is AclPermissionType.ALLOW]
    wildcard = ResourcePattern(kind, "*")
    if wildcard in denied or wildcard in allowed:
        return wildcard not in denied
    return any(
        pattern not in denied
        and not any(d.pattern_type is PatternType.PREFIXED and pattern.name.startswith(d.name) for d in denied)
        for pattern in allowed
    )


@given(st.lists(changes, min_size=1, max_size=4), st.lists(questions, min_size=1, max_size=20), st.booleans())
def test_it_decides_like_a_scan_of_every_acl(
    rounds: list[dict[ResourcePattern, tuple[AccessControlEntry, ...]]], asked: list[Question], everyone: bool
) -> None:
    made = StandardAuthorizer(["User:root"], allows_everyone=everyone)
    known: dict[ResourcePattern, tuple[AccessControlEntry, ...]] = {}
    for change in rounds:
        made.update(change)
        known |= change
        acls = [AclBinding(pattern, entry) for pattern, entries in known.items() for entry in entries]
        for question in asked:
            assert made.authorize(*question) == plainly(acls, question, everyone)
            assert made.authorize_any(*question[:4]) == plainly_any(acls, question, everyone)


@given(st.lists(changes, min_size=1, max_size=4))
def test_many_changes_equal_one_change(
    rounds: list[dict[ResourcePattern, tuple[AccessControlEntry, ...]]],
) -> None:
    step_by_step, at_once = StandardAuthorizer(), StandardAuthorizer()
    known: dict[ResourcePattern, tuple[AccessControlEntry, ...]] = {}
    for change in rounds:
        step_by_step.update(change)
        known |= change
    at_once.update(by_pattern(AclBinding(pattern, entry) for pattern, entries in known.items() for entry in entries))
    for kind, one in step_by_step._indexes.items():
        other = at_once._indexes[kind]
        assert (one.literal, one.prefixed, one.lengths) == (other.literal, other.prefixed, other.lengths)
        assert one.patterns == other.patterns
