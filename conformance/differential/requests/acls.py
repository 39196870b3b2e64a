"""ACLs: CreateAcls, DeleteAcls, DescribeAcls. Options are words, as a step shows them."""

from __future__ import annotations

from typing import Any

from conformance.differential.broker_side import HARNESS, Actor, World
from conformance.differential.requests.verb import Fields, Verb
from conformance.differential.step import Step
from harness.protocol.kinds import AclOperation, AclPattern, AclPermission, AclResource

#: The steps that change ACLs.
CHANGES = {"create_acls", "delete_acls"}
CLUSTER = "kafka-cluster"
#: The fields of a filter that finds every ACL.
ALL: Fields = {
    "resource_type_filter": AclResource.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": AclPattern.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": AclPermission.ANY,
}


def resource_name(world: World, resource: str, which: str | None) -> str | None:
    """Returns the full name of a resource that a step calls ``own``, ``prefix`` (of all names of the sequence), ``*``,
    or as a topic.
    """
    if which is None or which in ("", "*"):
        return which
    if which == "prefix":
        return world.prefix
    own = {"group": world.group, "transactional_id": world.prefix + "txn-0", "cluster": CLUSTER}
    return own.get(resource) or world.topic(which)


def create(world: World, actor: Actor, step: Step) -> Fields:
    resource = step.get("resource", "topic")
    row = {
        "resource_type": AclResource[resource.upper()],
        "resource_name": resource_name(world, resource, step.get("name", "own")),
        "resource_pattern_type": AclPattern[step.get("pattern", "literal").upper()],
        "principal": step.get("principal", "User:alice"),
        "host": step.get("host", "*"),
        "operation": AclOperation[step.get("operation", "all").upper()],
        "permission_type": AclPermission[step.get("permission", "allow").upper()],
    }
    return {"creations": [row]}


def choice(world: World, actor: Actor, step: Step) -> Fields:
    """Returns the filter of a step. Without options, it finds every ACL."""
    resource = step.get("resource", "any")
    return {
        "resource_type_filter": AclResource[resource.upper()],
        "resource_name_filter": resource_name(world, resource, step.get("name")),
        "pattern_type_filter": AclPattern[step.get("pattern", "any").upper()],
        "principal_filter": step.get("principal"),
        "host_filter": step.get("host"),
        "operation": AclOperation[step.get("operation", "any").upper()],
        "permission_type": AclPermission[step.get("permission", "any").upper()],
    }


def delete(world: World, actor: Actor, step: Step) -> Fields:
    return {"filters": [choice(world, actor, step)]}


def shown(world: World) -> Any:
    """Returns the reply that shows all ACLs."""
    wire = world.take(HARNESS)
    reply = wire.ask(SHOW.api, SHOW.versions[1], **ALL)
    world.give_back(HARNESS, wire)
    return reply


SHOW = Verb("DescribeAcls", (1, 3), choice)
VERBS = {
    "create_acls": Verb("CreateAcls", (1, 3), create),
    "delete_acls": Verb("DeleteAcls", (1, 3), delete),
    "describe_acls": SHOW,
}
