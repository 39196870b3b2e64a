"""``ssl.principal.mapping.rules``: map the name in a certificate to the name of a user.

    RULE:pattern/replacement/[LU]    if the pattern matches the whole name; $1 is its first group; L: lower case,
                                     U: upper case
    DEFAULT                          the name itself

The first matching rule is used. Patterns and replacements are Java's (``java_patterns``). If no group of the pattern
has a number that is in the replacement, the number is plain text, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from pybroker.security.java_patterns import compiled, expanded

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|(?P<nothing>)(?=\s*(?:,|\Z))"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<letters>[LU]?))"
    r"\s*(?:,\s*|\Z)"
)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")

Match = re.Match[str]


class Rule(NamedTuple):
    """One rule; the default one has no pattern."""

    pattern: re.Pattern[str] | None = None
    replacement: Callable[[Match], str] = Match.group
    letters: Callable[[str], str] = str

    def apply(self, name: str) -> str | None:
        """Returns the name of the user, None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return self.letters(self.pattern.sub(self.replacement, name))


class PrincipalMapping:
    """The rules by which one listener maps names to principals."""

    def __init__(self, text: str) -> None:
        """Raises ValueError, with the malformed rule."""
        self._rules: list[Rule] = []
        position, text = 0, text.strip()
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(f"{text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
            if found["nothing"] is None:
                self._rules.append(_rule(found))
            position = found.end()

    def user(self, name: str) -> str:
        """Returns the user for a certificate's name. Raises ValueError if no rule matches, or if the matching one is
        wrong.
        """
        for rule in self._rules:
            user = rule.apply(name)
            if user is not None:
                return user
        raise ValueError(f"no rule of {KEY} matches its certificate's name {name}")


def _rule(found: Match) -> Rule:
    if found["default"]:
        return Rule()
    pattern = compiled(found["pattern"])
    letters = {"L": str.lower, "U": str.upper}.get(found["letters"], str)
    return Rule(pattern, partial(expanded, _with_literals(found["replacement"], pattern.groups)), letters)


def _with_literals(text: str, groups: int) -> str:
    """Puts a backslash before each number that no group has. Kafka puts all but the first one place too early."""
    if not groups:
        return text
    escaped = text
    for found in _REFERENCE.finditer(text):
        number = 0 if found[1].startswith("0") else int(found[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            escaped = f"{escaped[: found.start()]}\\{escaped[found.start() :]}"
    return escaped
