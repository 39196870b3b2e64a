"""``ssl.principal.mapping.rules``: map the name in a certificate to the name of a user.

    RULE:pattern/replacement/[LU]    if the pattern matches the whole name; $1 is its first group; L: lower case,
                                     U: upper case
    DEFAULT                          the name itself

The first matching rule counts. Patterns and replacements are Java's, as far as Python's ``re`` supports them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<letters>[LU]?))"
    r"\s*(?:,\s*|\Z)"
)
_PART: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}", re.DOTALL)
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")

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
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises ValueError, with the malformed rule."""
        self._rules: list[Rule] = []
        position, text = 0, text.strip()
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(f"{text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
            self._rules.append(_rule(found))
            position = found.end()

    def user(self, name: str) -> str:
        """Returns the user for a certificate's name. Raises ValueError if no rule matches."""
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
    return Rule(pattern, replacement(found["replacement"], pattern), letters)


def compiled(text: str) -> re.Pattern[str]:
    """Compiles a pattern of Java. Raises ValueError."""
    try:
        return re.compile(_NAMED_GROUP.sub("(?P<", text))
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None


def replacement(text: str, pattern: re.Pattern[str]) -> Callable[[Match], str]:
    """Replaces as Java does: ``$1``, ``${name}``; a backslash escapes the next character. A number without a group is
    text.
    """

    def part(given: Match, found: Match) -> str:
        if given["escaped"] is not None:
            return given["escaped"]
        if given["name"] is not None:
            return found[given["name"]] or ""
        digits = given["number"]
        used = len(digits)
        while used > 1 and int(digits[:used]) > pattern.groups:
            used -= 1
        if int(digits[:used]) > pattern.groups:
            return given[0]
        return (found[int(digits[:used])] or "") + digits[used:]

    return lambda found: _PART.sub(lambda given: part(given, found), text)
