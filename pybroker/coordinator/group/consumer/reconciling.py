"""Leads a member from what it has to what it shall have, one heartbeat at a time.

    STABLE ──── the target is another ────► partitions to give back?
      ▲                                        │ yes             │ no
      │                                        ▼                 ▼
      │                                    UNREVOKED ── gone ─► enters the epoch
      │                                   (old epoch)              │
      └──── nothing is missing any more ◄───── UNRELEASED ◄────────┘ some partitions are others' yet

A member stays in its epoch until it has given back the partitions that it should not have. Then it enters the target's
epoch and gets the partitions that no member has. Partitions that another member has not given back yet follow with a
later heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from pybroker.coordinator.group.consumer.member import (
    NO_PARTITIONS,
    NOTHING,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
)
from pyclient.protocol import errors

Claimed = Mapping[bytes, frozenset[int]] | None
"""The partitions that a member says it has; None where it does not say."""


class Goal(NamedTuple):
    """Where a member is to be led."""

    epoch: int
    target: Target
    topic_ids: frozenset[bytes]
    """What the member subscribes to: nothing else is given, whatever the target says."""
    is_owned: Callable[[bytes, int], bool]


def reconcile(
    member: ConsumerMember, goal: Goal, claimed: Claimed, subscription_changed: bool
) -> ConsumerMember:
    """Returns the member after its next step towards its goal. Returns the same object if there is no step to take.

    Raises FencedMemberEpoch for a member in an unknown state that says it has partitions.
    """
    state = member.state
    if state is MemberState.STABLE and member.epoch == goal.epoch:
        return _drop_unsubscribed(member, goal, claimed) if subscription_changed else member
    if state is MemberState.UNREVOKED and _has_any(claimed, member.pending_revocation):
        return _drop_unsubscribed(member, goal, claimed) if subscription_changed else member
    epoch = member.epoch
    if state is MemberState.UNKNOWN:
        if claimed is None or claimed:
            raise errors.FencedMemberEpoch(
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
        epoch = goal.epoch
    return _next(member, goal, claimed, epoch)


def _has_any(claimed: Claimed, owned: Owned) -> bool:
    """The member has some of these partitions; it has, unless it says otherwise."""
    if claimed is None:
        return True
    return any(
        not partitions.isdisjoint(owned.get(topic_id, NO_PARTITIONS))
        for topic_id, partitions in claimed.items()
    )


def _drop_unsubscribed(member: ConsumerMember, goal: Goal, claimed: Claimed) -> ConsumerMember:
    """Takes the topics away that the member has just ceased to read; the rest stays."""
    gone = {id: owned for id, owned in member.assigned.items() if id not in goal.topic_ids}
    if not gone:
        return member
    assigned = {id: owned for id, owned in member.assigned.items() if id not in gone}
    pending = dict(member.pending_revocation)
    for topic_id, owned in gone.items():
        pending[topic_id] = {**pending.get(topic_id, NO_PARTITIONS), **owned}
    changed = replace(member, previous_epoch=member.epoch, assigned=assigned)
    if _has_any(claimed, pending):
        return replace(changed, state=MemberState.UNREVOKED, pending_revocation=pending)
    return changed


def _next(member: ConsumerMember, goal: Goal, claimed: Claimed, epoch: int) -> ConsumerMember:
    kept: dict[bytes, Mapping[int, int]] = {}
    revoked: dict[bytes, Mapping[int, int]] = {}
    gained: dict[bytes, list[int]] = {}
    waits = False
    for topic_id in dict.fromkeys((*member.assigned, *goal.target)):
        target = goal.target.get(topic_id, frozenset()) if topic_id in goal.topic_ids else ()
        owned = member.assigned.get(topic_id, NO_PARTITIONS)
        keeps = {each: since for each, since in owned.items() if each in target}
        if keeps:
            kept[topic_id] = keeps
        if len(keeps) < len(owned):
            revoked[topic_id] = {each: since for each, since in owned.items() if each not in keeps}
        if len(keeps) < len(target):
            missing = [each for each in target if each not in keeps]
            free = [each for each in missing if _is_free(member, goal, topic_id, each)]
            waits = waits or len(free) < len(missing)
            if free:
                gained[topic_id] = free
    if revoked and _has_any(claimed, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    for topic_id, partitions in gained.items():
        since = dict.fromkeys(partitions, goal.epoch)
        kept[topic_id] = dict(sorted({**kept.get(topic_id, NO_PARTITIONS), **since}.items()))
    return replace(
        member,
        state=MemberState.UNRELEASED if waits else MemberState.STABLE,
        epoch=goal.epoch,
        previous_epoch=member.epoch,
        assigned=kept,
        pending_revocation=NOTHING,
    )


def _is_free(member: ConsumerMember, goal: Goal, topic_id: bytes, partition: int) -> bool:
    """Whether no member has it except the member itself, which is giving it back just now."""
    if not goal.is_owned(topic_id, partition):
        return True
    return partition in member.pending_revocation.get(topic_id, NO_PARTITIONS)
