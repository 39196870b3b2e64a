"""ACLs: the requests that the admin client sends, and the results that it makes of the responses."""

from __future__ import annotations

import pytest

from pyclient.admin import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
)
from pyclient.admin.tests.test_routing import with_admin
from pyclient.errors import InvalidRequest, NotController, SecurityDisabled
from pyclient.protocol import CreateAcls, DeleteAcls, DescribeAcls

READ = AclBinding.allow("User:alice", AclOperation.READ, AclResourceType.TOPIC, "flights")
DENIED = AclBinding(
    ResourcePattern(AclResourceType.GROUP, "app-", PatternType.PREFIXED),
    AccessControlEntry("User:*", "10.0.0.7", AclOperation.ALL, AclPermissionType.DENY),
)
OF_ALICE = AclBindingFilter(entry=AccessControlEntryFilter("User:alice"))
OF_FLIGHTS = AclBindingFilter(ResourcePatternFilter(AclResourceType.TOPIC, "flights", PatternType.MATCH))
Described = DescribeAcls.Response.DescribeAclsResource
Matching = DeleteAcls.Response.DeleteAclsMatchingAcl
Deleted = DeleteAcls.Response.DeleteAclsFilterResult
Created = CreateAcls.Response.AclCreationResult


def described(*acls):
    """Returns the broker's answer."""
    row = DescribeAcls.Response.AclDescription
    resources = [
        Described(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            pattern_type=pattern.pattern_type,
            acls=[
                row(
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission_type,
                )
            ],
        )
        for pattern, entry in acls
    ]
    return DescribeAcls.Response(resources=resources)


def matching(acl, **more):
    """Returns the row of an ACL that was deleted."""
    pattern, entry = acl
    return Matching(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
        **more,
    )


@with_admin
async def test_acls_that_match_a_filter_are_described(broker, admin):
    broker.handlers[DescribeAcls] = lambda *_: described(READ, DENIED)
    assert await admin.describe_acls() == [READ, DENIED]
    await admin.describe_acls(AclBindingFilter(OF_FLIGHTS.pattern, OF_ALICE.entry))
    every, some = broker.asked(DescribeAcls)
    assert (every.resource_type_filter, every.pattern_type_filter, every.operation, every.permission_type) == (1,) * 4
    assert (every.resource_name_filter, every.principal_filter, every.host_filter) == (None,) * 3
    assert (some.resource_type_filter, some.pattern_type_filter) == (2, 2)
    assert (some.resource_name_filter, some.principal_filter) == ("flights", "User:alice")


@with_admin
async def test_unknown_codes_of_resources_and_operations_are_read_as_unknown(broker, admin):
    odd = described(READ)
    odd.resources[0].resource_type = odd.resources[0].acls[0].operation = 99
    broker.handlers[DescribeAcls] = lambda *_: odd
    ((pattern, entry),) = await admin.describe_acls()
    assert (pattern.resource_type, entry.operation) == (AclResourceType.UNKNOWN, AclOperation.UNKNOWN)


@with_admin
async def test_a_broker_without_an_authorizer_raises_security_disabled(broker, admin):
    answer = DescribeAcls.Response(error_code=SecurityDisabled.code, error_message="No Authorizer is configured.")
    broker.handlers[DescribeAcls] = lambda *_: answer
    with pytest.raises(SecurityDisabled, match="No Authorizer"):
        await admin.describe_acls()


@with_admin
async def test_each_acl_is_created_or_its_error_is_returned(broker, admin):
    rounds = [
        [Created(error_code=NotController.code), Created(error_code=InvalidRequest.code, error_message="no host")],
        [Created()],
    ]
    broker.handlers[CreateAcls] = lambda *_: CreateAcls.Response(results=rounds.pop(0))
    done = await admin.create_acls([READ, DENIED, READ], check=False)
    assert done == {READ: None}
    assert isinstance(done.errors[DENIED], InvalidRequest)
    first, second = broker.asked(CreateAcls)
    assert [row.principal for row in first.creations] == ["User:alice", "User:*"]
    (row,) = second.creations
    assert (row.resource_type, row.resource_name, row.resource_pattern_type) == (2, "flights", 3)
    assert (row.principal, row.host, row.operation, row.permission_type) == ("User:alice", "*", 3, 3)
    rounds[:] = [[Created(error_code=InvalidRequest.code)]]
    with pytest.raises(InvalidRequest):
        await admin.create_acls([DENIED])


@with_admin
async def test_each_filter_returns_the_acls_that_it_deleted(broker, admin):
    rows = [
        Deleted(matching_acls=[matching(READ)]),
        Deleted(matching_acls=[matching(READ), matching(DENIED, error_code=InvalidRequest.code)]),
    ]
    broker.handlers[DeleteAcls] = lambda *_: DeleteAcls.Response(filter_results=rows)
    done = await admin.delete_acls([OF_ALICE, OF_FLIGHTS], check=False)
    assert done == {OF_ALICE: [READ]}
    assert isinstance(done.errors[OF_FLIGHTS], InvalidRequest)
    (asked,) = broker.asked(DeleteAcls)
    assert [(row.resource_name_filter, row.principal_filter) for row in asked.filters] == [
        (None, "User:alice"),
        ("flights", None),
    ]


@with_admin
async def test_no_request_is_sent_for_an_empty_list_of_acls(broker, admin):
    assert await admin.create_acls([]) == await admin.delete_acls([]) == {}
    assert not broker.asked(CreateAcls)
