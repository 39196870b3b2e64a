"""Members of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what lists and describes groups."""

from __future__ import annotations

import struct
from typing import Any

from conformance.differential.broker_side import Actor, World
from conformance.differential.requests.verb import Fields, Verb
from conformance.differential.step import Step
from harness.clients.members import subscription
from harness.protocol import error_codes

#: No timer ends while a sequence runs, however slowly.
LONG_MS = 600_000
PROTOCOLS = {
    "range": ("range",),
    "roundrobin": ("roundrobin",),
    "both": ("range", "roundrobin"),
    "reverse": ("roundrobin", "range"),
    "none": (),
}


def member_id(world: World, actor: Actor, which: str) -> str:
    """Returns the member id that a step calls ``own``, ``none``, ``unknown`` or ``other``, which is the other actor's.
    """
    if which == "other":
        return world.actor(1 - actor.number).member_id or "nobody"
    return {"own": actor.member_id, "none": "", "unknown": "nobody"}[which]


def generation(actor: Actor, which: str) -> int:
    return {"own": actor.generation, "next": actor.generation + 1, "before": actor.generation - 1, "none": -1}[which]


def instance_id(actor: Actor, which: str | None) -> str | None:
    return {"own": f"instance-{actor.number}", "shared": "instance", "unknown": "stranger", None: None}[which]


def common(world: World, actor: Actor, step: Step) -> Fields:
    """Returns the fields that identify a member."""
    return {
        "group_id": world.group if step.get("group", "own") == "own" else "",
        "generation_id": generation(actor, step.get("generation", "own")),
        "member_id": member_id(world, actor, step.get("member", "own")),
        "group_instance_id": instance_id(actor, step.get("instance")),
    }


def join(world: World, actor: Actor, step: Step) -> Fields:
    topics = [world.topic(which) for which in step.get("topics", ("a",))]
    names = PROTOCOLS[step.get("protocols", "range")]
    return {
        **common(world, actor, step),
        "session_timeout_ms": step.get("session_ms", LONG_MS),
        "rebalance_timeout_ms": LONG_MS,
        "protocol_type": step.get("type", "consumer"),
        "protocols": [{"name": name, "metadata": subscription(*topics)} for name in names],
    }


def joined(world: World, actor: Actor, step: Step, reply: Any) -> None:
    if reply.error_code == error_codes.MEMBER_ID_REQUIRED:
        actor.member_id = reply.member_id
    elif reply.error_code == 0:
        actor.member_id, actor.generation = reply.member_id, reply.generation_id
        actor.leads = reply.leader == reply.member_id
        actor.members = [row.member_id for row in reply.members]
    world.name_member(reply.member_id)


def sync(world: World, actor: Actor, step: Step) -> Fields:
    known = sorted(actor.members, key=world.name_member) if actor.leads else []
    kept = known[: {"all": None, "first": 1, "nobody": 0}[step.get("assign", "all")]]
    return {
        **common(world, actor, step),
        "protocol_type": step.get("type", "consumer"),
        "protocol_name": step.get("protocol", "range"),
        "assignments": [
            {"member_id": one, "assignment": assignment(world, place, step)} for place, one in enumerate(kept)
        ],
    }


def assignment(world: World, place: int, step: Step) -> bytes:
    """Returns a ``ConsumerProtocolAssignment`` v0 of one partition, or bytes that are not an assignment."""
    if step.get("nonsense"):
        return b"piece %d" % place
    topic = world.topic("a").encode()
    return struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">iii", 1, place, -1)


def leave(world: World, actor: Actor, step: Step) -> Fields:
    rows = [{"member_id": member_id(world, actor, step.get("member", "own"))}]
    rows[0]["group_instance_id"] = instance_id(actor, step.get("instance"))  # type: ignore[assignment]
    if step.get("more"):
        rows.append({"member_id": "nobody", "group_instance_id": None})  # type: ignore[dict-item]
    return {**common(world, actor, step), "members": rows}


def describe(world: World, actor: Actor, step: Step) -> Fields:
    return {"groups": [world.group], "include_authorized_operations": bool(step.get("operations", False))}


def list_groups(world: World, actor: Actor, step: Step) -> Fields:
    return {"states_filter": list(step.get("states", ())), "types_filter": list(step.get("types", ()))}


def delete(world: World, actor: Actor, step: Step) -> Fields:
    return {"groups_names": [world.group, world.prefix + "unknown"][: 1 + bool(step.get("more"))]}


def find(world: World, actor: Actor, step: Step) -> Fields:
    key = {0: world.group, 1: world.transactional_id(0)}.get(step.get("type", 0), "something")
    return {"key": key, "key_type": step.get("type", 0), "coordinator_keys": [key]}


VERBS = {
    "join": Verb("JoinGroup", (0, 9), join, joined),
    "sync": Verb("SyncGroup", (0, 5), sync),
    "heartbeat": Verb("Heartbeat", (0, 4), common),
    "leave": Verb("LeaveGroup", (0, 5), leave),
    "describe": Verb("DescribeGroups", (0, 6), describe),
    "list_groups": Verb("ListGroups", (0, 5), list_groups),
    "delete_group": Verb("DeleteGroups", (0, 2), delete),
    "find_coordinator": Verb("FindCoordinator", (0, 6), find),
}
