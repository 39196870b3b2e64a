"""The error of a refused admin call names the right that the called method needs."""

from __future__ import annotations

import inspect

import pytest

from pyclient.admin import (
    AclBinding,
    AclOperation,
    AclResourceType,
    AlterConfigOp,
    ConfigResource,
    ResourceType,
)
from pyclient.admin.asynchronous import Admin
from pyclient.admin.tests.test_routing import with_admin
from pyclient.errors import ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed
from pyclient.protocol import CreateAcls, CreateTopics, DescribeAcls, FindCoordinator, IncrementalAlterConfigs

WITHOUT = {
    *("connect", "close", "api_versions", "describe_cluster", "describe_features"),
    *("list_topics", "list_groups", "list_consumer_groups", "list_transactions"),
    *("create_delegation_token", "renew_delegation_token", "expire_delegation_token", "describe_delegation_tokens"),
}
"""Methods that are never refused in this way. Brokers leave out what a user may not see, and tokens have their own
errors.
"""


def test_each_method_declares_the_rights_that_it_needs() -> None:
    methods = {name for name in dir(Admin) if not name.startswith("_") and callable(getattr(Admin, name))}
    declared = {name for name in methods if hasattr(inspect.unwrap(getattr(Admin, name)), "__wrapped__")}
    declared |= {name for name in methods if hasattr(getattr(Admin, name), "__wrapped__")}
    assert methods - declared == WITHOUT


@with_admin
async def test_an_error_about_creating_a_topic_names_the_command_that_grants_it(broker, admin):
    row = CreateTopics.Response.CreatableTopicResult
    refused = row(name="t", error_code=TopicAuthorizationFailed.code, error_message="Authorization failed.")
    rows = [refused, row(name="u")]
    broker.handlers[CreateTopics] = lambda *_: CreateTopics.Response(topics=rows)
    done = await admin.create_topics(["t", "u"], check=False)
    assert list(done) == ["u"]
    command = "pybroker acl create --allow User:ANONYMOUS --operation create --topic t"
    assert done.errors["t"].grant.startswith(f"{command} -b ")
    told = "Authorization failed; User:ANONYMOUS needs CREATE on topic t, which an administrator grants: "
    assert str(done.errors["t"]) == f"{told}`{done.errors['t'].grant}`"
    with pytest.raises(TopicAuthorizationFailed, match="needs CREATE on topic t"):
        await admin.create_topics(["t", "u"])


@with_admin
async def test_errors_about_acls_and_configs_name_the_right_for_their_resource(broker, admin):
    denied = ClusterAuthorizationFailed.code
    broker.handlers[DescribeAcls] = lambda *_: DescribeAcls.Response(error_code=denied)
    broker.handlers[CreateAcls] = lambda *_: CreateAcls.Response(
        results=[CreateAcls.Response.AclCreationResult(error_code=denied)]
    )
    with pytest.raises(ClusterAuthorizationFailed, match="needs DESCRIBE on the cluster"):
        await admin.describe_acls()
    with pytest.raises(ClusterAuthorizationFailed, match="needs ALTER on the cluster"):
        await admin.create_acls([AclBinding.allow("User:a", AclOperation.READ, AclResourceType.TOPIC, "t")])
    row = IncrementalAlterConfigs.Response.AlterConfigsResourceResponse
    rows = [row(resource_type=ResourceType.TOPIC, resource_name="t", error_code=TopicAuthorizationFailed.code)]
    broker.handlers[IncrementalAlterConfigs] = lambda *_: IncrementalAlterConfigs.Response(responses=rows)
    with pytest.raises(TopicAuthorizationFailed, match="--operation alter-configs --topic t"):
        await admin.incremental_alter_configs({ConfigResource(ResourceType.TOPIC, "t"): [AlterConfigOp("a", "b")]})


@with_admin
async def test_an_error_about_finding_a_coordinator_names_the_right_for_the_group(broker, admin):
    kind = FindCoordinator.Response
    rows = [kind.Coordinator(key="g", error_code=GroupAuthorizationFailed.code, error_message=None)]
    broker.handlers[FindCoordinator] = lambda *_: kind(coordinators=rows)
    with pytest.raises(GroupAuthorizationFailed, match="--operation delete --group g"):
        await admin.delete_consumer_groups(["g"])
    with pytest.raises(GroupAuthorizationFailed, match="--operation describe --group g"):
        await admin.list_consumer_group_offsets("g")
