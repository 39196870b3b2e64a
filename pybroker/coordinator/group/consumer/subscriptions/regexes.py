"""Subscriptions by regular expression (KIP-848; the syntax is RE2, matching is linear in time).

The coordinator resolves an expression to topics, so that all members agree. It does so off the loop: the shard emits
``Resolve`` as an effect and later receives the result (``resolved``). A heartbeat resolves a group's expressions
again if one of them is new, if topics have been created since (at most every 10 s), and every
``group.consumer.regex.refresh.interval.ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.cluster.metadata.image import MetadataImage
from pybroker.coordinator import topic_regex
from pybroker.coordinator.group.consumer import records
from pybroker.coordinator.group.consumer.refusals import when_refused
from pybroker.coordinator.group.consumer.subscriptions.resolved import Resolved
from pybroker.coordinator.group.joining import Sees
from pybroker.coordinator.shard import Result

if TYPE_CHECKING:
    from pybroker.coordinator.group.consumer.group import ConsumerGroup
    from pybroker.coordinator.group.consumer.member import ConsumerMember

MIN_REFRESH_MS: Final = 10_000


class Resolve(NamedTuple):
    """An effect: resolve these expressions to topics, and pass the result to the group."""

    group_id: str
    regexes: frozenset[str]
    image: MetadataImage
    now_ms: int
    sees: Sees | None = None
    """Tells which topics the member that caused the lookup may describe. None allows all topics."""

    def look(self) -> dict[str, Resolved]:
        """Returns the topics that match each expression. With many topics this is slow: call it off the loop."""
        found = topic_regex.matching(self.regexes, self.image.topics)
        version = self.image.version
        return {regex: Resolved(topics, version, self.now_ms) for regex, topics in found.items()}


class Change(IntEnum):
    """How a heartbeat changed the expressions of a group."""

    NONE = 0
    UPDATED = 1
    """A member has a new expression, whose topics are not known yet."""
    RESOLVED = 2
    """A member has a new expression, whose topics are known."""


def update(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, result: Result, sees: Sees | None
) -> Change:
    """Records a change of the member's expression, and resolves the group's expressions if necessary.

    Returns how the expressions changed.

    Raises InvalidRegularExpression.
    """
    change = Change.NONE
    is_new = False
    if before.regex != after.regex:
        change, is_new = _replaced(group, before, after, result)
    if is_new or group.subscriptions.regexes:
        _maybe_resolve(group, before, after, is_new, result, sees)
    return change


def _replaced(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, result: Result
) -> tuple[Change, bool]:
    """Returns the kind of change, and whether the expression is new to the group."""
    subscriptions = group.subscriptions
    if before.regex and subscriptions.regexes.get(before.regex) == 1:
        result.write(records.no_regex_record(group.id, before.regex))
    if not after.regex:
        return Change.RESOLVED, False
    if after.regex not in subscriptions.regexes:
        topic_regex.check(after.regex)
        return Change.UPDATED, True
    known = after.regex in subscriptions.resolved
    return (Change.RESOLVED if known else Change.UPDATED), False


def is_due(group: ConsumerGroup, now_ms: int) -> bool:
    """Returns whether the group's expressions should be resolved again although they did not change."""
    context = group.context
    subscriptions = group.subscriptions
    if not subscriptions.regexes or group.id in context.resolving:
        return False
    last = next(iter(subscriptions.resolved.values()), None)
    if last is None:
        return True
    if _is_recent(last, now_ms):
        return False
    return (
        len(subscriptions.regexes) != len(subscriptions.resolved)
        or context.resolved_at.get(group.id, -1) < context.topics.grown_at
        or now_ms > last.resolved_ms + context.settings.regex_refresh_interval_ms
    )


def _is_recent(last: Resolved, now_ms: int) -> bool:
    """Returns whether the expressions were resolved too recently to resolve them again.

    If the clock was set back, this returns False.
    """
    return 0 <= now_ms - last.resolved_ms <= MIN_REFRESH_MS


def _maybe_resolve(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    is_new: bool,
    result: Result,
    sees: Sees | None,
) -> None:
    context = group.context
    now_ms = result.now.wall_ms
    if group.id in context.resolving:
        return
    last = next(iter(group.subscriptions.resolved.values()), None)
    if last is not None and _is_recent(last, now_ms):
        return
    if not is_new and not is_due(group, now_ms):
        return
    regexes = group.subscriptions.after(before, after).regexes
    if regexes:
        context.resolving.add(group.id)
        result.effects.append(
            Resolve(group.id, frozenset(regexes), context.topics.image, now_ms, sees)
        )
        when_refused(result, lambda next, error: context.resolving.discard(group.id))


def resolved(
    group: ConsumerGroup, found: Mapping[str, Resolved], result: Result
) -> None:
    """Takes over the resolved topics. If they have changed, the group gets a new epoch."""
    context = group.context
    subscriptions = group.subscriptions
    wanted = {regex: each for regex, each in found.items() if regex in subscriptions.regexes}
    for regex, each in wanted.items():
        result.write(records.regex_record(group.id, regex, each))
        context.resolved_at[group.id] = each.version
    metadata_hash = context.topics.hash_of(subscriptions.with_resolved(wanted).topics)
    changed = any(
        each.topics != _topics(subscriptions.resolved.get(regex)) for regex, each in wanted.items()
    )
    if changed or metadata_hash != group.metadata_hash:
        result.write(records.group_record(group.id, group.epoch + 1, metadata_hash))


def _topics(resolved: Resolved | None) -> Iterable[str]:
    return frozenset() if resolved is None else resolved.topics
