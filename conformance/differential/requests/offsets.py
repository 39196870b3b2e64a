"""Offsets of a group: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any

from conformance.differential.broker_side import Actor, World
from conformance.differential.requests import classic, consumer
from conformance.differential.requests.verb import Fields, Verb
from conformance.differential.step import Step


def identity(world: World, actor: Actor, step: Step) -> tuple[str, int]:
    """Returns the member id, and the generation or epoch, in the protocol that the step's ``role`` names."""
    who, when = step.get("member", "own"), step.get("generation", "own")
    if step.get("role", "classic") == "consumer":
        return consumer.member_id(world, actor, who), consumer.epoch(actor, when)
    return classic.member_id(world, actor, who), classic.generation(actor, when)


def rows(world: World, step: Step) -> list[dict[str, Any]]:
    """Returns the rows of the partitions in a commit."""
    partition = {
        "partition_index": step.get("partition", 0),
        "committed_offset": step.get("offset", 1),
        "committed_leader_epoch": step.get("leader_epoch", -1),
        "committed_metadata": "m" * max(0, step.get("metadata", 0)),
    }
    if step.get("metadata") == -1:
        partition["committed_metadata"] = None
    return [
        {"name": world.topic(which), "topic_id": world.topic_id(which), "partitions": [partition]}
        for which in step.get("topics", ("a",))
    ]


def commit(world: World, actor: Actor, step: Step) -> Fields:
    member, generation = identity(world, actor, step)
    return {
        "group_id": world.group if step.get("group", "own") == "own" else "",
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "group_instance_id": classic.instance_id(actor, step.get("instance")),
        "retention_time_ms": -1,
        "topics": rows(world, step),
    }


def fetch(world: World, actor: Actor, step: Step) -> Fields:
    member, epoch = identity(world, actor, step)
    if step.get("caller", "nobody") == "nobody":
        member, epoch = "", -1
    which = step.get("topics", ("a",))
    topics = None if which is None else [_asked(world, one) for one in which]
    group = {"group_id": world.group, "member_id": member, "member_epoch": epoch, "topics": topics}
    groups = [group]
    if step.get("more"):
        groups.append({**group, "group_id": world.prefix + "unknown"})
    return {
        "group_id": world.group,
        "topics": topics,
        "groups": groups,
        "require_stable": bool(step.get("stable", True)),
    }


def _asked(world: World, which: str) -> dict[str, Any]:
    return {"name": world.topic(which), "topic_id": world.topic_id(which), "partition_indexes": [0, 1]}


def delete(world: World, actor: Actor, step: Step) -> Fields:
    partitions = [{"partition_index": 0}, {"partition_index": 77}]
    return {
        "group_id": world.group,
        "topics": [{"name": world.topic(which), "partitions": partitions} for which in step.get("topics", ("a",))],
    }


VERBS = {
    "commit": Verb("OffsetCommit", (2, 10), commit),
    "fetch_offsets": Verb("OffsetFetch", (1, 10), fetch),
    "delete_offsets": Verb("OffsetDelete", (0, 0), delete),
}
