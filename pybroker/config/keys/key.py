"""The definition of a configuration key: name, type, default and valid values, and how its text is parsed.

A value has two forms: the text in files, the environment and requests, and the typed value in the program.
``Key.parse`` converts the text by Kafka's rules for each type, and ``format_value`` converts the value back. ``None``
is Kafka's null: the key is unset and has no default.
"""

from __future__ import annotations

import math
import re
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1
MAX_DOUBLE: Final = 1.7976931348623157e308

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_WITH_UNIT = re.compile(r"\s*[0-9]+(\.[0-9]+)? ?[A-Za-z]+\s*\Z")
_SEPARATOR = re.compile(r"\s*,\s*")


class ConfigError(ValueError):
    """Raised for an unknown key or a bad value. The text names the key, the value, its source, and the valid values."""


class Type(IntEnum):
    """Kafka's types of values; the number is ``config_type`` of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Tells whether a key may be changed while the broker runs, and for which brokers."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(Enum):
    """The importance of a key in Kafka's documentation."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


BOOLEAN, STRING, INT, SHORT = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT
LONG, DOUBLE, LIST = Type.LONG, Type.DOUBLE, Type.LIST
CLASS, PASSWORD = Type.CLASS, Type.PASSWORD
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Scope.READ_ONLY, Scope.PER_BROKER, Scope.CLUSTER_WIDE
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

_BITS: Final = {SHORT: 15, INT: 31, LONG: 63}


class Valid(NamedTuple):
    """The valid values of a key: a range of numbers, or some words. For a list, each member must be valid."""

    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    pattern: str = ""
    any_case: bool = False
    besides: int | None = None

    def complaint(self, value: Value) -> str | None:
        """Returns the fault of ``value`` as the rest of a sentence, or None."""
        if isinstance(value, (int, float)) and value != self.besides:
            if self.low is not None and value < self.low:
                return f"is below {self.low}"
            if self.high is not None and value > self.high:
                return f"is above {self.high}"
        if self.words and value is not None:
            members = value if isinstance(value, tuple) else (str(value),)
            known = {word.lower() for word in self.words} if self.any_case else set(self.words)
            if any((word.lower() if self.any_case else word) not in known for word in members):
                return f"is not one of {', '.join(self.words)}"
        if self.pattern and not re.fullmatch(self.pattern, format_value(value) or ""):
            return f"does not match {self.pattern}"
        return None

    def __str__(self) -> str:
        if self.words:
            return f"[{', '.join(self.words)}]"
        if self.low is None:
            return ""
        text = f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"
        return text if self.besides is None else f"{text} or {self.besides}"


ANY: Final = Valid()
THROTTLED_REPLICAS: Final = Valid(pattern=r"\*|(\d+:\d+(,\d+:\d+)*)?")
GZIP_LEVEL: Final = Valid(1, 9, besides=-1)


def at_least(low: int) -> Valid:
    """Accepts numbers of at least ``low``."""
    return Valid(low)


def between(low: float, high: float) -> Valid:
    """Accepts numbers from ``low`` to ``high``, inclusive."""
    return Valid(low, high)


def one_of(*words: str) -> Valid:
    """Accepts one of these words; in a list, each member must be one of them."""
    return Valid(words=words)


def any_case(*words: str) -> Valid:
    """Accepts one of these words, in any case."""
    return Valid(words=words, any_case=True)


class Synonym(NamedTuple):
    """A broker key that gives a topic key its default: the broker key's value times ``factor`` (hours to ms)."""

    name: str
    factor: int = 1


class Key(NamedTuple):
    """One row of a table of keys.

    ``inert`` keys are Kafka's; they are accepted and shown, but have no effect here. ``synonyms`` of a topic or group
    key are the broker keys of its default, the strongest first.
    """

    name: str
    type: Type
    default: Value
    valid: Valid
    importance: Importance
    scope: Scope
    doc: str
    synonyms: tuple[Synonym, ...] = ()
    inert: bool = False

    @property
    def is_sensitive(self) -> bool:
        """True if the value must be neither shown nor logged."""
        return self.type is PASSWORD

    def parse(self, text: str, source: str = "") -> Value:
        """Returns the typed value of ``text``. Raises ConfigError, which names ``source``."""
        try:
            value = parse_type(self.type, text)
        except ValueError:
            raise self._error(text, f"is not {_expected(self.type, text)}", source) from None
        return self.check(value, source)

    def parse_stored(self, text: str | None) -> Value:
        """Returns the typed value of a text from the store; None if it is unset or does not parse.
        """
        try:
            return None if text is None else self.parse(text)
        except ConfigError:
            return None

    def check(self, value: Value, source: str = "") -> Value:
        """Returns ``value``. Raises ConfigError if it is not valid."""
        complaint = self.valid.complaint(value)
        if complaint is not None:
            raise self._error(format_value(value) or "", complaint, source)
        return value

    def _error(self, text: str, complaint: str, source: str) -> ConfigError:
        shown = "[hidden]" if self.is_sensitive else text
        where = f" (from {source})" if source else ""
        return ConfigError(f"{self.name}={shown} {complaint}{where}")


def _expected(kind: Type, text: str) -> str:
    """Returns a phrase that says what ``text`` should be."""
    if kind not in _BITS:
        return "true or false" if kind is BOOLEAN else "a number"
    if _INTEGER.match(text.strip()):
        return f"a whole number of {_BITS[kind] + 1} bits"
    return "a whole number" + (": only pybroker's own verbs take units" if _WITH_UNIT.match(text) else "")


def parse_type(kind: Type, text: str) -> Value:
    """Parses ``text`` like Kafka's ConfigDef. Raises ValueError."""
    if kind is PASSWORD:
        return text
    text = text.strip()
    if kind is BOOLEAN:
        return _parse_boolean(text)
    if kind in _BITS:
        return _parse_integer(text, _BITS[kind])
    if kind is DOUBLE:
        return _parse_double(text)
    if kind is LIST:
        return tuple(dict.fromkeys(_SEPARATOR.split(text))) if text else ()
    return text


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _parse_integer(text: str, bits: int) -> int:
    if not _INTEGER.match(text) or len(text) > 20:
        raise ValueError(text)
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(text)
    return number


def _parse_double(text: str) -> float:
    if "_" in text or not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def format_value(value: Value) -> str | None:
    """Returns the text of a typed value, as Kafka shows it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return repr(value).replace("e+", "E").replace("e", "E")
    return str(value)
