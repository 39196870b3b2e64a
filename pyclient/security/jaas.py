"""``sasl.jaas.config`` in Java's syntax: one login module and its options. The module is never loaded: CVE-2023-25194
and CVE-2025-27818 were modules that connected elsewhere.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<mark>[=;]) | (?P<word>(?!//|/\*)[^\s"'=;]+?(?=[\s"'=;]|//|/\*|\Z))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "PlainLoginModule": ("username", "password", "user_*", "serviceName"),
    "ScramLoginModule": ("username", "password", "tokenauth", "serviceName"),
    "OAuthBearerLoginModule": (
        *("scope", "clientId", "clientSecret", "extension_*", "unsecured*", "ssl.*", "serviceName"),
    ),
    "Krb5LoginModule": (
        *("useKeyTab", "keyTab", "principal", "storeKey", "useTicketCache", "ticketCache", "serviceName"),
        *("renewTGT", "doNotPrompt", "isInitiator", "refreshKrb5Config", "useFirstPass", "tryFirstPass", "storePass"),
        *("clearPass", "debug"),
    ),
}
"""The options of Kafka's modules and of Java's Kerberos module, for clients and brokers."""
_IS: Final = (True, "=")
_END: Final = (True, ";")
_MARKS: Final = (_IS, _END)


class JaasError(ValueError):
    """The text is not JAAS. The error shows nothing of it, because it may be a secret."""


@dataclass(frozen=True)
class LoginModule:
    """The login module of a text."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """The class name without the package: ``PlainLoginModule``."""
        return self.class_name.rpartition(".")[2]


def parse(text: str) -> LoginModule:
    """Returns the login module of a ``sasl.jaas.config``. Raises JaasError."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[0] in _MARKS:
        raise JaasError('it must be `CLASS required name="value" …;`')
    (_, name), (_, flag), *rest = tokens
    if flag.lower() not in _FLAGS:
        raise JaasError(f"the class must be followed by one of {', '.join(_FLAGS)}")
    if rest[-1] != _END:
        raise JaasError("it must end with ;")
    if _END in rest[:-1]:
        raise JaasError("it names several login modules instead of one")
    return LoginModule(name, _checked(name.rpartition(".")[2], list(_options(rest[:-1]))))


def _checked(module: str, options: list[tuple[str, str]]) -> dict[str, str]:
    """Returns the options by name. Raises JaasError for a duplicate, or for one that a known module does not have."""
    found: dict[str, str] = {}
    for at, (name, value) in enumerate(options, 1):
        if name in found:
            raise JaasError(f"its option {at} is a duplicate")
        if module in _KNOWN and not any(fnmatchcase(name, known) for known in _KNOWN[module]):
            raise JaasError(f"its option {at} is unknown: {module} has {', '.join(_KNOWN[module])}")
        found[name] = value
    return found


def _options(tokens: list[tuple[bool, str]]) -> Iterator[tuple[str, str]]:
    """Returns the ``name=value`` pairs. Raises JaasError."""
    for at in range(0, len(tokens), 3):
        option = tokens[at : at + 3]
        if len(option) < 3 or option[1] != _IS or option[0] in _MARKS or option[2] in _MARKS:
            raise JaasError(f'its option {at // 3 + 1} is not name="value"')
        yield option[0][1], option[2][1]


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Returns each token: whether it is a mark, and its text. Raises JaasError."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise JaasError("a quoted value or a comment is not closed")
        at = found.end()
        kind = found.lastgroup
        if kind is not None:
            value = found[kind]
            yield kind == "mark", value if kind in ("mark", "word") else _ESCAPE.sub(_unescaped, value)


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _CONTROLS.get(escaped, escaped)
