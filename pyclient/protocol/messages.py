"""Creates message classes from schemas, and compiles their plans.

There is one class per struct for all versions, as in Kafka's own clients. A field that a version lacks keeps its
default when decoded. Inner structs are attributes of the message: ``Fetch.Request.FetchTopic``. A plan is compiled per
version; ``cy.wire.plan`` executes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cy.wire import wire_types
from cy.wire.messages import Message, message_class
from cy.wire.plan import Nullable, Plan, TaggedNullable
from cy.wire.wire_types import WireType
from pyclient.protocol.schema import NO_VERSION, Body, Field

ZERO_UUID = bytes(16)

_TYPES: dict[str, type[WireType]] = {
    "bool": wire_types.Bool,
    "int8": wire_types.Int8,
    "int16": wire_types.Int16,
    "uint16": wire_types.UInt16,
    "int32": wire_types.Int32,
    "uint32": wire_types.UInt32,
    "int64": wire_types.Int64,
    "float64": wire_types.Float64,
    "uuid": wire_types.Uuid,
}
_SIZED: dict[str, type[wire_types.Sized]] = {
    "string": wire_types.String,
    "bytes": wire_types.Bytes,
    "records": wire_types.Records,
}
_FIXED: dict[str, WireType] = {name: make() for name, make in _TYPES.items()}
_DEFAULTS: dict[str, Any] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}


def default_of(line: Field, structs: dict[str, type[Message]]) -> Any:
    """Returns the default of a field; a type if every instance gets its own value."""
    if line.default == "null":
        return None
    if line.array:
        return list
    if line.is_struct:
        return structs[line.type] if line.tag is None or line.nullable != NO_VERSION else None
    if line.default is None:
        return _DEFAULTS.get(line.type, 0)
    if line.type == "bool":
        return line.default == "true"
    return line.default if line.type == "string" else int(line.default, 0)


def message_classes(body: Body, qualname: str, attributes: dict[str, Any]) -> type[Message]:
    """Returns the class of a body, with its structs nested in it. ``attributes`` are those of the outer class."""
    structs: dict[str, type[Message]] = {}
    module = {"__module__": "pyclient.protocol"}
    for name, fields in body.all_structs().items():
        defaults = {line.name: default_of(line, structs) for line in fields}
        inner = module | {"__qualname__": f"{qualname}.{name}"}
        structs[name] = message_class(name, defaults, inner)
    defaults = {line.name: default_of(line, structs) for line in body.fields}
    outer = module | {"__qualname__": qualname} | structs | attributes
    return message_class(qualname.rpartition(".")[2], defaults, outer)


def compiler(
    body: Body, message: type[Message], is_flexible: Callable[[int], bool], *, strict: bool
) -> Callable[[int], Plan]:
    """Returns a function that compiles the plan of a version. A ``Codec`` calls it when a version first occurs.

    With ``strict``, it is an error if a field is set that is not ``ignorable`` and not in the version. Requests and
    records are strict; responses drop what their version does not have.
    """

    def compile_plan(version: int) -> Plan:
        return _PlanCompiler(body, message, version, is_flexible(version), strict).compile()

    return compile_plan


class _PlanCompiler:
    """Compiles one version of one body."""

    def __init__(
        self, body: Body, message: type[Message], version: int, flexible: bool, strict: bool
    ) -> None:
        self.body = body
        self.message = message
        self.version = version
        self.flexible = flexible
        self.strict = strict
        self.structs = body.all_structs()
        self.plans: dict[str, Plan] = {}

    def compile(self) -> Plan:
        return self._plan(self.message, self.body.fields)

    def _plan(self, message: type[Message], lines: list[Field]) -> Plan:
        here = [line for line in lines if self.version in line.versions]
        missing = [line for line in lines if self.version not in line.versions]
        return Plan(
            message,
            [(line.name, self._type(line)) for line in here if line.tag is None],
            [(line.name, self._type(line), line.tag) for line in here if line.tag is not None],
            [line.name for line in missing if self.strict and not line.ignorable],
            self.flexible,
        )

    def _type(self, line: Field) -> WireType:
        nullable = self.version in line.nullable
        if line.array:
            return wire_types.Array(
                self._one(line, False), compact=self.flexible, nullable=nullable
            )
        return self._one(line, nullable)

    def _one(self, line: Field, nullable: bool) -> WireType:
        if line.is_struct:
            plan = self._struct(line.type)
            if nullable:
                return Nullable(plan) if line.tag is None else TaggedNullable(plan)
            return plan
        if line.type in _FIXED:
            return _FIXED[line.type]
        return _SIZED[line.type](compact=self.flexible, nullable=nullable)

    def _struct(self, name: str) -> Plan:
        if name not in self.plans:
            self.plans[name] = self._plan(getattr(self.message, name), self.structs[name])
        return self.plans[name]
