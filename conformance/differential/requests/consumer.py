"""Members of a consumer group (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from typing import Any

from conformance.differential.broker_side import STRANGER, Actor, World
from conformance.differential.requests.classic import instance_id
from conformance.differential.requests.verb import Fields, Verb
from conformance.differential.step import Step

LEAVE, LEAVE_STATIC = -1, -2


def member_id(world: World, actor: Actor, which: str) -> str:
    if which == "other":
        return world.actor(1 - actor.number).consumer_id
    return {"own": actor.consumer_id, "none": "", "unknown": "nobody"}[which]


def epoch(actor: Actor, which: str) -> int:
    named = {"own": actor.epoch, "join": 0, "next": actor.epoch + 1, "before": actor.epoch - 1}
    return {**named, "leave": LEAVE, "leave_static": LEAVE_STATIC, "bad": -3, "none": -1}[which]


def owned(actor: Actor, which: str) -> list[dict[str, Any]] | None:
    if which == "assigned":
        return actor.assigned
    return {"same": None, "nothing": [], "stranger": [{"topic_id": STRANGER, "partitions": [0]}]}[which]


def beat(world: World, actor: Actor, step: Step) -> Fields:
    names = step.get("topics")
    regex = step.get("regex")
    return {
        "group_id": world.group if step.get("group", "own") == "own" else "",
        "member_id": member_id(world, actor, step.get("member", "own")),
        "member_epoch": epoch(actor, step.get("epoch", "own")),
        "instance_id": instance_id(actor, step.get("instance")),
        "rack_id": step.get("rack"),
        "rebalance_timeout_ms": step.get("timeout_ms", -1),
        "subscribed_topic_names": None if names is None else [world.topic(which) for which in names],
        "subscribed_topic_regex": regex,
        "server_assignor": step.get("assignor"),
        "topic_partitions": owned(actor, step.get("owned", "same")),
    }


def beaten(world: World, actor: Actor, step: Step, reply: Any) -> None:
    if reply.error_code != 0:
        return
    if step.get("member", "own") in ("own", "none") and reply.member_id:
        actor.consumer_id = reply.member_id
        actor.epoch = max(reply.member_epoch, 0)
    world.name_member(reply.member_id or "")
    if reply.assignment is not None:
        rows = reply.assignment.topic_partitions
        actor.assigned = [{"topic_id": row.topic_id, "partitions": list(row.partitions)} for row in rows]
    if reply.member_epoch < 0:
        actor.assigned = []


def describe(world: World, actor: Actor, step: Step) -> Fields:
    return {"group_ids": [world.group], "include_authorized_operations": bool(step.get("operations", False))}


VERBS = {
    "beat": Verb("ConsumerGroupHeartbeat", (0, 1), beat, beaten),
    "describe_consumers": Verb("ConsumerGroupDescribe", (0, 1), describe),
}
