"""``sasl.jaas.config`` in the syntax of Java's JAAS: one login module and its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob='other';

It is read, and nothing that it names is loaded: CVE-2023-25194 and CVE-2025-27818 were modules that went elsewhere. An
error has nothing of the text, which is secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'"""
    r"""|(?P<word>[^\s"'=;/]+)|(?P<mark>[=;])""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Login(NamedTuple):
    """A login module's class, and its options."""

    module: str
    options: Mapping[str, str]


def parse(text: str) -> Login:
    """Raises ValueError, with what is wrong and where, but nothing of the text."""
    tokens = list(_tokens(text))
    if not tokens or tokens[0].is_mark:
        raise ValueError("names no login module")
    if len(tokens) < 2 or tokens[1].is_mark or tokens[1].text.lower() not in _FLAGS:
        raise ValueError(f"has no control flag ({', '.join(_FLAGS)}) behind the login module")
    if not tokens[-1].is_end:
        raise ValueError("does not end with a semicolon")
    rest = tokens[2:-1]
    if any(token.is_end for token in rest):
        raise ValueError("has more than one login module")
    options = {}
    for start in range(0, len(rest), 3):
        option = rest[start : start + 3]
        if [token.is_mark for token in option] != [False, True, False]:
            raise ValueError(f'has an option, number {start // 3 + 1}, that is not of the form name="value"')
        options[option[0].text] = option[2].text
    return Login(tokens[0].text, options)


class _Token(NamedTuple):
    text: str
    is_mark: bool

    @property
    def is_end(self) -> bool:
        return self.is_mark and self.text == ";"


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"cannot be read from character {position + 1} on: is a quote missing?")
        position = found.end()
        if found.lastgroup in ("single", "double"):
            yield _Token(_ESCAPE.sub(_unescaped, found[found.lastgroup]), is_mark=False)
        elif found.lastgroup != "space":
            yield _Token(found[0], is_mark=found.lastgroup == "mark")


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _CONTROLS.get(escaped, escaped)
