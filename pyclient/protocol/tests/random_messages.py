"""Random messages of a schema's version, and the JSON that Kafka's converters read.

Every field often takes its edge cases: the ends of its range, its default, and null where that is allowed. Texts are
empty or long, or have characters outside ASCII. Arrays have a count of two bytes.
"""

from __future__ import annotations

import base64
import random
from typing import Any

from cy.wire.messages import Message
from pyclient.protocol.messages import default_of
from pyclient.protocol.schema import Body, Field

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXTS = ("", "a", "flights", "топик", "日本", "😀", "x" * 126, "x" * 127, "é" * 100)


class Source:
    """Makes random messages of one body in one version."""

    def __init__(self, seed: int, body: Body, message: type[Message], version: int) -> None:
        self.random = random.Random(seed)
        self.body = body
        self.message = message
        self.version = version
        self.structs = body.all_structs()

    def next(self) -> tuple[Message, dict[str, Any]]:
        """Returns a message and its JSON."""
        return self._struct(self.message, self.body.fields)

    def _struct(self, message: type[Message], lines: list[Field]) -> tuple[Any, dict[str, Any]]:
        values, json = {}, {}
        for line in lines:
            if self.version in line.versions and not self._left_out(line):
                values[line.name], json[camel(line.name)] = self._value(line)
        return message(**values), json

    def _left_out(self, line: Field) -> bool:
        return line.tag is not None and self.random.random() < 0.5

    def _value(self, line: Field) -> tuple[Any, Any]:
        if self.version in line.nullable and self.random.random() < 0.25:
            return None, None
        if line.array:
            pairs = [self._one(line) for _ in range(self._count(line))]
            return [value for value, _ in pairs], [json for _, json in pairs]
        if not line.is_struct and line.type != "records" and self.random.random() < 0.1:
            value = default_of(line, {})
            if value is not None or self.version in line.nullable:
                return value, self._json(line, value)
        return self._one(line)

    def _count(self, line: Field) -> int:
        rare = self.random.random()
        if rare < 0.01 and not line.is_struct:
            return 130
        return self.random.choice((0, 1, 1, 1, 2, 3))

    def _one(self, line: Field) -> tuple[Any, Any]:
        if line.is_struct:
            value = self._struct(getattr(self.message, line.type), self.structs[line.type])
            if (
                line.tag is not None
                and self.version not in line.nullable
                and not line.array
                and value[0] == getattr(self.message, line.type)()
            ):
                return None, value[1]  # such a struct is not sent, so it comes back as None
            return value
        value = self._primitive(line.type)
        return value, self._json(line, value)

    def _primitive(self, kind: str) -> Any:
        if kind in _RANGES:
            low, high = _RANGES[kind]
            edges = (low, high, max(-1, low), 0, 1)
            return self.random.choice((*edges, self.random.randint(low, high)))
        if kind == "bool":
            return self.random.random() < 0.5
        if kind == "float64":
            return self.random.uniform(-1e9, 1e9)
        if kind == "string":
            return self.random.choice(_TEXTS)
        if kind == "uuid":
            return self.random.choice((bytes(16), self.random.randbytes(16)))
        return self.random.randbytes(self.random.choice((0, 1, 40, 127, 128)))

    def _json(self, line: Field, value: Any) -> Any:
        if not isinstance(value, bytes):
            return value
        if line.type == "uuid":
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()


def camel(name: str) -> str:
    """Returns Kafka's name: ``maxWaitMs`` for ``max_wait_ms``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
