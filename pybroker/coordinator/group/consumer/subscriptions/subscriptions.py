"""The topics that the members of a consumer group read, by name or by regular expression.

The topics of a group are the names that at least one member lists, and those that match its members' expressions.
Counters make it cheap to compute them with one member changed or removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Self

from pybroker.coordinator.group.consumer.counting import count
from pybroker.coordinator.group.consumer.member import ConsumerMember
from pybroker.coordinator.group.consumer.subscriptions.resolved import Resolved


class Subscriptions:
    """Counts the members that subscribe to each name and each expression."""

    def __init__(self) -> None:
        self.members = 0
        self.by_name: dict[str, int] = {}
        """How many members list each topic."""
        self.by_regex: dict[str, int] = {}
        """How many expressions match each topic."""
        self.regexes: dict[str, int] = {}
        """How many members subscribe by each expression."""
        self.resolved: dict[str, Resolved] = {}

    def __contains__(self, topic: object) -> bool:
        return topic in self.by_name or topic in self.by_regex

    @property
    def topics(self) -> Collection[str]:
        """All names, including those of topics that do not exist."""
        return self.by_name.keys() | self.by_regex.keys() if self.by_regex else self.by_name.keys()

    @property
    def are_alike(self) -> bool:
        """True if all members read the same topics."""
        if not self.regexes:
            return all(number == self.members for number in self.by_name.values())
        alike = next(iter(self.regexes.values())) == self.members and not self.by_name
        return alike and all(number == 1 for number in self.by_regex.values())

    def names_of(self, member: ConsumerMember) -> frozenset[str]:
        """Returns the topics to which one member subscribes, by name or by expression."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        if resolved is None:
            return member.topics
        return member.topics | resolved.topics if member.topics else resolved.topics

    # # Changes

    def add(self, member: ConsumerMember) -> None:
        """Counts the subscriptions of a member."""
        self._count(member, 1)

    def remove(self, member: ConsumerMember) -> None:
        """Stops counting the subscriptions of a member."""
        self._count(member, -1)

    def _count(self, member: ConsumerMember, by: int) -> None:
        self.members += by
        count(self.by_name, member.topics, by)
        if member.regex:
            count(self.regexes, (member.regex,), by)

    def resolve(self, regex: str, resolved: Resolved | None) -> None:
        """Sets the topics that match the expression; None forgets it."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            count(self.by_regex, before.topics, -1)
        if resolved is not None:
            self.resolved[regex] = resolved
            count(self.by_regex, resolved.topics, 1)

    # # Subscriptions after a change

    def copy(self) -> Self:
        """Returns a copy that may be changed."""
        other = type(self)()
        other.members = self.members
        other.by_name = dict(self.by_name)
        other.by_regex = dict(self.by_regex)
        other.regexes = dict(self.regexes)
        other.resolved = dict(self.resolved)
        return other

    def after(self, before: ConsumerMember | None, after: ConsumerMember) -> Self:
        """Returns the subscriptions with one member changed, or added if ``before`` is None; unused expressions are
        forgotten.
        """
        if before is not None and before.topics == after.topics and before.regex == after.regex:
            return self
        other = self.copy()
        if before is not None:
            other.remove(before)
        other.add(after)
        other._forget_unused(() if before is None else (before,))
        return other

    def without(self, members: Iterable[ConsumerMember]) -> Self:
        """Returns the subscriptions of the group if these members leave."""
        other = self.copy()
        gone = tuple(members)
        for member in gone:
            other.remove(member)
        other._forget_unused(gone)
        return other

    def with_resolved(self, found: Mapping[str, Resolved]) -> Self:
        """Returns the subscriptions with these expressions resolved again."""
        other = self.copy()
        for regex, resolved in found.items():
            other.resolve(regex, resolved)
        return other

    def unused_without(self, members: Iterable[ConsumerMember]) -> list[str]:
        """Returns the expressions that no other member uses."""
        left = dict(self.regexes)
        mine = [member.regex for member in members if member.regex]
        count(left, mine, -1)
        return [regex for regex in dict.fromkeys(mine) if regex not in left]

    def _forget_unused(self, members: Iterable[ConsumerMember]) -> None:
        for member in members:
            if member.regex and member.regex not in self.regexes:
                self.resolve(member.regex, None)
