"""Moves a member from its current assignment to its target, one heartbeat at a time.

    STABLE ──── the target changes ───────► partitions to revoke?
      ▲                                        │ yes             │ no
      │                                        ▼                 ▼
      │                                    UNREVOKED ─ revoked ─► enters the epoch
      │                                   (old epoch)              │
      └──── all partitions are free ◄────── UNRELEASED ◄───────────┘ other members still have some

A member stays in its epoch until it has revoked the partitions that are not in its target. Then it enters the target's
epoch and gets the partitions that no member has. Partitions that another member has not revoked yet follow with a later
heartbeat.
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
"""The partitions that a member reports as its own; None if it reports nothing."""


class Goal(NamedTuple):
    """The assignment that a member is to reach."""

    epoch: int
    target: Target
    topic_ids: frozenset[bytes]
    """The topics to which the member subscribes. It gets no others, even if the target contains them."""
    is_owned: Callable[[bytes, int], bool]


def reconcile(
    member: ConsumerMember, goal: Goal, claimed: Claimed, subscription_changed: bool
) -> ConsumerMember:
    """Returns the member after its next step towards its goal, or the same object if there is no step.

    Raises FencedMemberEpoch for a member in an unknown state that reports partitions.
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
    """Returns whether the member may still have some of these partitions. True if it reports nothing."""
    if claimed is None:
        return True
    return any(
        not partitions.isdisjoint(owned.get(topic_id, NO_PARTITIONS))
        for topic_id, partitions in claimed.items()
    )


def _drop_unsubscribed(member: ConsumerMember, goal: Goal, claimed: Claimed) -> ConsumerMember:
    """Revokes the partitions of topics to which the member no longer subscribes; keeps the others."""
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


class _Difference(NamedTuple):
    """The partitions in which a member's assignment differs from its target, by topic."""

    kept: dict[bytes, Mapping[int, int]]
    revoked: dict[bytes, Mapping[int, int]]
    gained: dict[bytes, list[int]]
    """Partitions of the target that are free."""
    is_complete: bool
    """True if all partitions that the member still lacks are free."""


def _difference(member: ConsumerMember, goal: Goal) -> _Difference:
    kept: dict[bytes, Mapping[int, int]] = {}
    revoked: dict[bytes, Mapping[int, int]] = {}
    gained: dict[bytes, list[int]] = {}
    is_complete = True
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
            is_complete = is_complete and len(free) == len(missing)
            if free:
                gained[topic_id] = free
    return _Difference(kept, revoked, gained, is_complete)


def _next(member: ConsumerMember, goal: Goal, claimed: Claimed, epoch: int) -> ConsumerMember:
    kept, revoked, gained, is_complete = _difference(member, goal)
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
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED,
        epoch=goal.epoch,
        previous_epoch=member.epoch,
        assigned=kept,
        pending_revocation=NOTHING,
    )


def _is_free(member: ConsumerMember, goal: Goal, topic_id: bytes, partition: int) -> bool:
    """Returns whether no other member has the partition."""
    if not goal.is_owned(topic_id, partition):
        return True
    return partition in member.pending_revocation.get(topic_id, NO_PARTITIONS)
