"""The sources of settings: ``--set``, the environment and a .properties file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from pybroker.config.keys.key import ConfigError


class Setting(NamedTuple):
    """A value as text, and its source in words. ``is_marked`` is True if ``=`` or ``:`` ended the key."""

    text: str
    source: str
    is_marked: bool = True


ENVIRONMENT_PREFIX: Final = "KAFKA_"
BITNAMI_PREFIX: Final = "KAFKA_CFG_"
"""The prefix in the environment of Bitnami's image."""

# Kafka's own scripts set these, and Kubernetes does for a service named kafka. They are not configuration.
_FOREIGN = re.compile(
    r"KAFKA_((HOME|OPTS|VERSION|DEBUG|MODE|JMX_\w+|HEAP_OPTS|GC_LOG_OPTS|GC_LOG_ENABLED|LOG4J_\w+"
    r"|JVM_PERFORMANCE_OPTS|CLASSPATH|HOST|SERVICE_\w+|PORT|PORT_\w+)|\w+_(SERVICE|PORT)_\w+)\Z"
)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}|[\w-]{1,40}(?:\.[\w-]{1,40})+", re.ASCII)
"""Matches only keys: words in small letters or with dots. No line of a private key looks like that."""
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def is_name(text: str) -> bool:
    """Returns whether the text looks like a key, so that it may be shown. Any other text may be a line of a secret."""
    return _NAME.fullmatch(text) is not None


def from_arguments(arguments: Iterable[str], source: str = "--set") -> dict[str, Setting]:
    """Parses the ``key=value`` texts of ``--set``. Raises ConfigError without a ``=``. ``source`` names their origin.
    """
    settings = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {argument} is not of the form key=value")
        settings[name.strip()] = Setting(text, source)
    return settings


def from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """Reads variables: ``KAFKA_NODE_ID=1`` means ``node.id=1``. ``KAFKA_CFG_NODE_ID=1`` means the same, but is weaker.

    ``__`` means ``_``, ``___`` means ``-``.
    """
    return {
        _key_of_variable(variable): Setting(text, variable)
        for variable, text in sorted(environment.items(), key=lambda each: not each[0].startswith(BITNAMI_PREFIX))
        if variable.startswith(ENVIRONMENT_PREFIX) and not _FOREIGN.match(variable)
    }


def _key_of_variable(variable: str) -> str:
    name = variable.removeprefix(BITNAMI_PREFIX).removeprefix(ENVIRONMENT_PREFIX).lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def from_file(path: str) -> dict[str, Setting]:
    """Reads the settings of a .properties file. Raises ConfigError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            text = _decoded(file.read())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return {
        name: Setting(value, f"{path}:{line}", is_marked) for line, name, value, is_marked in _entries(text)
    }


def _decoded(data: bytes) -> str:
    """Decodes UTF-8, with or without a byte order mark, or else ISO-8859-1 like java.util.Properties. Raises ValueError
    for binary files.
    """
    if b"\0" in data:
        raise ValueError("is not a text in UTF-8 or ISO-8859-1")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def parse_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields line number, key and value of each entry, by the rules of java.util.Properties.

    ``#`` and ``!`` begin a comment line. ``=``, ``:`` or white space ends a key. A backslash at the end of a line
    continues it with the next line, without that line's indentation.
    ``\\t \\n \\r \\f \\uXXXX`` are as in Java; any other escaped character
    stands for itself.
    """
    for number, name, value, _ in _entries(text):
        yield number, name, value


def _entries(text: str) -> Iterator[tuple[int, str, str, bool]]:
    """Does ``parse_properties``, and also yields whether ``=`` or ``:`` ends the key of an entry."""
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(" \t\f")
        is_marked = rest[:1] in ("=", ":")
        if is_marked:
            rest = rest[1:].lstrip(" \t\f")
        yield number, _unescape(line[:end], number), _unescape(rest, number), is_marked


def to_properties(settings: Mapping[str, str]) -> str:
    """Returns the text of a .properties file with these settings."""
    return "".join(f"{_escape(name)}={_escape(text)}\n" for name, text in settings.items())


def _escape(text: str) -> str:
    letters = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
    return re.sub(r"[\\=: #!]|[\t\n\r\f]", lambda match: letters.get(match[0], f"\\{match[0]}"), text)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    begun, parts = 0, list[str]()
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not parts and (not line or line[0] in "#!"):
            continue
        begun = begun if parts else number
        if _ends_in_odd_backslashes(line):
            parts.append(line[:-1])
            continue
        yield begun, "".join((*parts, line))
        parts = []
    if parts:
        yield begun, "".join(parts)


def _ends_in_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _end_of_key(line: str) -> int:
    match = re.match(r"(?:\\.|[^\\=: \t\f])*", line, re.DOTALL)
    return match.end() if match else 0


def _unescape(text: str, line: int) -> str:
    def replacement(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped == "u":
            raise ConfigError(f"line {line}: \\u needs four hexadecimal digits")
        if escaped.startswith("u"):
            return chr(int(escaped[1:], 16))
        return _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.|$)", replacement, text, flags=re.DOTALL)
