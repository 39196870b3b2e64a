"""Reads the schemas: one text file per API, every version of it in one place.

    # KIP-74 limits, KIP-227 sessions, KIP-516 topic ids            remarks: up to the end of a line
    api 1 Fetch 4-18, flexible 12+                                  key, name, versions
                                                                    (``advertised 0+``: see Produce)
    request
        replica_id        int32 = -1        4-14                    name, type, default, versions
        topics            []FetchTopic                              no versions: those around it
            topic         string            0-12 ignorable          an inner struct is indented
            topic_id      uuid              13+ ignorable
        cluster_id        string? = null    12+ tag 0               nullable; a tagged field
        rack_id           string?7+                                 nullable from version 7 on

    response
        …
        struct Name                                                 a struct that is used twice
            …

Types: bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records, a struct's
name, and ``[]`` of these. Without a default: false, 0, the zero uuid, "", b"", an empty array; null
for records. ``ignorable``: the field is dropped silently if the version lacks it. If any other field
that the version lacks is set, the encoder of a request raises. A tagged struct is None unless it is sent.

Formats of internal records are written alike: ``record Name 0-4, flexible 4+``, then ``fields``. ``open`` says that
later versions are read as the latest known here. For an API it says that bytes behind the end of a request are ignored.
Versions may be one number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

PRIMITIVES = frozenset(
    {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"}
    | {"uuid", "string", "bytes", "records"}
)
_NEVER = 0x7FFF


class SchemaError(ValueError):
    """A schema file that does not follow the grammar. The text has file, line and reason."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parses ``4-14``, ``7+`` or ``3``."""
        if text.endswith("+"):
            return cls(int(text[:-1]), _NEVER)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


NO_VERSION = Versions(_NEVER, -1)


@dataclass(slots=True)
class Field:
    """One line of a schema."""

    name: str
    type: str  # without [] and ?
    array: bool
    versions: Versions
    nullable: Versions = NO_VERSION
    default: str | None = None
    tag: int | None = None
    ignorable: bool = False
    fields: list[Field] = field(default_factory=list)  # of a struct that is defined in place

    @property
    def is_struct(self) -> bool:
        return self.type not in PRIMITIVES


@dataclass(slots=True)
class Body:
    """A request, a response or a record: its fields, and its separately defined structs."""

    fields: list[Field] = field(default_factory=list)
    structs: dict[str, list[Field]] = field(default_factory=dict)

    def all_structs(self) -> dict[str, list[Field]]:
        """Returns every struct by name, inner ones before those that contain them."""
        found: dict[str, list[Field]] = {}
        for name, fields in self.structs.items():
            _collect(fields, found)
            found[name] = fields
        _collect(self.fields, found)
        return found


def _collect(fields: list[Field], found: dict[str, list[Field]]) -> None:
    for line in fields:
        if line.fields:
            _collect(line.fields, found)
            found[line.type] = line.fields


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a schema that is not a remark."""

    path: Path
    kind: str  # api or record
    key: int  # -1 for a record
    name: str
    versions: Versions
    flexible: Versions
    advertised: Versions
    is_open: bool

    @property
    def flexible_from(self) -> int:
        """The first flexible version, 32767 if there is none."""
        return self.flexible.first


_HEAD = re.compile(r"(?:api (?P<key>\d+)|record) (?P<name>\w+) (?P<versions>[\d-]+)(?P<rest>.*)")


def read_head(path: Path) -> Head:
    """Reads only the head."""
    with path.open(encoding="utf-8") as lines:
        return _parse_head(path, next(line for line in lines if not line.startswith("#")))


def _parse_head(path: Path, line: str) -> Head:
    match = _HEAD.match(line)
    if match is None:
        raise SchemaError(f"{path.name}: {line.strip()!r} is not a head")
    words = dict(word.strip().partition(" ")[::2] for word in match["rest"].split(",")[1:])
    versions = Versions.parse(match["versions"])
    return Head(
        path,
        "record" if match["key"] is None else "api",
        int(match["key"] or -1),
        match["name"],
        versions,
        Versions.parse(words["flexible"]) if "flexible" in words else NO_VERSION,
        Versions.parse(words["advertised"]) if "advertised" in words else versions,
        "open" in words,
    )


def read_bodies(head: Head) -> dict[str, Body]:
    """Returns the bodies of a schema: ``request`` and ``response``, or ``fields`` of a record."""
    return _BodyParser(head).parse()


_FIELD = re.compile(
    r"(?P<name>\w+) +(?P<array>\[\])?(?P<type>\w+)(?P<nullable>\?(?P<nullable_in>\d[\d+-]*)?)?"
    r"(?: = (?P<default>\S+))?(?: +(?P<versions>\d[\d+-]*))?(?: +tag (?P<tag>\d+))?"
    r"(?P<ignorable> +ignorable)?$"
)


class _BodyParser:
    """Follows the indentation: ``open`` has the (indent, fields) of the enclosing lines."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.bodies: dict[str, Body] = {}
        self.body = Body()
        self.open: list[tuple[int, list[Field]]] = []

    def parse(self) -> dict[str, Body]:
        numbered = enumerate(self.head.path.read_text(encoding="utf-8").splitlines(), 1)
        lines = [(n, line.partition("#")[0].rstrip()) for n, line in numbered]
        for number, line in [(n, line) for n, line in lines if line][1:]:
            try:
                self._line(line)
            except (ValueError, IndexError) as error:
                raise SchemaError(f"{self.head.path.name}:{number}: {error}") from None
        return self.bodies

    def _line(self, line: str) -> None:
        text = line.lstrip()
        indent = len(line) - len(text)
        if indent == 0:
            self.body = self.bodies[text] = Body()
            self.open = [(0, self.body.fields)]
        elif text.startswith("struct "):
            fields = self.body.structs[text.split()[1]] = []
            self.open = [(0, self.body.fields), (indent, fields)]
        else:
            self._field(indent, text)

    def _field(self, indent: int, text: str) -> None:
        while indent <= self.open[-1][0]:
            self.open.pop()
        line = self._parse(text)
        self.open[-1][1].append(line)
        if line.is_struct:
            self.open.append((indent, line.fields))

    def _parse(self, text: str) -> Field:
        match = _FIELD.match(text)
        if match is None:
            raise ValueError(f"{text!r} is not a field")
        versions = Versions.parse(match["versions"]) if match["versions"] else self.head.versions
        nullable = NO_VERSION
        if match["nullable"]:
            nullable = Versions.parse(match["nullable_in"]) if match["nullable_in"] else versions
        return Field(
            match["name"],
            match["type"],
            match["array"] is not None,
            versions,
            nullable,
            match["default"],
            int(match["tag"]) if match["tag"] else None,
            match["ignorable"] is not None,
        )
