"""``sasl.kerberos.principal.to.local.rules``: map a Kerberos principal to the name of a user.

    RULE:[n:format](match)s/from/to/g/L    for a principal with n parts before its realm; $1 is the first part, $0 the
                                           realm; everything after the brackets is optional; g: replace all; L: lower
                                           case, U: upper case
    DEFAULT                                the first part, if the realm is the default one

The first rule that matches the principal is used. Patterns and replacements are Java's (``java_patterns``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from pybroker.security.java_patterns import compiled, expanded

_PRINCIPAL: Final = re.compile(r"([^/@\\]+)(?:/([^/@\\]*))?@([^/@\\]+)")
_RULE: Final = re.compile(
    r"DEFAULT|RULE:\[(?P<parts>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<wanted>[^/]*)/(?P<instead>[^/]*)/(?P<each>g)?)?/?(?P<letters>[LU])?"
)
_PART: Final = re.compile(r"\$(\d*)")
_NOT_SIMPLE: Final = re.compile("[/@]")
_MOST_PARTS: Final = 2

Apply = Callable[[Sequence[str]], str | None]


class _Rule(NamedTuple):
    """A rule that makes a short name of a principal by a format."""

    text: str
    parts: int
    format: str
    match: re.Pattern[str] | None
    change: Callable[[str], str]
    letters: Callable[[str], str]

    def apply(self, given: Sequence[str]) -> str | None:
        """Returns the name, None if the rule does not match. ``given`` is the realm and the parts of the principal."""
        if len(given) - 1 != self.parts:
            return None
        base = _PART.sub(lambda found: given[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        name = self.change(base)
        if _NOT_SIMPLE.search(name):
            raise ValueError(f"the name {name} after {self.text} contains / or @")
        return self.letters(name)


class ShortNames:
    """The rules by which one listener shortens principals."""

    def __init__(self, rules: Iterable[str], realm: str) -> None:
        """``realm`` is the default realm; empty if there is none. Raises ValueError, which names the malformed rule."""
        self._realm = realm
        self._rules = [_rule(text.strip(), self._default) for text in rules]

    def _default(self, given: Sequence[str]) -> str | None:
        return given[1] if given[0] == self._realm else None

    def own(self, principal: str) -> str:
        """Returns the user's name for this broker's principal, which may lack the default realm. Raises ValueError."""
        return self.user(principal if "@" in principal else f"{principal}@{self._realm}")

    def user(self, principal: str) -> str:
        """Returns the user's name for a principal. Raises ValueError if it has none."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise ValueError(f"the principal {principal} does not have the form NAME[/HOST]@REALM")
        given = [found[3], found[1]] + ([found[2]] if found[2] is not None else [])
        for apply in self._rules:
            name = apply(given)
            if name:
                return name
        raise ValueError(f"no rule of sasl.kerberos.principal.to.local.rules matches the principal {principal}")


def _rule(text: str, default: Apply) -> Apply:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is neither DEFAULT nor RULE:[n:format](match)s/from/to/g/L")
    if found["parts"] is None:
        return default
    parts = int(found["parts"])
    for part in _PART.findall(found["format"]):
        if not part or int(part) > min(parts, _MOST_PARTS):
            raise ValueError(f"{text!r} has ${part}, and there are $0 to ${min(parts, _MOST_PARTS)}")
    match = None if found["match"] is None else compiled(found["match"])
    change = str if found["wanted"] is None else _change(found["wanted"], found["instead"], 0 if found["each"] else 1)
    letters = {"L": str.lower, "U": str.upper}.get(found["letters"], str)
    return _Rule(text, parts, found["format"], match, change, letters).apply


def _change(wanted: str, instead: str, count: int) -> Callable[[str], str]:
    """Returns a function that replaces a pattern; ``count`` is how often, 0 for all."""
    pattern = compiled(wanted)
    return lambda base: pattern.sub(partial(expanded, instead), base, count)
