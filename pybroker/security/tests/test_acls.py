"""ACLs and their filters follow Kafka's rules."""

from __future__ import annotations

import pytest

from pybroker.security.acls import AclBinding, AclFilter, by_code, by_word, shown, word
from pybroker.security.tests.acl_samples import ALLOW, CLUSTER, DENY, GROUP, LITERAL, PREFIXED, READ, TOPIC, WRITE, acl
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from pyclient.protocol.errors import InvalidRequest

ONES = [
    acl("flights"),
    acl("flights", permission=DENY),
    acl("fli", pattern=PREFIXED),
    acl("*"),
    acl("flights", kind=GROUP),
    acl("routes", "User:bob", WRITE, host="10.0.0.1"),
]


def found(wanted: AclFilter) -> list[AclBinding]:
    return [each for each in ONES if wanted.matches_pattern(each.pattern) and wanted.matches_entry(each.entry)]


def test_an_empty_filter_finds_all() -> None:
    assert found(AclFilter()) == ONES


def test_a_filter_finds_by_name_and_pattern() -> None:
    assert found(AclFilter(TOPIC, "flights")) == ONES[:2]
    assert found(AclFilter(TOPIC, "flights", PREFIXED)) == []
    assert found(AclFilter(TOPIC, "fli", PREFIXED)) == [ONES[2]]
    assert found(AclFilter(pattern_type=LITERAL, name="*")) == [ONES[3]]
    assert found(AclFilter(GROUP)) == [ONES[4]]


def test_a_match_filter_finds_all_acls_that_apply_to_the_resource() -> None:
    assert found(AclFilter(TOPIC, "flights", PatternType.MATCH)) == ONES[:4]
    assert found(AclFilter(TOPIC, "fl", PatternType.MATCH)) == [ONES[3]]
    assert found(AclFilter(TOPIC, None, PatternType.MATCH)) == [*ONES[:4], ONES[5]]


def test_a_filter_finds_by_entry() -> None:
    assert found(AclFilter(principal="User:bob")) == [ONES[5]]
    assert found(AclFilter(host="10.0.0.1")) == [ONES[5]]
    assert found(AclFilter(host="*", permission_type=DENY)) == [ONES[1]]
    assert found(AclFilter(operation=WRITE)) == [ONES[5]]
    assert found(AclFilter(operation=READ, permission_type=ALLOW, resource_type=GROUP)) == [ONES[4]]


@pytest.mark.parametrize(
    ("binding", "says"),
    [
        (acl("t", kind=AclResourceType.ANY), "Invalid resourceType ANY"),
        (acl("t", kind=AclResourceType.UNKNOWN), "Invalid resourceType UNKNOWN"),
        (acl("t", pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (acl("t", pattern=PatternType.ANY), "Invalid patternType ANY"),
        (acl("t", operation=AclOperation.ANY), "Invalid operation ANY"),
        (acl("t", operation=AclOperation.UNKNOWN), "Invalid operation UNKNOWN"),
        (acl("t", permission=AclPermissionType.ANY), "Invalid permissionType ANY"),
        (acl(""), "Resource name should not be empty"),
        (acl("other", kind=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl("t", "alice"), r"Could not parse principal from `alice` \(no colon is present"),
        (acl("t", host=""), "Host pattern cannot be null or empty"),
    ],
)
def test_an_invalid_acl_is_refused_in_kafkas_words(binding: AclBinding, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        binding.check()


def test_an_acl_for_a_range_of_hosts_is_refused_since_it_would_match_no_client() -> None:
    with pytest.raises(InvalidRequest, match=r"CIDR-based ACL host patterns such as 10\.0\.0\.0/8 are not supported"):
        acl("t", host="10.0.0.0/8").check()


def test_an_acl_about_the_cluster_has_its_only_name() -> None:
    acl("kafka-cluster", kind=CLUSTER, operation=AclOperation.CLUSTER_ACTION).check()


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(AclResourceType.UNKNOWN),
        AclFilter(pattern_type=PatternType.UNKNOWN),
        AclFilter(operation=AclOperation.UNKNOWN),
        AclFilter(permission_type=AclPermissionType.UNKNOWN),
    ],
)
def test_a_filter_with_a_number_that_kafka_does_not_have_is_refused(wanted: AclFilter) -> None:
    with pytest.raises(InvalidRequest, match="Unknown"):
        wanted.check()
    assert by_code(AclOperation, 99) is AclOperation.UNKNOWN


def test_words_are_those_of_kafkas_nodes() -> None:
    assert [word(each) for each in AclResourceType][2:] == [
        *("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
    ]
    assert word(AclOperation.IDEMPOTENT_WRITE) == "IdempotentWrite"
    assert by_word(AclOperation, "DescribeConfigs") is AclOperation.DESCRIBE_CONFIGS
    for wrong in ("Any", "Unknown", "READ", "Fly"):
        with pytest.raises(ValueError, match=wrong):
            by_word(AclOperation, wrong)


def test_a_name_breaks_no_line_and_ends() -> None:
    assert shown("a\nPrincipal = User:root") == "a\\nPrincipal = User:root"
    assert shown("größe") == "größe"
    assert len(shown("x" * 30_000)) == 250
