"""A setting's key, kind, default, valid values and meaning, and how a value is parsed.

A value is a Python value or the text of a properties file: ``32768`` or ``"32768"``.
"""

from __future__ import annotations

import difflib
import math
import re
from enum import Enum
from typing import Any, Final, NamedTuple

from pyclient.errors import ConfigError

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1


class Kind(Enum):
    """The kinds of values, by their Python types. For an ``OBJECT`` the key's doc tells what it must be."""

    BOOL = "a boolean"
    INT = "an integer"
    FLOAT = "a number"
    STRING = "a string"
    LIST = "a list of strings"
    PASSWORD = "a password"
    OBJECT = "an object"


BOOL, INT, FLOAT = Kind.BOOL, Kind.INT, Kind.FLOAT
STRING, LIST, PASSWORD, OBJECT = Kind.STRING, Kind.LIST, Kind.PASSWORD, Kind.OBJECT
HIDDEN: Final = "[hidden]"
"""Shown in place of a password, as in Kafka."""
_OF_OTHERS: Final = {"beginning": "earliest", "smallest": "earliest", "end": "latest", "largest": "latest"}
"""Words of other clients, each with the word that means the same here."""


class Password(str):
    """A string whose ``repr`` hides it."""

    def __repr__(self) -> str:
        return HIDDEN


class Key(NamedTuple):
    """One row of a table of keys.

    ``low`` and ``high`` are the limits of a number. ``words`` are the valid values of a string; one that ends in ``:``
    is a prefix. ``None`` is valid if it is the default.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()

    def read(self, value: Any) -> Any:
        """Returns the typed value. Raises ConfigError."""
        if self.kind is OBJECT or (value is None and self.default is None):
            return value
        try:
            typed = _READ[self.kind](value)
        except (TypeError, ValueError):
            raise self._error(value, f"is not {self.kind.value}{_hint(self.kind, value)}") from None
        complaint = self._complaint(typed)
        if complaint:
            raise self._error(value, complaint)
        return typed

    def _complaint(self, value: Any) -> str:
        if self.kind in (INT, FLOAT):
            if self.low is not None and value < self.low:
                return f"is below {self.low}"
            if self.high is not None and value > self.high:
                return f"is above {self.high}"
        if self.words and self.kind is STRING and not any(_is_word(value, w) for w in self.words):
            shown = [f"{word}…" if word.endswith(":") else word for word in self.words]
            others = [other for other, word in _OF_OTHERS.items() if word in self.words]
            small = {word.lower(): word for word in (*self.words, *others)}
            near = [small[each] for each in difflib.get_close_matches(value.lower(), small, 1)]
            meant = f": did you mean {_OF_OTHERS.get(near[0], near[0])}?" if near else ""
            return f"is {'not one of' if self.words[1:] else 'not there yet, only'} {', '.join(shown)}{meant}"
        return ""

    def _error(self, value: Any, complaint: str) -> ConfigError:
        shown = HIDDEN if self.kind is PASSWORD else repr(value)
        return ConfigError(f"{self.name}={shown} {complaint}")


_WITH_UNIT: Final = re.compile(r"\d+(\.\d+)? ?[A-Za-z]+")


def _hint(kind: Kind, value: Any) -> str:
    """Returns what to write instead of a number with a unit, such as ``16KB``."""
    has_unit = kind in (INT, FLOAT) and isinstance(value, str) and _WITH_UNIT.fullmatch(value.strip()) is not None
    return ": a client's settings take no units, only bytes or what the name says (ms)" if has_unit else ""


def _is_word(value: str, word: str) -> bool:
    return value.startswith(word) if word.endswith(":") else value == word


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(value)


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(value)
    number = int(value)
    if not -MAX_LONG <= number <= MAX_LONG:
        raise ValueError(value)
    return number


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _string(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(value)
    return str(value).strip()  # acks=1


def _password(value: Any) -> Password:
    if not isinstance(value, str):
        raise ValueError
    return Password(value)


def _list(value: Any) -> tuple[str, ...]:
    members = value.split(",") if isinstance(value, str) else list(value)
    if not all(isinstance(member, str) for member in members):
        raise ValueError(value)
    return tuple(member.strip() for member in members if member.strip())


_READ = {BOOL: _bool, INT: _int, FLOAT: _float, STRING: _string, LIST: _list, PASSWORD: _password}
